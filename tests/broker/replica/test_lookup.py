"""What a broker answers for partitions that it has no replica of, and which leaders it names (KIP-951)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from purgatorio.broker.api import list_offsets, offset_for_leader_epoch
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.delayed_delete_records import DeleteRecordsResult
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from purgatorio.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import ORDERS, Harness, topic

MOVED = {"leader": 2, "leader_epoch": 7, "replicas": (2, 3), "partition_epoch": 1}
NOWHERE = TopicPartition("nowhere", 0)
PAST_THE_LAST = TopicPartition("orders", 1)


@pytest.fixture
def broker() -> Harness:
    """Broker 1; brokers 2 and 3 hold the replicas of orders-0."""
    harness = Harness()
    harness.set_topics(topic(**MOVED))
    return harness


def deletion(broker: Harness, tp: TopicPartition) -> DeleteRecordsResult:
    done: list[Any] = []
    broker.replicas.delete_records([(tp, 0)], timeout_ms=1000, done=done.append)
    ((result,),) = done
    return result


def listed(broker: Harness, tp: TopicPartition) -> int:
    wanted = ListOffsetsPartition(partition_index=tp.partition, timestamp=-1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=tp.topic, partitions=[wanted])])
    replies = Replies()
    list_offsets.handle(broker.replicas, context(ApiKey.LIST_OFFSETS, 7), request, replies)
    return int(replies.only.topics[0].partitions[0].error_code)


def epoch_end(broker: Harness, tp: TopicPartition) -> int:
    wanted = OffsetForLeaderPartition(partition=tp.partition, leader_epoch=0, current_leader_epoch=-1)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=tp.topic, partitions=[wanted])])
    replies = Replies()
    offset_for_leader_epoch.handle(broker.replicas, context(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4), request, replies)
    return int(replies.only.topics[0].partitions[0].error_code)


def all_answers(broker: Harness, tp: TopicPartition) -> list[int]:
    """Return the errors of every API that a client sends to a partition's leader."""
    return [
        *broker.produce(tp).error_codes,
        broker.fetch((tp, 0)).data.error_code,
        deletion(broker, tp).error_code,
        listed(broker, tp),
        epoch_end(broker, tp),
    ]


def test_a_broker_without_a_replica_says_that_it_does_not_lead(broker: Harness) -> None:
    assert set(all_answers(broker, ORDERS)) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


@pytest.mark.parametrize("tp", [NOWHERE, PAST_THE_LAST])
def test_only_a_partition_that_the_image_lacks_is_unknown(broker: Harness, tp: TopicPartition) -> None:
    assert set(all_answers(broker, tp)) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_broker_without_an_image_does_not_say_that_a_partition_is_unknown() -> None:
    assert set(all_answers(Harness(), ORDERS)) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_kip_951_a_broker_without_a_replica_names_the_leader(broker: Harness) -> None:
    (result,) = broker.produce().results
    assert (result.leader_id, result.leader_epoch) == (2, 7)
    leader = broker.fetch((ORDERS, 0)).data.current_leader
    assert (leader.leader_id, leader.leader_epoch) == (2, 7)


@pytest.mark.parametrize("replicas", [(2, 3), (1, 2, 3)])
def test_a_fenced_leader_is_not_named(broker: Harness, replicas: tuple[int, ...]) -> None:
    broker.brokers = {**broker.brokers, 2: replace(broker.brokers[2], fenced=True)}
    broker.set_topics(topic(leader=2, leader_epoch=8, replicas=replicas, partition_epoch=2))
    (result,) = broker.produce().results
    assert (result.error_code, result.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    data = broker.fetch((ORDERS, 0)).data
    assert (data.error_code, data.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_waiting_requests_of_a_replica_that_moved_away_are_answered_with_the_new_leader() -> None:
    broker = Harness()
    broker.set_topics(topic())
    broker.produce()
    broker.follow((2, 1), (3, 1))
    produced = broker.produce()
    done: list[Any] = []
    broker.replicas.delete_records([(ORDERS, 1)], timeout_ms=1000, done=done.append)
    fetched = broker.fetch((ORDERS, 1))
    assert not produced.answered
    assert not fetched.answered
    assert not done
    broker.set_topics(topic(**MOVED))
    (result,) = produced.results
    assert (result.error_code, result.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    data = fetched.data
    assert (data.error_code, data.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    ((deleted,),) = done
    assert deleted.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
