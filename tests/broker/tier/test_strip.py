"""A tiered log as a strip of runs."""

from __future__ import annotations

from dataclasses import replace

from purgatorio.broker.log.log import Log
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.store import MemoryStore
from purgatorio.broker.tier.strip import Run, Strip, strip_of
from tests.broker.tier.stores import FOLDER, TIERED, copied, log_of, record_batch

BATCH_BYTES = len(record_batch(1))


def local(log: Log, retention_bytes: int = 3 * BATCH_BYTES) -> Log:
    """Delete from memory what is copied, but for so many bytes."""
    log.config = replace(TIERED, local_retention_bytes=retention_bytes)
    log.apply_retention(1_000, log.log_end_offset)
    return log


def kinds(strip: Strip) -> list[tuple[int, int, str]]:
    return [(run.start_offset, run.end_offset, run.kind) for run in strip.runs]


async def test_what_the_tier_has_what_both_have_and_what_memory_alone_has() -> None:
    log = log_of(9)
    remote = await copied(log, MemoryStore())
    strip = strip_of(local(log), remote, {})
    assert strip.runs == (
        Run(0, 6, "remote", 6 * BATCH_BYTES, 3),
        Run(6, 8, "both", 2 * BATCH_BYTES, 1),
        Run(8, 9, "local", BATCH_BYTES, 1),
    )
    assert (strip.log_start_offset, strip.local_start_offset, strip.copied_to, strip.log_end_offset) == (0, 6, 8, 9)
    assert (strip.uncopied_bytes, strip.lag_bytes, strip.lag_segments) == (BATCH_BYTES, 0, 0)


async def test_closed_segments_that_are_not_copied_are_the_lag() -> None:
    log = log_of(9)
    strip = strip_of(log, RemoteLog(FOLDER), {})
    assert strip.runs == (Run(0, 9, "local", 9 * BATCH_BYTES, 5),)
    assert (strip.uncopied_bytes, strip.lag_bytes, strip.lag_segments) == (9 * BATCH_BYTES, 8 * BATCH_BYTES, 4)


def test_an_empty_log_is_an_empty_strip() -> None:
    assert strip_of(log_of(0), RemoteLog(FOLDER), {}) == Strip(0, 0, 0, 0, (), 0, 0)


async def test_what_a_read_found_damaged_and_what_is_missing_is_marked_until_it_is_well() -> None:
    log, store = log_of(9), MemoryStore()
    remote = await copied(log, store)
    local(log)
    second = list(remote.segments)[1]
    damaged = {f"{FOLDER}{second.name}": "another CRC"}
    assert kinds(strip_of(log, remote, damaged))[:3] == [(0, 2, "remote"), (2, 4, "damaged"), (4, 6, "remote")]
    assert strip_of(log, remote, damaged).runs[1].trouble == "another CRC"
    del store.objects[f"{FOLDER}{second.name}.log"]
    remote = RemoteLog(FOLDER)
    await remote.list(store, 0)
    remote.settle(log)
    (_, gap, *_) = strip_of(log, remote, {}).runs
    assert gap == Run(2, 4, "damaged", 0, 0, f"{second.name} is described, but its records are not there")
    del store.objects[f"{FOLDER}{second.name}.json"]
    await remote.list(store, 0)
    remote.settle(log)
    assert strip_of(log, remote, {}).runs[1].trouble == "no segment in the tier has these records"


async def test_what_the_tier_has_is_not_known_before_it_was_listed() -> None:
    log = log_of(9)
    await copied(log, MemoryStore())
    local(log)
    strip = strip_of(log, RemoteLog(FOLDER), {})
    assert strip.runs[0] == Run(0, 6, "remote", 0, 0, "it is not known yet what the tier has")


async def test_segments_are_looked_at_anew_only_when_something_changed() -> None:
    log = log_of(9)
    remote = await copied(log, MemoryStore())
    local(log)
    strip_of(log, remote, {})
    known = remote.runs
    strip_of(log, remote, {})
    assert remote.runs is known
    log.advance_log_start(3)
    assert kinds(strip_of(log, remote, {}))[0] == (3, 6, "remote")


async def test_where_too_many_segments_would_be_looked_at_the_runs_are_as_they_were_found() -> None:
    log = log_of(9)
    remote = await copied(log, MemoryStore())
    local(log)
    assert strip_of(log, remote, {}, 3).runs[0] == Run(0, 6, "remote", 8 * BATCH_BYTES, 4), "none were found yet"
    second = list(remote.segments)[1]
    damaged = {f"{FOLDER}{second.name}": "another CRC"}
    strip_of(log, remote, damaged)
    log.advance_log_start(3)
    assert kinds(strip_of(log, remote, {}, 3))[:2] == [(3, 4, "damaged"), (4, 6, "remote")]
    assert kinds(strip_of(log, remote, {}, 4))[0] == (3, 6, "remote")


async def test_a_segment_in_the_place_of_another_one_is_seen() -> None:
    log = log_of(9)
    remote = await copied(log, MemoryStore())
    local(log)
    first, second, *_ = remote.segments
    assert len(strip_of(log, remote, {}).runs) == 3
    remote.segments.remove({second.name})
    assert [kind for _, _, kind in kinds(strip_of(log, remote, {}))] == ["remote", "damaged", "remote", "both", "local"]
    remote.segments.remove({first.name})
    remote.segments.add(second)
    assert [kind for _, _, kind in kinds(strip_of(log, remote, {}))] == ["damaged", "remote", "both", "local"]
