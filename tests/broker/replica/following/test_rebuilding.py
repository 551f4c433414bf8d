"""A follower begins behind what only the tier has."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.replica.following.leader_log import CannotFollow, LeaderLog
from purgatorio.broker.replica.following.rebuilding import Rebuilding
from purgatorio.broker.tier.store import Unavailable
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.replica.following.test_follower import answer, follow
from tests.broker.replica.following.test_leader_log import TieredLeader, asks
from tests.broker.replica.harness import topic
from tests.broker.replica.tiered import ORDERS, TIERED, Tiered, tiered
from tests.broker.tier.stores import TestStore


def follower_of(store: TestStore, **state: Any) -> Tiered:
    """Broker 1 as a follower of broker 2, with the same store."""
    follower = Tiered(store)
    follower.set_topics(topic(leader=2, replicas=(1, 2), **{**TIERED, **state}))
    return follower


async def listing_follower_of(store: TestStore, **state: Any) -> Tiered:
    """Such a follower that has listed the store."""
    follower = follower_of(store, **state)
    follower.tiering.list_soon(follower.partition())
    await follower.tiering.round()
    return follower


async def rebuilt(leader: Tiered, follower: Tiered) -> None:
    await Rebuilding(follower.replicas, LeaderLog(1, asks(leader))).rebuild(follower.partition(), lambda: True)


async def test_it_begins_behind_the_segment_that_ends_where_the_leaders_memory_begins() -> None:
    async with tiered() as leader:
        follower = await listing_follower_of(leader.store)
        await rebuilt(leader, follower)
        log = follower.partition().log
        assert (log.log_start_offset, log.local_start_offset, log.log_end_offset) == (0, 4, 4)
        assert (log.high_watermark, log.copied_to, log.epochs.entries) == (4, 4, [(0, 0)])
        log.append_as_follower(b"".join(leader.partition().log.read(4, max_bytes=10**9, end_offset=7).parts))
        assert log.log_end_offset == 7


async def test_it_starts_where_the_leader_does() -> None:
    async with tiered() as leader:
        leader.partition().log.advance_log_start(1)
        follower = await listing_follower_of(leader.store)
        await rebuilt(leader, follower)
        log = follower.partition().log
        assert (log.log_start_offset, log.epochs.entries) == (1, [(0, 1)])


async def test_epochs_and_producers_come_from_the_tier() -> None:
    async with tiered(copies=False) as leader:
        leader.fill(3)
        leader.set_topics(topic(replicas=(1,), leader_epoch=3, partition_epoch=1, **TIERED))
        for sequence in range(4):
            records = [Record(0, 1_700_000_000_000, None, b"value" * 4, ())]
            batch = build_batch(records, producer_id=7, producer_epoch=1, base_sequence=sequence)
            leader.produce(acks=1, records=batch)
        await leader.copy()
        assert leader.partition().log.local_start_offset == 4
        follower = await listing_follower_of(leader.store, leader_epoch=3)
        await rebuilt(leader, follower)
        log = follower.partition().log
        assert log.epochs.entries == [(0, 0), (3, 3)]
        state = log.producers.get(7)
        assert state is not None
        assert (state.epoch, state.next_sequence, log.log_end_offset) == (1, 1, 4)


async def test_of_two_lineages_it_takes_the_leaders() -> None:
    """A leader that was replaced uncleanly had copied other records."""
    async with tiered(copies=False) as leader:
        other = Tiered(leader.store)
        other.set_topics(topic(replicas=(1,), **TIERED))
        other.fill(1)
        other.set_topics(topic(replicas=(1,), leader_epoch=1, partition_epoch=1, **TIERED))
        other.fill(8)
        await other.copy()
        leader.fill(1)
        leader.set_topics(topic(replicas=(1,), leader_epoch=2, partition_epoch=1, **TIERED))
        leader.fill(6)
        await leader.copy()
        follower = await listing_follower_of(leader.store, leader_epoch=2)
        await rebuilt(leader, follower)
        log = follower.partition().log
        assert (log.log_end_offset, log.epochs.entries) == (4, [(0, 0), (2, 1)])


async def test_a_tier_that_does_not_have_it_yet_is_asked_again_later() -> None:
    async with tiered() as leader:
        follower = follower_of(leader.store)
        with pytest.raises(
            CannotFollow, match=r"no segment in the tier has offset 3 in epoch 0 \(it may be listed late\)"
        ):
            await rebuilt(leader, follower)
        leader.store.troubles["list"] = [Unavailable("503")]
        await follower.tiering.round()
        with pytest.raises(CannotFollow, match=r"\(503\)"):
            await rebuilt(leader, follower)
        assert follower.partition().log.log_end_offset == 0
        counts = follower.tiering.traffic.of_topic(follower.partition().topic_id.hex())
        assert (counts.build_requests, counts.build_errors) == (2, 2)


async def test_a_description_that_cannot_be_read_now_is_read_later() -> None:
    async with tiered() as leader:
        follower = await listing_follower_of(leader.store)
        leader.store.troubles["get"] = [Unavailable("503")]
        with pytest.raises(CannotFollow, match="503"):
            await rebuilt(leader, follower)
        await rebuilt(leader, follower)
        assert follower.partition().log.log_end_offset == 4


async def test_a_leader_that_lost_its_leadership_is_no_leader() -> None:
    async with tiered() as leader:
        follower = follower_of(leader.store)
        leader.set_topics(topic(leader=2, replicas=(1, 2), leader_epoch=1, partition_epoch=1, **TIERED))
        with pytest.raises(CannotFollow, match=ErrorCode.FENCED_LEADER_EPOCH.name):
            await rebuilt(leader, follower)


async def test_a_follower_that_follows_another_leader_meanwhile_is_left_alone() -> None:
    async with tiered() as leader:
        follower = await listing_follower_of(leader.store)
        await Rebuilding(follower.replicas, LeaderLog(1, asks(leader))).rebuild(follower.partition(), lambda: False)
        assert follower.partition().log.log_end_offset == 0


async def test_the_fetch_loop_begins_there_and_goes_on() -> None:
    async with tiered() as leader:
        follower = await listing_follower_of(leader.store)
        moved = answer(error_code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)
        rest = b"".join(leader.partition().log.read(4, max_bytes=10**9, end_offset=7).parts)
        peer = TieredLeader(leader, moved, answer(records=rest, high_watermark=7))
        partition = await follow(follower, peer)
        assert peer.offsets_asked == [[0], [4], [7]]
        assert (partition.log.log_start_offset, partition.log.log_end_offset, partition.high_watermark) == (0, 7, 7)
        assert follower.tiering.rebuilt() == []


async def test_the_fetch_loop_waits_for_the_tier() -> None:
    async with tiered() as leader:
        follower = follower_of(leader.store)
        moved = answer(error_code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)
        partition = await follow(follower, TieredLeader(leader, moved))
        assert "no segment in the tier" in partition.refusal
        assert follower.tiering.rebuilt() == [ORDERS], "the page says so"
        assert follower.partition(ORDERS).log.log_end_offset == 0
