"""A follower's questions about the leader's log."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import list_offsets, offset_for_leader_epoch
from purgatorio.broker.replica.following.leader_log import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    CannotFollow,
    LeaderLog,
)
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from tests.broker.api.harness import Replies, context
from tests.broker.replica.following.test_follower import Leader, answer, follow
from tests.broker.replica.harness import topic
from tests.broker.replica.tiered import TIERED, Tiered, record_batch, tiered

HANDLERS: dict[int, Any] = {
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
}


def asks(leader: Tiered) -> Any:
    """What asks a leader by its own handlers."""

    async def ask(api_key: int, version: int, message: Any) -> Any:
        replies = Replies()
        HANDLERS[api_key](leader.replicas, context(api_key, version), message, replies)
        return replies.only

    return ask


class TieredLeader(Leader):
    """A leader that gives prepared answers to fetches, and answers other requests by its handlers."""

    def __init__(self, harness: Tiered, *answers: Any) -> None:
        super().__init__(*answers)
        self.harness = harness

    async def request(self, api_key: int, api_version: int, message: Any, *, timeout_ms: int) -> Any:
        if api_key == ApiKey.FETCH:
            return await super().request(api_key, api_version, message, timeout_ms=timeout_ms)
        return await asks(self.harness)(api_key, api_version, message)


async def test_where_it_begins_and_ends_and_what_is_copied() -> None:
    async with tiered() as leader:
        log = LeaderLog(2, asks(leader))
        places = [await log.offset(leader.partition(), place) for place in (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED)]
        assert places == [(0, 0), (4, 0), (5, 0)]
        assert await log.offset(leader.partition(), LATEST) == (7, 0)
        assert await log.end_of_epoch(leader.partition(), 0) == (0, 7)
        assert await log.end_of_epoch(leader.partition(), -1) == (-1, -1)


async def test_many_partitions_in_one_question() -> None:
    async with tiered(copies=False) as leader:
        leader.set_topics(topic(replicas=(1,), partitions=2, partition_epoch=1, **TIERED), topic("bills", leader=2))
        bills, *orders = sorted(leader.replicas.partitions.values(), key=lambda each: each.tp)
        leader.fill(3)
        found = await LeaderLog(2, asks(leader)).offsets([orders[1], bills, orders[0]], LATEST)
        assert found == [(0, 0, 0), (-1, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (3, 0, 0)]


async def test_an_error_is_said_by_its_name() -> None:
    async with tiered(leader=2, replicas=(1, 2), copies=False) as other:
        log = LeaderLog(2, asks(other))
        with pytest.raises(CannotFollow, match=ErrorCode.NOT_LEADER_OR_FOLLOWER.name):
            await log.offset(other.partition(), EARLIEST)
        with pytest.raises(CannotFollow, match=ErrorCode.NOT_LEADER_OR_FOLLOWER.name):
            await log.end_of_epoch(other.partition(), 0)


async def test_the_fetch_loop_asks_what_is_copied() -> None:
    async with tiered() as leader:
        follower = Tiered(leader.store)
        follower.set_topics(topic(leader=2, replicas=(1, 2), **TIERED))
        for _ in range(7):
            follower.partition().log.append_as_leader(record_batch(), leader_epoch=0, wall_ms=1_700_000_000_000)
        await follower.tiering.round()
        partition = await follow(follower, TieredLeader(leader, answer(high_watermark=7)))
        assert (partition.log.copied_to, leader.store.calls) == (6, [])
