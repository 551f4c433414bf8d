"""OffsetDelete: offsets are deleted partition by partition, or the whole request is refused."""

from __future__ import annotations

from typing import Any

from purgatorio.broker.api import offset_commit, offset_delete
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.broker.api.group_requests import Coordinator, travel
from tests.broker.api.test_offset_commit import offset
from tests.broker.api.test_offset_commit import request as commit
from tests.broker.group.harness import PARTITION


def delete(*partitions: int, group_id: str = "app", name: str = "orders") -> OffsetDeleteRequest:
    asked = [OffsetDeleteRequestPartition(partition_index=each) for each in partitions]
    return OffsetDeleteRequest(group_id=group_id, topics=[OffsetDeleteRequestTopic(name=name, partitions=asked)])


def codes(response: Any) -> list[int]:
    return [each.error_code for topic in response.topics for each in topic.partitions]


def test_offsets_are_deleted_and_unknown_partitions_refused() -> None:
    broker = Coordinator()
    broker.ask(offset_commit, 9, commit(7, 8))
    response = broker.ask(offset_delete, 0, delete(0, 2, 3))
    assert (response.error_code, codes(response)) == (0, [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    assert (offset(broker), offset(broker, partition=1)) == (-1, 8)


def test_a_topic_without_partitions_is_left_out_as_in_kafka() -> None:
    broker = Coordinator()
    broker.ask(offset_commit, 9, commit(7))
    request = delete(0)
    request.topics.insert(0, OffsetDeleteRequestTopic(name="none"))
    assert [each.name for each in broker.ask(offset_delete, 0, request).topics] == ["orders"]


def test_the_answer_waits_for_the_replicas() -> None:
    broker = Coordinator(replicas=(1, 2))
    broker.post(offset_commit, 9, commit(7))
    broker.follow((2, 1), tp=PARTITION)
    replies = broker.post(offset_delete, 0, delete(0))
    assert (replies.said, offset(broker)) == ([], 7)
    broker.follow((2, 2), tp=PARTITION)
    assert (codes(travel(0, replies.only)), offset(broker)) == ([0], -1)


def test_an_unknown_group_is_an_error_of_the_request() -> None:
    response = Coordinator().ask(offset_delete, 0, delete(0))
    assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_an_empty_group_id_is_refused() -> None:
    """It may have committed offsets (KAFKA-6773), yet Kafka does not delete them one by one."""
    broker = Coordinator()
    broker.ask(offset_commit, 9, commit(7, group_id=""))
    assert broker.ask(offset_delete, 0, delete(0, group_id="")).error_code == ErrorCode.INVALID_GROUP_ID
