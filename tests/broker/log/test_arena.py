"""Memory of records: blocks of pages, which are used again, and go back to the system."""

from __future__ import annotations

import mmap
import re
import sys
import threading
from pathlib import Path

import pytest

from purgatorio.broker.log import arena as module
from purgatorio.broker.log.arena import (
    CHUNK_BYTES,
    FIRST_UNIT_BYTES,
    MAX_GROWN_BYTES,
    MAX_HEAP_BYTES,
    MIN_BLOCK_BYTES,
    PAGE_BYTES,
    TRIM_INTERVAL_MS,
    Arena,
    Block,
)
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.errors import MemoryExhausted
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.protocol.records import Record, build_batch
from purgatorio.purgatory.clock import ManualClock


def present_bytes(arena: Arena) -> int:
    return arena.taken_bytes + arena.idle_bytes


def pages(arena: Arena, count: int) -> Block:
    return arena.block(count * PAGE_BYTES, 0)


def address_of(block: Block) -> int:
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(block.writable))


def batch_of(value: bytes) -> bytes:
    return build_batch([Record(0, 0, None, value, ())])


def test_a_small_block_takes_no_page() -> None:
    arena = Arena()
    block = arena.block(70, 0)
    assert block.capacity_bytes == len(block.writable) == 2 * FIRST_UNIT_BYTES
    assert arena.block(70, 128).capacity_bytes == MIN_BLOCK_BYTES
    assert arena.block(MAX_HEAP_BYTES, 0).capacity_bytes == MAX_HEAP_BYTES
    assert arena.taken_bytes == 0


def test_a_block_is_as_large_as_its_batch_at_least_and_grows_with_its_segment() -> None:
    arena = Arena()
    assert arena.block(MAX_HEAP_BYTES + 1, 0).capacity_bytes == 3 * PAGE_BYTES
    assert arena.block(100, 600 * 1024).capacity_bytes == 304 * 1024
    assert arena.block(100, 1 << 30).capacity_bytes == MAX_GROWN_BYTES


def test_a_segment_after_a_full_one_begins_with_larger_blocks() -> None:
    """A log that was full before will be so again: the growth from the smallest block took 20 blocks each time."""
    log = Log(LogConfig(segment_bytes=4_000_000), memory=MemoryBudget(1 << 30))
    while log.segment_count < 3:
        log.append_as_leader(batch_of(bytes(10_000)), leader_epoch=0, wall_ms=0)
    first, second, _ = log._segments
    assert len(second._blocks) <= len(first._blocks) // 2
    assert second._blocks[0].capacity_bytes > 4_000_000 // 10


def test_a_batch_larger_than_a_chunk_has_a_chunk_of_its_own_that_goes_with_it() -> None:
    arena = Arena()
    block = arena.block(CHUNK_BYTES + 1, 0)
    block.writable[CHUNK_BYTES] = 7
    assert arena.taken_bytes == CHUNK_BYTES + PAGE_BYTES
    del block
    arena.trim()
    arena.trim()
    assert (arena.taken_bytes, arena.idle_bytes, arena._chunks) == (0, 0, [])


def test_pages_of_a_block_that_nobody_has_are_the_first_to_be_taken_again() -> None:
    arena = Arena()
    first, second = pages(arena, 3), pages(arena, 3)
    at = address_of(first)
    del first
    again = pages(arena, 3)
    assert address_of(again) == at
    assert address_of(second) != at


def test_pages_are_not_taken_while_an_answer_has_a_view_of_them() -> None:
    arena = Arena()
    block = pages(arena, 3)
    block.writable[:5] = b"first"
    view = block.readable[:5]
    del block
    other = pages(arena, 3)
    other.writable[:5] = b"other"
    assert view == b"first"
    assert arena.taken_bytes == 6 * PAGE_BYTES
    del view
    assert arena.taken_bytes == 3 * PAGE_BYTES


