"""Tests of reads of the tier: one for each part, that go on, are tried again, and are kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from purgatorio.broker.tier import reads as module
from purgatorio.broker.tier.reads import FIRST_PAUSE_MS, MAX_WAITING, TRIES, TRY_MS, PartRead, RemoteReads
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.store import NotThere, Refused, Unavailable
from purgatorio.protocol.records import read_header
from purgatorio.purgatory.clock import ManualClock
from tests.batches import batches_of
from tests.broker.tier.stores import FOLDER, TestStore, copied, log_of, record_batch
from tests.error_log import ErrorLog

MIB = 1024 * 1024


class Reading:
    """Reads of three segments of two records, by hand."""

    def __init__(self, store: TestStore, remote: RemoteLog, cache_bytes: int) -> None:
        self.store, self.remote, self.clock = store, remote, ManualClock()
        self.reads = RemoteReads(store, self.clock, readers=2, cache_bytes=cache_bytes)

    def read(self, offset: int) -> PartRead:
        segment = self.remote.segments.find(offset)
        assert segment is not None
        read = self.reads.read(FOLDER, segment, segment.part_of(offset))
        assert read is not None
        return read

    async def turns(self, ms: float = 0) -> None:
        await self.clock.run_for(ms)

    @property
    def gets(self) -> int:
        return self.store.calls.count(("get", "log"))


@asynccontextmanager
async def reading(cache_bytes: int = MIB) -> AsyncIterator[Reading]:
    store = TestStore()
    made = Reading(store, await copied(log_of(7), store), cache_bytes)
    task = asyncio.create_task(made.reads.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])


def heard(read: PartRead) -> list[str]:
    calls: list[str] = []
    read.listeners["test"] = lambda: calls.append("over")
    return calls


async def test_a_read_brings_the_batches_and_says_so_once() -> None:
    async with reading() as made:
        read = made.read(1)
        calls = heard(read)
        await made.turns()
        data, next_offset = read.batches(1, MIB, 100, min_one=True)
        assert [read_header(each).base_offset for each in batches_of([data])] == [1]
        assert (next_offset, read.is_over, read.tries, calls) == (2, True, 1, ["over"])


async def test_batches_keep_the_limits_of_a_fetch() -> None:
    async with reading() as made:
        read = made.read(0)
        await made.turns()
        both, _ = read.batches(0, MIB, 100, min_one=False)
        size_bytes = len(both) // 2
        limits: list[tuple[int, int, bool]] = [
            (size_bytes, 100, False),
            (1, 100, True),
            (1, 100, False),
            (MIB, 1, False),
        ]
        sizes = [len(read.batches(0, most, end, min_one=one)[0]) for most, end, one in limits]
        assert sizes == [size_bytes, size_bytes, 0, size_bytes]
        assert read.batches(0, 1, 100, min_one=False)[1] == 0


async def test_a_second_fetch_joins_a_read_that_is_under_way() -> None:
    async with reading() as made:
        made.store.gate.clear()
        read = made.read(0)
        await made.turns(700)
        assert made.read(1) is read
        assert made.reads.under_way == 1
        made.store.gate.set()
        await made.turns()
        assert (made.read(0) is read, read.data is not None, made.gets) == (True, True, 1)


async def test_the_cache_keeps_the_parts_that_were_used_last() -> None:
    async with reading(cache_bytes=400) as made:
        for offset in (0, 2, 0, 4):
            made.read(offset)
            await made.turns()
        assert made.gets == 3
        assert made.reads.cached_bytes <= 400
        made.read(0)
        await made.turns()
        assert made.gets == 3, "it was used after the second one"
        made.read(2)
        await made.turns()
        assert made.gets == 4


async def test_a_part_larger_than_the_cache_is_kept_until_the_next() -> None:
    async with reading(cache_bytes=1) as made:
        read = made.read(0)
        await made.turns()
        assert made.read(0) is read
        made.read(2)
        await made.turns()
        assert made.read(0) is not read


async def test_what_passes_is_tried_again_after_a_pause() -> None:
    async with reading() as made:
        made.store.troubles["get"] = [Unavailable("503"), Unavailable("503")]
        read = made.read(0)
        await made.turns()
        assert (read.tries, read.trouble, read.is_over) == (1, "503", False)
        await made.turns(FIRST_PAUSE_MS + 4 * FIRST_PAUSE_MS)
        assert (read.tries, read.trouble, read.data is not None) == (3, "", True)


@pytest.mark.parametrize("error", [NotThere("gone"), Refused("no permission")])
async def test_what_does_not_pass_fails_at_once_and_the_next_fetch_tries_anew(error: Exception) -> None:
    async with reading() as made:
        made.store.troubles["get"] = [error]
        read = made.read(0)
        calls = heard(read)
        await made.turns()
        assert (read.has_failed, read.trouble, calls) == (True, str(error), ["over"])
        again = made.read(0)
        await made.turns()
        assert again.data is not None


@pytest.mark.parametrize(
    ("damage", "why"), [(lambda data: data[: len(data) // 2], "bytes came of"), (lambda data: bytes(len(data)), "CRC")]
)
async def test_a_short_or_damaged_object_is_tried_again_and_then_an_error(
    damage: Callable[[bytes], bytes], why: str
) -> None:
    async with reading() as made:
        key = made.store.key(".log")
        made.store.objects[key] = damage(made.store.objects[key])
        read = made.read(0)
        await made.turns(FIRST_PAUSE_MS * 4**TRIES)
        assert (read.has_failed, read.tries) == (True, TRIES)
        assert why in read.trouble


async def test_a_store_that_does_not_answer_is_asked_again() -> None:
    async with reading() as made:
        made.store.gate.clear()
        read = made.read(0)
        await made.turns(TRY_MS)
        assert (read.tries, read.trouble) == (1, "no answer in 30 s")


async def test_a_bug_ends_the_read_and_no_other(error_log: ErrorLog) -> None:
    async with reading() as made:
        made.store.troubles["get"] = [ZeroDivisionError("a bug")]
        read = made.read(0)
        await made.turns()
        assert (read.has_failed, "a bug" in read.trouble) == (True, True)
        other = made.read(2)
        await made.turns()
        assert other.data is not None
        error_log.expect("a read of the tier failed")


async def test_reads_that_wait_are_limited() -> None:
    async with reading() as made:
        made.store.gate.clear()
        segment = made.remote.segments.find(0)
        assert segment is not None
        for number in range(MAX_WAITING):
            assert made.reads.read(f"other/{number}/", segment, 0) is not None
        assert made.reads.read(FOLDER, segment, 0) is None


async def test_the_batches_of_a_part_are_found_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCHES_PER_TURN", 2)
    async with reading() as made:
        read = made.read(0)
        data = next(value for key, value in sorted(made.store.objects.items()) if key.endswith(".log"))
        part = bytes(data)[: read.part.size_bytes]
        assert len(list(read.take(part))) == 1
        records, next_offset = read.batches(0, MIB, 2, min_one=True)
        assert (bytes(records), next_offset) == (part, 2)


# --- read ahead ---


def ahead(made: Reading, offset: int) -> bool:
    segment = made.remote.segments.find(offset)
    assert segment is not None
    return made.reads.read_ahead(FOLDER, segment, segment.part_of(offset))


async def test_a_part_is_read_ahead_once_and_is_there_when_it_is_asked_for() -> None:
    async with reading() as made:
        assert (ahead(made, 2), ahead(made, 2)) == (True, True)
        await made.turns()
        assert (made.read(2).is_over, made.gets) == (True, 1)


async def test_a_reader_is_left_for_those_that_ask() -> None:
    async with reading() as made:
        made.store.gate.clear()
        made.read(0)
        assert not ahead(made, 2), "one of two readers is at work"
        await made.turns()
        made.store.gate.set()
        await made.turns()
        assert ahead(made, 2)


async def test_what_is_read_ahead_has_a_half_of_the_cache_until_it_is_asked_for() -> None:
    async with reading(cache_bytes=0) as made:
        assert not ahead(made, 0), "there is no room"
    part = 2 * len(record_batch(1_000))
    async with reading(cache_bytes=2 * part) as made:
        assert ahead(made, 0)
        await made.turns()
        assert not ahead(made, 2)
        made.read(0)
        assert ahead(made, 2)


async def test_what_was_read_ahead_in_vain_makes_room_again() -> None:
    part = 2 * len(record_batch(1_000))
    async with reading(cache_bytes=2 * part) as made:
        made.store.troubles["get"] = [NotThere("it is gone")]
        assert ahead(made, 4)
        await made.turns()
        assert ahead(made, 0), "the one before has failed"
        await made.turns()
        for offset in (2, 4):
            made.read(offset)
            await made.turns()
        assert ahead(made, 0), "the one before was evicted"


async def test_the_number_of_reads_at_a_time_changes_while_they_run() -> None:
    async with reading(cache_bytes=1) as made:
        made.store.gate.clear()
        for offset in (0, 2, 4):
            made.read(offset)
        await made.turns()
        assert made.reads.waiting_count == 1, "there are two readers"
        made.reads.allow(3)
        await made.turns()
        assert made.reads.waiting_count == 0
        made.reads.allow(1)
        made.store.gate.set()
        await made.turns()
        assert made.reads.under_way == 0
        made.store.gate.clear()
        for offset in (0, 2):
            made.read(offset)
        await made.turns()
        assert made.reads.waiting_count == 1


# --- counts ---


async def test_tries_errors_and_bytes_are_counted_by_topic() -> None:
    async with reading() as made:
        made.store.troubles["get"] = [Unavailable("503")]
        assert (made.reads.waiting_count, made.reads.idle_share) == (0, 1.0)
        read = made.read(0)
        assert made.reads.waiting_count == 1
        await made.turns()
        assert (made.reads.waiting_count, made.reads.idle_share) == (0, 0.5)
        await made.turns(FIRST_PAUSE_MS)
        counts = made.reads.traffic.topics["00"]
        assert (counts.fetch_requests, counts.fetch_errors, counts.fetch_bytes) == (2, 1, read.part.size_bytes)
        assert (made.reads.read_count, made.reads.read_ms) == (1, FIRST_PAUSE_MS)
        made.read(0)
        assert counts.fetch_requests == 2, "the cache has it"
