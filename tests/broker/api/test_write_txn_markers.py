"""Tests of the WriteTxnMarkers handler."""

from __future__ import annotations

from typing import Any

from purgatorio.broker.api import write_txn_markers
from purgatorio.broker.txn.marker_writer import MarkerWriter
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import Harness, topic


def marker(producer_id: int, *topics: tuple[str, list[int]], epoch: int = 0, version: int = 0) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics],
        coordinator_epoch=-1,
        transaction_version=version,
    )


def send(broker: Harness, *markers: WritableTxnMarker) -> Replies:
    replies = Replies()
    writer = MarkerWriter(broker.replicas, broker.clock, timeout_ms=5_000)
    request = WriteTxnMarkersRequest(markers=list(markers))
    write_txn_markers.handle(writer, context(ApiKey.WRITE_TXN_MARKERS, 2), request, replies)
    return replies


def codes(response: Any) -> list[tuple[int, str, int, int]]:
    return [
        (each.producer_id, of_topic.name, partition.partition_index, partition.error_code)
        for each in response.markers
        for of_topic in each.topics
        for partition in of_topic.partitions
    ]


def test_the_answer_names_each_partition_of_each_marker_in_the_order_of_the_request() -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1,), partitions=2))
    replies = send(broker, marker(8, ("nowhere", [0]), ("orders", [1, 0])), marker(7, ("orders", [0])))
    assert codes(replies.only) == [
        (8, "nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (8, "orders", 1, ErrorCode.NONE),
        (8, "orders", 0, ErrorCode.NONE),
        (7, "orders", 0, ErrorCode.NONE),
    ]


def test_the_answer_waits_for_the_followers_of_all_partitions() -> None:
    broker = Harness()
    broker.set_topics(topic())
    replies = send(broker, marker(7, ("orders", [0])), marker(8, ("orders", [0])), marker(9, ("nowhere", [0])))
    broker.follow((2, 2), (3, 1))
    assert replies.said == []
    broker.follow((3, 2))
    assert [code for *_, code in codes(replies.only)] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_marker_of_an_admin_client_ends_a_hanging_transaction() -> None:
    """KIP-664: Kafka's tools send what DescribeProducers tells; a coordinator epoch of -1 if none ended one yet."""
    broker = Harness()
    broker.set_topics(topic(isr=(1,)))
    assert codes(send(broker, marker(7, ("orders", [0]))).only) == [(7, "orders", 0, ErrorCode.NONE)]


def test_a_partition_that_is_named_twice_gets_one_marker() -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1,)))
    replies = send(broker, marker(7, ("orders", [0, 0]), ("orders", [0])))
    assert [code for *_, code in codes(replies.only)] == [0, 0, 0]
    assert broker.partition().log.log_end_offset == 1


def test_an_empty_request_has_an_empty_answer() -> None:
    broker = Harness()
    assert codes(send(broker).only) == []
    assert codes(send(broker, marker(7)).only) == []


def test_a_request_with_too_many_markers_writes_the_first_ones() -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1,), partitions=write_txn_markers.MAX_MARKERS))
    everywhere = list(range(write_txn_markers.MAX_MARKERS))
    broker.replicas.apply_more()
    while not broker.replicas.is_current:
        broker.replicas.apply_more()
    answered = codes(send(broker, marker(7, ("orders", everywhere[1:])), marker(8, ("orders", [0, 1]))).only)
    refused = [each for each in answered if each[3] == ErrorCode.REQUEST_TIMED_OUT]
    assert refused == [(8, "orders", 1, ErrorCode.REQUEST_TIMED_OUT)]
    assert [each[3] for each in answered].count(0) == write_txn_markers.MAX_MARKERS


def test_the_transaction_version_tells_how_epochs_are_checked() -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1,)))
    records = build_batch(
        [Record(0, 1_000, None, b"value")], producer_id=7, producer_epoch=1, base_sequence=0, transactional=True
    )
    broker.partition().append_own(records, acks=1, wall_ms=1_000)
    of_version_2 = marker(7, ("orders", [0]), epoch=1, version=2)
    of_version_1 = marker(7, ("orders", [0]), epoch=1, version=1)
    assert codes(send(broker, of_version_2).only) == [(7, "orders", 0, ErrorCode.INVALID_PRODUCER_EPOCH)]
    assert codes(send(broker, of_version_1).only) == [(7, "orders", 0, ErrorCode.NONE)]
    assert codes(send(broker, of_version_2).only) == [(7, "orders", 0, ErrorCode.NONE)]


def test_a_request_that_fails_as_a_whole_is_answered_for_each_partition() -> None:
    request = WriteTxnMarkersRequest(markers=[marker(7, ("orders", [0, 1]))])
    response = write_txn_markers.API.failed(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert codes(response) == [(7, "orders", nth, ErrorCode.UNKNOWN_SERVER_ERROR) for nth in (0, 1)]
