"""Tests of copies of segments, and of what is found of them again."""

from __future__ import annotations

import asyncio

import pytest

from purgatorio.broker.log.log import Log
from purgatorio.broker.tier import copying
from purgatorio.broker.tier.copying import PAUSE_MS, QUOTA_PAUSE_MS, TRIES, TRY_MS
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.store import MemoryStore, Refused, Unavailable
from purgatorio.broker.tier.traffic import UNLIMITED, TierTraffic
from purgatorio.purgatory.clock import ManualClock
from tests.broker.tier.stores import FOLDER, TIERED, TestStore, copied, copier_to, log_of


async def listed(store: MemoryStore, log: Log) -> RemoteLog:
    remote = RemoteLog(FOLDER)
    await remote.list(store, 0)
    remote.settle(log)
    return remote


async def test_all_closed_segments_are_copied_with_the_batches_as_they_are() -> None:
    store, log = TestStore(), log_of(7, epochs=(0, 2))
    remote = await copied(log, store)
    assert [(each.start_offset, each.end_offset) for each in remote.segments] == [(0, 2), (2, 4), (4, 6)]
    assert log.copied_to == 6
    records = log.read(0, max_bytes=10**9, end_offset=6).parts
    assert b"".join(store.objects[key] for key in sorted(store.objects) if key.endswith(".log")) == b"".join(records)
    assert [each.epochs for each in remote.segments] == [((0, 0),), ((0, 0),), ((0, 0), (2, 4))]


async def test_the_description_comes_last_and_is_the_commit() -> None:
    store, log = TestStore(), log_of(3)
    await copied(log, store)
    assert store.calls == [("put", "log"), ("put", "json")]
    del store.objects[store.key(".json")]
    assert len((await listed(store, log_of(3))).segments) == 0


async def test_another_broker_finds_what_was_copied() -> None:
    store = TestStore()
    await copied(log_of(7), store)
    replica = log_of(7)
    remote = await listed(store, replica)
    assert (len(remote.segments), replica.copied_to) == (3, 6)
    behind = log_of(3)
    await listed(store, behind)
    assert behind.copied_to == 2, "what it does not have yet is not compared"


async def test_copies_of_another_lineage_are_not_the_logs() -> None:
    store = TestStore()
    await copied(log_of(7, epochs=(0, 1)), store)
    other = log_of(7, epochs=(0, 2))
    assert (await listed(store, other)).segments.end_from(0) == other.copied_to == 4


async def test_a_leader_that_lost_its_leadership_does_not_commit() -> None:
    store, log = TestStore(), log_of(3)
    remote = await copied(log, store, still_leads=lambda: False)
    assert [key for key in store.objects if "/claims/" not in key] == []
    assert (len(remote.segments), log.copied_to) == (0, 0)


async def test_a_store_that_does_not_answer_keeps_no_copier() -> None:
    store, log, clock = _Silent(), log_of(3), ManualClock()
    task = asyncio.create_task(copier_to(store, clock).copy_next(log, RemoteLog(FOLDER), 0, lambda: False))
    await clock.run_for(TRIES * TRY_MS + (TRIES - 1) * PAUSE_MS)
    assert task.done()
    with pytest.raises(Unavailable, match="no answer in 120 s"):
        await task


class _Silent(TestStore):
    """A store that does not answer to deletions."""

    async def delete(self, key: str) -> None:
        await asyncio.Event().wait()


async def test_a_write_is_tried_again_after_a_pause() -> None:
    store, log, clock = TestStore(), log_of(3), ManualClock()
    store.troubles["put"] = [Unavailable("503"), None, Unavailable("503")]

    async def copy() -> bool:
        return await copier_to(store, clock).copy_next(log, RemoteLog(FOLDER), 0, lambda: True)

    task = asyncio.create_task(copy())
    await clock.run_for(2 * PAUSE_MS)
    assert await task
    assert (log.copied_to, clock.now_ms()) == (2, 2 * PAUSE_MS)


async def test_a_store_that_refuses_is_not_asked_again() -> None:
    store, log = TestStore(), log_of(3)
    store.troubles["put"] = [Refused("disk full")]
    with pytest.raises(Refused, match="disk full"):
        await copied(log, store)
    assert log.copied_to == 0
    assert await copied(log, store)
    assert log.copied_to == 2


