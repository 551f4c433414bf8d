"""A process that has more memory than its brokers may take lowers the caps of their logs."""

from __future__ import annotations

import mmap
import sys
from itertools import pairwise

import pytest

from purgatorio.broker.log.arena import TRIM_PAUSE_MS
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.node import resident_memory
from purgatorio.broker.node.resident_memory import LATE_BYTES, LOOK_INTERVAL_MS, MemoryGuard, resident_bytes
from purgatorio.protocol.records import Record, build_batch
from purgatorio.purgatory.clock import ManualClock
from tests.logs import capture_logs

MB = 1_000_000
IDLE_BYTES = 60 * MB


class Process:
    """A process with one broker, which may take 40 MB, 30 of them for logs."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.resident_bytes: int | None = IDLE_BYTES
        self.budget = MemoryBudget(30 * MB, self.clock)
        self.guard = MemoryGuard(lambda: [(self.budget, 40 * MB)], self.clock, lambda: self.resident_bytes)

    def look(self, above_mb: int) -> int:
        """Have this much more than at the start for one look of the guard; return the logs' cap in MB."""
        self.resident_bytes = IDLE_BYTES + LATE_BYTES + above_mb * MB
        self.clock.advance_ms(LOOK_INTERVAL_MS)
        return self.budget.limit_bytes // MB


@pytest.fixture
def process() -> Process:
    made = Process()
    made.guard.start()
    return made


def test_the_cap_of_the_logs_is_lowered_by_what_is_too_much(process: Process) -> None:
    assert process.look(40) == 30
    assert process.look(44) == 26
    assert process.look(42) == 24


def test_the_logs_keep_a_quarter_whatever_else_there_is(process: Process) -> None:
    assert process.look(400) == 7


def test_nothing_is_said_of_a_process_whose_brokers_have_stopped(process: Process) -> None:
    process.guard.stop()
    MemoryGuard(list, process.clock, lambda: process.resident_bytes).start()
    with capture_logs() as logs:
        process.look(50)
    assert not logs


def test_what_the_logs_get_back_is_a_part_of_the_room(process: Process) -> None:
    process.look(50)
    assert [process.look(24) for _ in range(4)] == [24, 28, 30, 30]


def test_old_records_go_at_once_when_the_cap_is_lowered(process: Process) -> None:
    log = Log(LogConfig(max_message_bytes=2 * MB), memory=process.budget)
    batch = build_batch([Record(0, 0, None, bytes(MB), ())])
    for _ in range(20):
        log.append_as_leader(batch, leader_epoch=0, wall_ms=0)
        log.commit_to(log.log_end_offset)
    process.look(60)
    assert process.budget.used_bytes <= process.budget.limit_bytes == 10 * MB
    assert 0 < log.log_start_offset < log.log_end_offset


def test_pages_that_are_free_go_back_before_the_logs_get_less(process: Process) -> None:
    arena = process.budget.arena
    arena.block(20 * MB, 0)
    taken = arena.block(2 * MB, 0)
    assert arena.idle_bytes >= 20 * MB - taken.capacity_bytes
    free_bytes = arena.idle_bytes
    given_back = 0

    def resident() -> int:
        nonlocal given_back
        given_back = free_bytes - arena.idle_bytes
        return IDLE_BYTES + LATE_BYTES + 50 * MB - given_back

    process.guard = MemoryGuard(lambda: [(process.budget, 40 * MB)], process.clock, resident)
    process.guard.idle_bytes = IDLE_BYTES
    process.guard._look()
    assert 10 * MB <= given_back < 13 * MB
    assert process.budget.limit_bytes == 30 * MB


def test_much_free_memory_goes_back_in_parts(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_memory, "TRIMMED_BYTES", 4 * MB)
    arena = process.budget.arena
    process.guard.stop()
    arena.block(20 * MB, 0)
    left_bytes = [arena.idle_bytes]

    def resident() -> int:
        return IDLE_BYTES + LATE_BYTES + 50 * MB + arena.idle_bytes - left_bytes[0]

    process.guard = MemoryGuard(lambda: [(process.budget, 40 * MB)], process.clock, resident)
    process.guard.idle_bytes = IDLE_BYTES
    process.guard._look()
    for delay_ms in (TRIM_PAUSE_MS, TRIM_PAUSE_MS, LOOK_INTERVAL_MS):
        left_bytes.append(arena.idle_bytes)
        assert process.clock.next_alarm_ms == process.clock.now_ms() + delay_ms
        process.clock.advance_ms(delay_ms)
    parts = [before - after for before, after in pairwise(left_bytes)]
    assert [round(part / MB) for part in parts] == [4, 4, 2]
    assert process.budget.limit_bytes == 30 * MB


def test_pages_that_are_free_are_room_for_records(process: Process) -> None:
    process.look(60)
    process.budget.arena.block(20 * MB, 0)
    assert process.look(40) > 10


def test_records_with_which_the_process_began_are_not_part_of_the_idle_process() -> None:
    process = Process()
    process.budget.used_bytes = 5 * MB
    process.guard.start()
    assert process.guard.idle_bytes == IDLE_BYTES - 5 * MB


def test_it_stops(process: Process) -> None:
    process.guard.stop()
    assert process.clock.next_alarm_ms is None
    assert process.look(400) == 30


def test_a_system_that_does_not_say_is_not_asked_again() -> None:
    process = Process()
    process.resident_bytes = None
    process.guard.start()
    assert process.clock.next_alarm_ms is None


@pytest.mark.skipif(sys.platform != "linux", reason="the system has no /proc")
def test_the_system_says_how_much_a_process_has() -> None:
    before = resident_bytes()
    held = mmap.mmap(-1, 64 * MB)  # memory of its own: the interpreter's allocator may have some that is free
    for position in range(0, len(held), 4096):
        held[position] = 1
    after = resident_bytes()
    assert before is not None
    assert after is not None
    assert 50 * MB < after - before < 80 * MB
    held.close()
