"""Tests of the DescribeProducers handler."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import describe_producers
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_producers import (
    DescribedProducer,
    DescribeProducersRequest,
    PartitionResponse,
    TopicRequest,
)
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import ORDERS, Harness, topic

ORDERS_1 = TopicPartition("orders", 1)


@pytest.fixture
def broker() -> Harness:
    broker = Harness()
    broker.set_topics(topic(isr=(1,), partitions=2), topic("bills", leader=2, isr=(2,)))
    return broker


def write(
    broker: Harness, producer_id: int, *, tp: TopicPartition = ORDERS, epoch: int = 0, transactional: bool = False
) -> None:
    """Append two records of a producer, 10 ms after the last ones."""
    broker.clock.advance_ms(10)
    records = build_batch(
        [Record(nth, 1_000, None, b"value") for nth in range(2)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=transactional,
    )
    broker.partition(tp).append_own(records, acks=1, wall_ms=broker.clock.wall_ms())


def describe(broker: Harness, *topics: tuple[str, list[int]]) -> Any:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics]
    )
    replies = Replies()
    describe_producers.handle(broker.replicas, context(ApiKey.DESCRIBE_PRODUCERS, 0), request, replies)
    return replies.only


def partitions(response: Any) -> list[PartitionResponse]:
    return [partition for each in response.topics for partition in each.partitions]


def test_all_producers_of_a_partition_are_listed_those_with_open_transactions_first(broker: Harness) -> None:
    write(broker, 7, epoch=2)
    idle_ms = broker.clock.wall_ms()
    write(broker, 8, epoch=3, transactional=True)
    open_ms = broker.clock.wall_ms()
    (answered,) = partitions(describe(broker, ("orders", [0])))
    assert answered == PartitionResponse(
        partition_index=0,
        active_producers=[
            DescribedProducer(
                producer_id=8,
                producer_epoch=3,
                last_sequence=1,
                last_timestamp_ms=open_ms,
                coordinator_epoch=-1,
                current_txn_start_offset=2,
            ),
            DescribedProducer(
                producer_id=7,
                producer_epoch=2,
                last_sequence=1,
                last_timestamp_ms=idle_ms,
                coordinator_epoch=-1,
                current_txn_start_offset=-1,
            ),
        ],
    )


def test_a_marker_tells_the_coordinators_epoch(broker: Harness) -> None:
    write(broker, 7, transactional=True)
    marker = build_end_marker(EndMarker(True, 5), producer_id=7, producer_epoch=1, timestamp_ms=0)
    broker.partition().append_own(marker, acks=1, wall_ms=123)
    (answered,) = partitions(describe(broker, ("orders", [0])))
    assert answered.active_producers == [
        DescribedProducer(
            producer_id=7,
            producer_epoch=1,
            last_sequence=-1,
            last_timestamp_ms=123,
            coordinator_epoch=5,
            current_txn_start_offset=-1,
        )
    ]


def test_each_replica_answers(broker: Harness) -> None:
    """Kafka's administrators may ask a follower, as KafkaAdminClient's option `brokerId` does."""
    write(broker, 7)
    described = partitions(describe(broker, ("orders", [0])))
    followed = topic(leader=2, isr=(1, 2), leader_epoch=1, partition_epoch=1)
    broker.set_topics(followed, topic("bills", leader=2, replicas=(2,)))
    broker.may_lead = False
    assert partitions(describe(broker, ("orders", [0]))) == described
    assert [each.producer_id for each in described[0].active_producers] == [7]
    answered = partitions(describe(broker, ("bills", [0]), ("nowhere", [0])))
    assert [each.error_code for each in answered] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert all(each.error_message for each in answered)
    invalid = partitions(describe(broker, ("a b", [0]), ("x" * 250, [0])))
    assert [each.error_code for each in invalid] == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 2


def test_a_full_answer_has_open_transactions_only_and_then_none(
    broker: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_producers, "MAX_PRODUCERS", 3)
    for producer_id, transactional in ((1, False), (2, True), (3, True)):
        for tp in (ORDERS, ORDERS_1):
            write(broker, producer_id, tp=tp, transactional=transactional)
    answered = partitions(describe(broker, ("orders", [0])))
    assert [[each.producer_id for each in one.active_producers] for one in answered] == [[2, 3, 1]]
    monkeypatch.setattr(describe_producers, "MAX_PRODUCERS", 2)
    answered = partitions(describe(broker, ("orders", [0, 1])))
    assert [[each.producer_id for each in one.active_producers] for one in answered] == [[2, 3], []]
    assert [each.error_code for each in answered] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


def test_a_request_that_fails_as_a_whole_is_answered_for_each_partition() -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0, 1])])
    response = describe_producers.API.failed(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert [each.error_code for each in partitions(response)] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
