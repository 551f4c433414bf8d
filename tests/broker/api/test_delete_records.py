"""Tests of the DeleteRecords handler."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import delete_records
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import Harness, topic


def send(broker: Harness, name: str, *offsets: int) -> Replies:
    partitions = [DeleteRecordsPartition(partition_index=nth, offset=offset) for nth, offset in enumerate(offsets)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=partitions)], timeout_ms=1000)
    replies = Replies()
    delete_records.handle(broker.replicas, context(ApiKey.DELETE_RECORDS, 2), request, replies)
    return replies


def ask(broker: Harness, name: str, *offsets: int) -> Any:
    return send(broker, name, *offsets).only


def test_each_partition_is_answered_with_its_low_watermark_or_an_error() -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1,)))
    for _ in range(3):
        broker.produce(acks=1)
    (answered,) = ask(broker, "orders", 2, 0).topics
    assert [(p.partition_index, p.low_watermark, p.error_code) for p in answered.partitions] == [
        (0, 2, ErrorCode.NONE),
        (1, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert broker.partition().log.log_start_offset == 2


def codes(response: Any) -> list[tuple[int, int]]:
    (answered,) = response.topics
    return [(p.error_code, p.low_watermark) for p in answered.partitions]


def test_a_topic_without_partitions_is_left_out_as_in_kafka() -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1,)))
    assert ask(broker, "orders").topics == []


def test_records_of_internal_topics_are_not_deleted() -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1,)), topic("__consumer_offsets", isr=(1,)))
    broker.produce(acks=1)
    internal = DeleteRecordsTopic(
        name="__consumer_offsets", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)]
    )
    orders = DeleteRecordsTopic(name="orders", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
    replies = Replies()
    request = DeleteRecordsRequest(topics=[internal, orders], timeout_ms=1000)
    delete_records.handle(broker.replicas, context(ApiKey.DELETE_RECORDS, 2), request, replies)
    answers = [each.partitions[0] for each in replies.only.topics]
    assert [(each.error_code, each.low_watermark) for each in answers] == [
        (ErrorCode.INVALID_TOPIC_EXCEPTION, -1),
        (ErrorCode.NONE, 1),
    ]


def test_minus_one_means_the_high_watermark() -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1,)))
    for _ in range(3):
        broker.produce(acks=1)
    assert codes(ask(broker, "orders", -1)) == [(ErrorCode.NONE, 3)]


@pytest.mark.parametrize("offset", [4, -2])
def test_a_negative_offset_or_one_past_the_high_watermark_is_out_of_range(offset: int) -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1,)))
    for _ in range(3):
        broker.produce(acks=1)
    ask(broker, "orders", 1)
    assert codes(ask(broker, "orders", offset)) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
    assert broker.partition().log.log_start_offset == 1


def test_an_offset_below_the_log_start_deletes_nothing_and_is_answered_with_the_low_watermark() -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1,)))
    for _ in range(3):
        broker.produce(acks=1)
    ask(broker, "orders", 2)
    assert codes(ask(broker, "orders", 1)) == [(ErrorCode.NONE, 2)]
    assert broker.partition().log.log_start_offset == 2


def test_records_of_a_compacted_topic_cannot_be_deleted() -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1,), cleanup_policy="compact"))
    assert codes(ask(broker, "orders", 0)) == [(ErrorCode.POLICY_VIOLATION, -1)]


def test_a_follower_refuses() -> None:
    broker = Harness()
    broker.set_topics(topic(leader=2))
    assert codes(ask(broker, "orders", 0)) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_the_leader_answers_when_the_followers_have_deleted_too() -> None:
    broker = Harness()
    broker.set_topics(topic())
    broker.produce(acks=1)
    broker.follow((2, 1), (3, 1))
    replies = send(broker, "orders", 1)
    assert replies.said == []
    broker.follow((2, 1), (3, 1), log_start_offset=1)
    assert codes(replies.only) == [(ErrorCode.NONE, 1)]


def test_a_whole_request_can_be_answered_with_an_error() -> None:
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="orders", partitions=[DeleteRecordsPartition(partition_index=4, offset=1)])]
    )
    response = delete_records.API.failed(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    (partition,) = response.topics[0].partitions
    assert (partition.partition_index, partition.error_code) == (4, ErrorCode.UNKNOWN_SERVER_ERROR)
