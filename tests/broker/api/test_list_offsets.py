"""Tests of the ListOffsets handler: timestamps, special timestamps, and the offsets that clients may see."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import list_offsets
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import Harness, topic

START_MS = 1_700_000_000_000


@pytest.fixture
def filled() -> Harness:
    """orders-0 with ten records, one second apart; broker 2 has eight of them, broker 3 all."""
    broker = Harness()
    broker.set_topics(topic())
    records = [Record(i, START_MS + i * 1000, None, b"value", ()) for i in range(10)]
    broker.produce(acks=1, records=build_batch(records[:8]))
    broker.produce(acks=1, records=build_batch([r._replace(offset=i) for i, r in enumerate(records[8:])]))
    broker.fetch(*[(broker.partition().tp, 8)], replica_id=2, max_wait_ms=0)
    broker.fetch(*[(broker.partition().tp, 10)], replica_id=3, max_wait_ms=0)
    return broker


def ask(broker: Harness, timestamp: int, *, version: int = 7, partition: int = 0, **request: Any) -> Any:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    message = ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[wanted])], **request)
    replies = Replies()
    list_offsets.handle(broker.replicas, context(ApiKey.LIST_OFFSETS, version), message, replies)
    return replies.only.topics[0].partitions[0]


def test_a_topic_without_partitions_is_left_out_as_in_kafka(filled: Harness) -> None:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsTopic(name="none"), ListOffsetsTopic(name="orders", partitions=[wanted])]
    replies = Replies()
    request = ListOffsetsRequest(topics=topics)
    list_offsets.handle(filled.replicas, context(ApiKey.LIST_OFFSETS, 7), request, replies)
    assert [each.name for each in replies.only.topics] == ["orders"]


def test_latest_is_the_high_watermark_for_consumers_and_the_log_end_for_followers(filled: Harness) -> None:
    assert ask(filled, list_offsets.LATEST).offset == 8
    assert ask(filled, list_offsets.LATEST, replica_id=2).offset == 10


@pytest.mark.parametrize("word", [list_offsets.EARLIEST, list_offsets.EARLIEST_LOCAL])
def test_earliest_is_the_log_start(filled: Harness, word: int) -> None:
    filled.partition().log.advance_log_start(3)
    assert ask(filled, word, version=8).offset == 3


def test_a_timestamp_finds_the_first_record_with_it_or_a_later_one(filled: Harness) -> None:
    found = ask(filled, START_MS + 2500)
    assert (found.offset, found.timestamp, found.leader_epoch) == (3, START_MS + 3000, 0)


def test_a_timestamp_that_no_visible_record_reaches_is_minus_1_and_no_error(filled: Harness) -> None:
    found = ask(filled, START_MS + 8500)
    assert (found.offset, found.timestamp, found.error_code) == (-1, -1, ErrorCode.NONE)


def test_the_offset_of_the_largest_timestamp(filled: Harness) -> None:
    assert ask(filled, list_offsets.MAX_TIMESTAMP).offset == 7


def test_there_is_no_tiered_storage(filled: Harness) -> None:
    assert ask(filled, list_offsets.LATEST_TIERED, version=9).offset == -1
    pending = ask(filled, list_offsets.EARLIEST_PENDING_UPLOAD, version=11)
    assert (pending.offset, pending.error_code) == (-1, ErrorCode.NONE)
    assert ask(filled, list_offsets.EARLIEST_PENDING_UPLOAD, version=10).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_unknown_partition_is_answered_with_an_error(filled: Harness) -> None:
    assert ask(filled, list_offsets.LATEST, partition=7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_broker_that_does_not_lead_the_partition_answers_with_an_error(filled: Harness) -> None:
    filled.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=1))
    assert ask(filled, list_offsets.LATEST).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("version", "error"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_kip_207_a_new_leader_does_not_know_its_latest_offset_yet(
    filled: Harness, version: int, error: ErrorCode
) -> None:
    filled.set_topics(topic(leader_epoch=1, partition_epoch=1))
    assert ask(filled, list_offsets.LATEST, version=version).error_code == error


@pytest.mark.parametrize(("timestamp", "version"), [(-6, 10), (-100, 10), (-(2**63), 10), (-3, 6), (-4, 7), (-5, 8)])
def test_a_negative_timestamp_without_a_meaning_in_this_version_is_unsupported(
    filled: Harness, timestamp: int, version: int
) -> None:
    answer = ask(filled, timestamp, version=version)
    assert (answer.error_code, answer.offset, answer.timestamp) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)


def test_each_mention_of_a_partition_that_is_named_twice_is_refused() -> None:
    broker = Harness()
    broker.set_topics(topic(partitions=2))
    named = [ListOffsetsPartition(partition_index=index, timestamp=list_offsets.LATEST) for index in (0, 1, 0)]
    topics = [
        ListOffsetsTopic(name="orders", partitions=named[:2]),
        ListOffsetsTopic(name="orders", partitions=named[2:]),
    ]
    replies = Replies()
    list_offsets.handle(broker.replicas, context(ApiKey.LIST_OFFSETS, 7), ListOffsetsRequest(topics=topics), replies)
    codes = [partition.error_code for answered in replies.only.topics for partition in answered.partitions]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
