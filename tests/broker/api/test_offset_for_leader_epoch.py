"""Tests of the OffsetForLeaderEpoch handler."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import offset_for_leader_epoch
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import Harness, topic


def ask(broker: Harness, epoch: int, *, name: str = "orders", current: int = -1) -> Any:
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=[wanted])])
    replies = Replies()
    ctx = context(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4)
    offset_for_leader_epoch.handle(broker.replicas, ctx, request, replies)
    return replies.only.topics[0].partitions[0]


@pytest.mark.parametrize(("epoch", "answer"), [(0, (0, 2)), (3, (0, 2)), (5, (5, 3)), (6, (-1, -1))])
def test_an_epoch_ends_where_the_next_one_begins(epoch: int, answer: tuple[int, int]) -> None:
    broker = Harness()
    broker.set_topics(topic())
    broker.produce(acks=1)
    broker.produce(acks=1)
    broker.set_topics(topic(leader_epoch=5, partition_epoch=1))
    broker.produce(acks=1)
    found = ask(broker, epoch)
    assert (found.leader_epoch, found.end_offset) == answer


def test_each_partition_has_its_own_error(broker: Harness) -> None:
    assert ask(broker, 0, name="nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(broker, 0, current=9).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.fixture
def broker() -> Harness:
    """Broker 1, which leads orders-0."""
    harness = Harness()
    harness.set_topics(topic())
    return harness
