"""DeleteRecords, through its handler."""

from __future__ import annotations

from typing import Any

from broker.api import delete_records
from protocol.api_key import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import Harness, topic


def ask(broker: Harness, name: str, *offsets: int) -> Any:
    partitions = [DeleteRecordsPartition(partition_index=nth, offset=offset) for nth, offset in enumerate(offsets)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=partitions)], timeout_ms=1000)
    replies = Replies()
    delete_records.handle(broker.replicas, context(ApiKey.DELETE_RECORDS, 2), request, replies)
    return replies.only


def test_each_partition_is_answered_with_where_it_begins_or_why_not() -> None:
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


def test_a_whole_request_can_be_answered_with_an_error() -> None:
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="orders", partitions=[DeleteRecordsPartition(partition_index=4, offset=1)])]
    )
    response = delete_records.error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    (partition,) = response.topics[0].partitions
    assert (partition.partition_index, partition.error_code) == (4, ErrorCode.UNKNOWN_SERVER_ERROR)