def test_a_small_block_is_written_to_while_an_answer_has_a_view_of_it() -> None:
    log = Log(LogConfig(), memory=MemoryBudget(1 << 30))
    views = []
    for number in range(20):
        log.append_as_leader(batch_of(b"%d" % number), leader_epoch=0, wall_ms=0)
        views.append(log.read(number, max_bytes=1000, end_offset=number + 1).parts[0])
    assert [int.from_bytes(view[:8], "big") for view in views] == list(range(20))


def test_what_is_read_of_a_block_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        pages(Arena(), 3).readable[0] = 1


def test_a_block_that_is_closed_gives_back_the_pages_behind_what_it_has() -> None:
    arena = Arena()
    block = pages(arena, 5)
    assert block.close(PAGE_BYTES + 1) == 3 * PAGE_BYTES
    assert block.capacity_bytes == arena.taken_bytes == 2 * PAGE_BYTES
    del block
    assert arena.taken_bytes == 0


def test_a_block_may_be_freed_in_another_thread() -> None:
    arena = Arena()
    blocks = [pages(arena, 3) for _ in range(10)]
    thread = threading.Thread(target=blocks.clear)
    thread.start()
    thread.join()
    assert arena.taken_bytes == 0


def test_free_pages_go_back_to_the_system_when_nobody_takes_them_for_a_while() -> None:
    clock = ManualClock()
    arena = Arena(clock)
    kept, block = pages(arena, 3), pages(arena, 8)
    kept.writable[:4] = b"kept"
    del block
    assert arena.idle_bytes == 8 * PAGE_BYTES
    clock.advance_ms(2 * TRIM_INTERVAL_MS)
    assert arena.idle_bytes == 0
    assert kept.readable[:4] == b"kept"
    assert arena.taken_bytes == 3 * PAGE_BYTES


def test_pages_that_are_taken_again_in_time_stay() -> None:
    clock = ManualClock()
    arena = Arena(clock)
    block = pages(arena, 3)
    block.writable[:4] = b"here"
    for _ in range(5):
        del block
        clock.advance_ms(TRIM_INTERVAL_MS)
        block = pages(arena, 3)
        assert block.readable[:4] == b"here"