async def test_a_commit_whose_answer_was_lost_is_a_commit() -> None:
    store, log = _Forgetful(), log_of(3)
    clock = ManualClock()
    task = asyncio.create_task(copier_to(store, clock).copy_next(log, RemoteLog(FOLDER), 0, lambda: True))
    await clock.run_for(PAUSE_MS)
    assert await task
    assert log.copied_to == 2


class _Forgetful(TestStore):
    """A store that makes the first description, and does not say so."""

    is_first = True

    async def put(self, key, parts, *, create):  # type: ignore[no-untyped-def]
        await super().put(key, parts, create=create)
        if key.endswith(".json") and self.is_first:
            self.is_first = False
            raise Unavailable("the answer was lost")


@pytest.mark.parametrize("length", [0, 90])
async def test_an_object_that_was_cut_is_no_segment_and_is_named(length: int) -> None:
    store = TestStore()
    await copied(log_of(7), store)
    key = store.key(".log")
    store.objects[key] = store.objects[key][:length]
    log = log_of(7)
    remote = await listed(store, log)
    assert (len(remote.damaged), log.copied_to) == (1, 0)


async def test_an_empty_log_is_not_copied() -> None:
    log = log_of(0, config=TIERED)
    assert not await copier_to(MemoryStore()).copy_next(log, RemoteLog(FOLDER), 0, lambda: True)


async def test_a_copy_that_fills_a_hole_is_copied_up_to_what_lies_behind() -> None:
    log, store = log_of(7), TestStore()
    remote = await copied(log, store)
    names = [each.name for each in remote.segments]
    for end in (".log", ".json"):
        del store.objects[f"{FOLDER}{names[1]}{end}"]
    await remote.list(store, 0)
    remote.settle(log, exactly=True)
    assert log.copied_to == 2
    store.calls.clear()
    await copied(log, store, remote=remote)
    assert ([kind for kind, _ in store.calls], log.copied_to, remote.copied_to) == (["put", "put"], 6, 6)


async def test_above_the_quota_a_copier_waits_and_ends_with_its_leadership() -> None:
    store, log, clock = TestStore(), log_of(7), ManualClock()
    traffic = TierTraffic(clock)
    traffic.limit(copy=10, fetch=UNLIMITED)
    copier, remote, leads = copier_to(store, clock, traffic), RemoteLog(FOLDER), [True]

    async def copy() -> bool:
        return await copier.copy_next(log, remote, 0, lambda: leads[0])

    assert await copy(), "it was below its quota"
    second = asyncio.create_task(copy())
    await clock.run_for(5_000)
    assert not second.done()
    await clock.run_for(8_000)
    assert (second.done(), len(remote.segments)) == (True, 2)
    third = asyncio.create_task(copy())
    await clock.run_for(1_000)
    leads[0] = False
    await clock.run_for(QUOTA_PAUSE_MS)
    assert (await third, len(remote.segments)) == (False, 2)


async def test_copies_are_counted_by_topic() -> None:
    store, log = TestStore(), log_of(7)
    traffic = TierTraffic(ManualClock())
    copier, remote = copier_to(store, traffic=traffic), RemoteLog(FOLDER)
    store.troubles["put"] = [None, None, Refused("no")]
    await copier.copy_next(log, remote, 0, lambda: True)
    with pytest.raises(Refused):
        await copier.copy_next(log, remote, 0, lambda: True)
    counts = traffic.topics["00"]
    assert (counts.copy_requests, counts.copy_errors) == (2, 1)
    assert counts.copy_bytes == next(iter(remote.segments)).size_bytes


async def test_a_segment_whose_description_would_be_too_large_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker could read it, so that memory has to keep the records."""
    log, store = log_of(3), TestStore()
    monkeypatch.setattr(copying, "MAX_DESCRIPTION_BYTES", 100)
    with pytest.raises(Refused, match=r"offsets 0 to 1 have too many producers and aborted .* lower segment\.bytes"):
        await copied(log, store)
    assert (log.copied_to, [key for key in store.objects if "/claims/" not in key]) == (0, [])
