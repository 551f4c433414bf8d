"""The rounds in which leaders copy, and all replicas hear what is copied."""

from __future__ import annotations

import asyncio

from purgatorio.broker.replica.tiering import FIRST_BACKOFF_MS, LIST_MS
from purgatorio.broker.tier.store import Refused, StoredObject, Unavailable
from tests.broker.replica.harness import topic
from tests.broker.replica.tiered import TIERED, Tiered, record_batch, tiered
from tests.error_log import ErrorLog


async def test_a_leader_lists_once_in_an_epoch_and_copies_what_is_closed() -> None:
    async with tiered(copies=False) as broker:
        broker.fill()
        await broker.tiering.round()
        await broker.tiering.round()
        assert [kind for kind, _ in broker.store.calls] == ["list"] + ["put"] * 6
        broker.fill(2)
        broker.store.calls.clear()
        await broker.tiering.round()
        assert [kind for kind, _ in broker.store.calls] == ["put"] * 2
        broker.set_topics(topic(leader_epoch=1, partition_epoch=1, replicas=(1,), **TIERED))
        broker.store.calls.clear()
        await broker.tiering.round()
        assert [kind for kind, _ in broker.store.calls] == ["list"]


async def test_topics_without_a_tier_are_not_copied() -> None:
    async with tiered(copies=False, remote_storage_enable="false") as broker:
        broker.fill()
        await broker.tiering.round()
        assert broker.store.calls == []


async def test_a_follower_hears_what_the_leader_has_copied_and_deletes_its_own() -> None:
    async with tiered() as leader:
        follower = Tiered(leader.store)
        follower.set_topics(topic(leader=2, replicas=(1, 2), **TIERED))
        records = b"".join(leader.partition().log.read(4, max_bytes=10**9, end_offset=7).parts)
        log = follower.partition().log
        for number in range(4):
            log.append_as_leader(record_batch(1_700_000_000_000 + number), leader_epoch=0, wall_ms=1_700_000_000_000)
        log.append_as_follower(records)
        log.commit_to(7)
        await follower.copy()
        assert (log.copied_to, log.log_start_offset, log.local_start_offset) == (6, 0, 4)
        follower.set_topics(topic(replicas=(1, 2), leader_epoch=1, partition_epoch=1, **TIERED))
        await follower.copy()
        assert (log.copied_to, log.epochs.entries) == (6, [(0, 0), (1, 7)])


async def test_a_store_that_fails_keeps_everything_and_is_asked_again_later() -> None:
    async with tiered(copies=False) as broker:
        broker.fill()
        broker.store.troubles["put"] = [Refused("disk full")]
        await broker.copy()
        assert (broker.tiering.trouble, broker.partition().log.local_start_offset) == ("disk full", 0)
        assert broker.tiering.trouble_since_ms == broker.clock.now_ms()
        await broker.copy()
        assert (broker.tiering.trouble, broker.partition().log.local_start_offset) == ("", 4)
        assert broker.tiering.trouble_since_ms is None


async def test_rounds_come_in_their_interval_and_sooner_after_trouble_or_a_wish() -> None:
    async with tiered(copies=False) as broker:
        broker.fill(3)
        broker.store.troubles["list"] = [Unavailable("503")]
        task = asyncio.create_task(broker.tiering.run())
        try:
            await broker.clock.run_for(FIRST_BACKOFF_MS - 1)
            assert broker.partition().log.copied_to == 0
            await broker.clock.run_for(1)
            assert broker.partition().log.copied_to == 2
            broker.fill(2)
            await broker.clock.run_for(999)
            assert broker.partition().log.copied_to == 2
            await broker.clock.run_for(1)
            assert broker.partition().log.copied_to == 4
            broker.fill(2)
            broker.tiering.wake()
            await broker.clock.run_for(0)
            assert broker.partition().log.copied_to == 6
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_a_bug_in_one_partition_leaves_the_others(error_log: ErrorLog) -> None:
    async with tiered(copies=False) as broker:
        broker.set_topics(topic("bills", replicas=(1,), **TIERED), topic(replicas=(1,), **TIERED))
        broker.fill(3)
        broker.store.troubles["list"] = [ZeroDivisionError("a bug")]
        await broker.tiering.round()
        await broker.tiering.round()
        assert broker.partition().log.copied_to == 2
        error_log.expect("a partition was not copied to the tier")


async def test_what_is_known_of_a_replica_goes_with_it() -> None:
    async with tiered() as broker:
        before = broker.tiering.remote_of(broker.partition())
        broker.set_topics()
        broker.set_topics(topic(replicas=(1,), topic_id=bytes(range(16)), **TIERED))
        after = broker.tiering.remote_of(broker.partition())
        assert before is not after
        assert bytes(range(16)).hex() in after.folder


async def test_a_list_that_does_not_come_is_trouble() -> None:
    async with tiered(copies=False) as broker:
        never = asyncio.Event()

        async def silent(prefix: str) -> list[StoredObject]:
            await never.wait()
            return []

        broker.store.list = silent  # type: ignore[method-assign]
        task = asyncio.create_task(broker.tiering.round())
        await broker.clock.run_for(LIST_MS)
        await task
        assert broker.tiering.trouble == "no list in 60 s"