def test_much_memory_goes_back_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRIMMED_BYTES", 4 * PAGE_BYTES)
    arena = Arena()
    pages(arena, 10)
    arena.trim()
    assert [arena.trim() // PAGE_BYTES for _ in range(5)] == [4, 4, 2, 0, 0]


def test_an_arena_without_blocks_has_no_alarm() -> None:
    clock = ManualClock()
    arena = Arena(clock)
    arena.block(70, 0)
    assert clock.next_alarm_ms is None
    pages(arena, 3)
    assert clock.next_alarm_ms is not None
    clock.advance_ms(3 * TRIM_INTERVAL_MS)
    assert clock.next_alarm_ms is None


def test_a_closed_arena_has_no_alarm() -> None:
    clock = ManualClock()
    arena = Arena(clock)
    block = pages(arena, 3)
    arena.close()
    assert clock.next_alarm_ms is None
    pages(arena, 3)
    assert clock.next_alarm_ms is None
    block.writable[0] = 1


@pytest.mark.skipif(not hasattr(mmap, "MADV_NOHUGEPAGE"), reason="the system has no huge pages")
def test_huge_pages_are_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    advice: list[tuple[int, ...]] = []

    class Recorded(mmap.mmap):
        def madvise(self, *args: int) -> None:
            advice.append(args)
            super().madvise(*args)

    monkeypatch.setattr(mmap, "mmap", Recorded)
    pages(Arena(), 3)
    assert advice == [(mmap.MADV_NOHUGEPAGE,)]


def test_free_pages_go_back_at_once_if_new_ones_would_not_fit_besides() -> None:
    arena = Arena()
    arena.limit_bytes = 100 * PAGE_BYTES
    blocks = [pages(arena, 10) for _ in range(10)]
    del blocks[::2]
    assert (arena.taken_bytes, arena.idle_bytes) == (50 * PAGE_BYTES, 50 * PAGE_BYTES)
    large = pages(arena, 30)  # none of the holes is as large
    assert arena.taken_bytes == 80 * PAGE_BYTES
    assert 0 < arena.idle_bytes < 20 * PAGE_BYTES
    blocks.append(pages(arena, 30))
    assert (arena.taken_bytes, arena.idle_bytes) == (110 * PAGE_BYTES, 0)
    del large


def test_at_the_limit_a_block_is_no_larger_than_the_free_pages_whose_memory_is_there() -> None:
    arena = Arena()
    arena.limit_bytes = 100 * PAGE_BYTES
    blocks = [pages(arena, 10) for _ in range(10)]
    del blocks[::2]
    held_bytes = 60 * PAGE_BYTES
    assert arena.block(100, held_bytes).capacity_bytes == 7 * PAGE_BYTES
    assert arena.block(12 * PAGE_BYTES, held_bytes).capacity_bytes == 30 * PAGE_BYTES
    assert present_bytes(arena) <= 100 * PAGE_BYTES
    arena.limit_bytes = None
    assert arena.block(100, held_bytes).capacity_bytes == 30 * PAGE_BYTES


NEAR_BYTES = 1 << 20
"""Mappings beside the chunk may grow by so much meanwhile."""


def resident_bytes(block: Block) -> int:
    """What is there of the chunk in which the only blocks of an arena are, and of the mappings beside it."""
    at = address_of(block)
    found_bytes, is_near = 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="ascii").splitlines():
        if mapping := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            is_near = at - CHUNK_BYTES < int(mapping[2], 16) and int(mapping[1], 16) < at + CHUNK_BYTES
        elif is_near and line.startswith("Rss:"):
            found_bytes += int(line.split()[1]) * 1024
    return found_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_an_arena_counts_what_it_takes_of_the_system() -> None:
    arena = Arena()
    first = pages(arena, 3)
    before_bytes = resident_bytes(first) - present_bytes(arena)
    blocks = [pages(arena, 7 + number) for number in range(30)]
    for block in blocks:
        block.writable[:] = bytes(block.capacity_bytes)
    assert abs(resident_bytes(first) - before_bytes - present_bytes(arena)) <= NEAR_BYTES
    del block, blocks[::2]
    for _ in range(2):
        arena.trim()
    assert arena.idle_bytes == 0
    assert abs(resident_bytes(first) - before_bytes - arena.taken_bytes) <= NEAR_BYTES


def _no_memory(*_: object, **__: object) -> None:
    raise OSError(12, "Cannot allocate memory")


def test_a_batch_for_which_the_system_has_no_memory_is_refused_and_nothing_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = MemoryBudget(1 << 30)
    log = Log(LogConfig(max_message_bytes=1 << 20), memory=memory)
    log.append_as_leader(batch_of(b"small"), leader_epoch=0, wall_ms=0)
    before = (memory.used_bytes, memory.led.used_bytes, log.uncommitted_bytes)
    with monkeypatch.context() as patch:
        patch.setattr(mmap, "mmap", _no_memory)
        with pytest.raises(MemoryExhausted, match="the system has no memory"):
            log.append_as_leader(batch_of(bytes(100_000)), leader_epoch=0, wall_ms=0)
    assert (memory.used_bytes, memory.led.used_bytes, log.uncommitted_bytes) == before
    assert log.log_end_offset == 1
    log.append_as_leader(batch_of(bytes(100_000)), leader_epoch=0, wall_ms=0)
    assert log.log_end_offset == 2


def test_a_follower_keeps_the_batches_before_one_for_which_there_is_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryBudget(1 << 30)
    log = Log(LogConfig(), memory=memory)
    large = build_batch([Record(1, 0, None, bytes(100_000), ())], base_offset=1)
    with monkeypatch.context() as patch:
        patch.setattr(mmap, "mmap", _no_memory)
        info = log.append_as_follower(batch_of(b"small") + large)
        assert info is not None
        assert (info.last_offset, info.record_count, info.size_bytes) == (0, 1, len(batch_of(b"small")))
        assert log.uncommitted_bytes == memory.led.used_bytes == len(batch_of(b"small")) + 28
        with pytest.raises(MemoryExhausted):
            log.append_as_follower(large)
    log.append_as_follower(large)
    assert log.log_end_offset == 2
