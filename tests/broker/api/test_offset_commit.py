"""OffsetCommit: what is stored, what is refused, and when the client is answered."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import offset_commit
from purgatorio.broker.coordinator.coordinator_log import RETRY_MS
from purgatorio.broker.group.offsets import CommittedOffset
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.api.group_requests import Coordinator, travel
from tests.broker.group.harness import PARTITION
from tests.broker.replica.harness import topic

ORDERS_ID = topic("orders").topic_id
NAMED = range(2, 10)
INT64_MAX = (1 << 63) - 1


def request(
    *offsets: int, group_id: str = "app", name: str = "orders", metadata: str | None = "", **fields: Any
) -> OffsetCommitRequest:
    """Commit these offsets for the partitions 0, 1, … of a topic."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
        for index, offset in enumerate(offsets)
    ]
    topics = [OffsetCommitRequestTopic(name=name, topic_id=fields.pop("topic_id", ORDERS_ID), partitions=partitions)]
    return OffsetCommitRequest(group_id=group_id, topics=topics, **fields)


def codes(response: Any) -> list[int]:
    return [each.error_code for topic in response.topics for each in topic.partitions]


def offset(broker: Coordinator, group_id: str = "app", partition: int = 0) -> int:
    """The offset of orders that a client sees; -1: none."""
    committed = broker.groups.offsets.offsets_of(group_id).get("orders", {}).get(partition)
    return -1 if committed is None else committed.offset


@pytest.mark.parametrize("version", range(2, 11))
def test_an_offset_is_stored_in_every_version(version: int) -> None:
    broker = Coordinator()
    assert codes(broker.ask(offset_commit, version, request(7, 8))) == [0, 0]
    assert (offset(broker), offset(broker, partition=1)) == (7, 8)


@pytest.mark.parametrize("offsets", [(), (7,)])
def test_a_topic_without_partitions_is_left_out_as_in_kafka(offsets: tuple[int, ...]) -> None:
    broker = Coordinator()
    commit = request(*offsets)
    commit.topics.insert(0, OffsetCommitRequestTopic(name="none"))
    assert [each.name for each in broker.ask(offset_commit, 9, commit).topics] == ["orders"] * len(offsets)
    assert offset(broker) == (7 if offsets else -1)


def test_what_is_stored_with_an_offset() -> None:
    broker = Coordinator()
    commit = request(7, metadata="note")
    commit.topics[0].partitions[0].committed_leader_epoch = 3
    broker.ask(offset_commit, 9, commit)
    stored = broker.groups.offsets.offsets_of("app")["orders"][0]
    assert stored == CommittedOffset(7, 3, "note", broker.clock.wall_ms(), -1, ORDERS_ID)


def test_a_commit_with_a_retention_time_expires_then() -> None:
    broker = Coordinator()
    broker.ask(offset_commit, 4, request(7, retention_time_ms=1_000))
    assert broker.groups.offsets.offsets_of("app")["orders"][0].expire_ms == broker.clock.wall_ms() + 1_000


def test_the_longest_retention_time_is_accepted() -> None:
    broker = Coordinator()
    assert codes(broker.ask(offset_commit, 4, request(7, retention_time_ms=INT64_MAX))) == [0]


def test_a_commit_is_answered_and_visible_when_the_replicas_have_it() -> None:
    broker = Coordinator(replicas=(1, 2))
    replies = broker.post(offset_commit, 9, request(7))
    assert replies.said == []
    assert offset(broker) == -1
    broker.follow((2, 1), tp=PARTITION)
    assert codes(travel(9, replies.only)) == [0]
    assert offset(broker) == 7


def test_a_commit_that_timed_out_becomes_visible_when_it_is_replicated_after_all() -> None:
    broker = Coordinator(replicas=(1, 2))
    replies = broker.post(offset_commit, 9, request(7))
    broker.advance_ms(5_001)
    assert codes(replies.only) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert offset(broker) == -1
    broker.follow((2, 1), tp=PARTITION)
    assert offset(broker) == 7


def test_a_later_commit_does_not_lose_to_an_earlier_one_that_timed_out() -> None:
    broker = Coordinator(replicas=(1, 2))
    broker.post(offset_commit, 9, request(7))
    broker.advance_ms(4_000)
    broker.post(offset_commit, 9, request(9))
    broker.advance_ms(1_500)
    broker.follow((2, 2), tp=PARTITION)
    assert offset(broker) == 9
    broker.advance_ms(10_000)
    broker.follow((2, 2), tp=PARTITION)
    assert offset(broker) == 9


def test_clients_that_retry_while_the_replicas_are_away_make_one_wait_not_many() -> None:
    broker = Coordinator(replicas=(1, 2))
    for _ in range(20):
        broker.post(offset_commit, 9, request(7))
        broker.advance_ms(5_001)
    assert broker.produce_purgatory.watched <= 2
    broker.follow((2, 20), tp=PARTITION)
    broker.advance_ms(RETRY_MS)
    assert offset(broker) == 7


def test_the_last_of_several_offsets_for_a_partition_wins() -> None:
    broker = Coordinator()
    commit = request(7, 8)
    commit.topics[0].partitions[1].partition_index = 0
    assert codes(broker.ask(offset_commit, 9, commit)) == [0, 0]
    assert offset(broker) == 8


@pytest.mark.parametrize("version", NAMED)
def test_unknown_topics_and_partitions_are_refused_and_the_others_stored(version: int) -> None:
    broker = Coordinator()
    commit = request(1, 2, 3, 4)
    commit.topics += request(5, name="nowhere").topics
    assert codes(broker.ask(offset_commit, version, commit)) == [0, 0, 0, 3, 3]
    assert offset(broker, partition=2) == 3


def test_an_unknown_topic_id_is_refused() -> None:
    broker = Coordinator()
    assert codes(broker.ask(offset_commit, 10, request(1, topic_id=b"x" * 16))) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_too_long_metadata_is_refused_for_its_partition_only() -> None:
    broker = Coordinator()
    commit = request(7, 8, metadata="m" * 4_096)
    commit.topics[0].partitions[0].committed_metadata = "m" * 4_097
    assert codes(broker.ask(offset_commit, 9, commit)) == [ErrorCode.OFFSET_METADATA_TOO_LARGE, 0]
    assert (offset(broker), offset(broker, partition=1)) == (-1, 8)


def test_null_metadata_is_an_empty_note() -> None:
    broker = Coordinator()
    broker.ask(offset_commit, 9, request(7, metadata=None))
    assert broker.groups.offsets.offsets_of("app")["orders"][0].metadata == ""


def test_kafka_6773_the_empty_group_id_may_commit() -> None:
    broker = Coordinator()
    assert codes(broker.ask(offset_commit, 9, request(7, group_id=""))) == [0]
    assert offset(broker, "") == 7


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION), (9, 69), (10, 69)]
)
def test_a_member_of_an_unknown_group_may_not_commit(version: int, code: int) -> None:
    broker = Coordinator()
    commit = request(7, generation_id_or_member_epoch=1, member_id="m")
    assert codes(broker.ask(offset_commit, version, commit)) == [code]
    assert offset(broker) == -1


def test_a_group_of_offsets_alone_has_no_members_that_may_commit() -> None:
    broker = Coordinator()
    broker.ask(offset_commit, 9, request(7))
    for fields in ({"generation_id_or_member_epoch": 1}, {"generation_id_or_member_epoch": 0, "member_id": "m"}):
        assert codes(broker.ask(offset_commit, 9, request(8, **fields))) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert offset(broker) == 7


def test_a_broker_that_is_not_the_coordinator_says_so_for_each_partition() -> None:
    broker = Coordinator()
    broker.elect(2, 2)
    broker.image.topics["orders"] = topic("orders", partitions=3)  # type: ignore[index]
    assert codes(broker.ask(offset_commit, 9, request(7, 8))) == [ErrorCode.NOT_COORDINATOR] * 2


def test_new_groups_beyond_the_limit_are_refused_and_known_ones_go_on(caplog: pytest.LogCaptureFixture) -> None:
    broker = Coordinator(max_groups=2)
    for group_id, code in (("a", 0), ("b", 0), ("c", ErrorCode.INVALID_COMMIT_OFFSET_SIZE), ("a", 0)):
        assert codes(broker.ask(offset_commit, 9, request(7, group_id=group_id))) == [code]
    assert "has 2 groups" in caplog.text


def test_new_partitions_beyond_the_limit_are_refused_and_known_ones_go_on(caplog: pytest.LogCaptureFixture) -> None:
    broker = Coordinator(max_offsets=2)
    assert codes(broker.ask(offset_commit, 9, request(1, 2))) == [0, 0]
    assert codes(broker.ask(offset_commit, 9, request(1, 2, 3))) == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE] * 3
    assert codes(broker.ask(offset_commit, 9, request(5, 6))) == [0, 0]
    assert offset(broker) == 5
    assert "2 committed offsets" in caplog.text


def test_changes_that_wait_for_absent_replicas_are_bounded() -> None:
    broker = Coordinator(replicas=(1, 2), max_offsets=2)
    first = [broker.post(offset_commit, 9, request(1)) for _ in range(2)]
    assert codes(broker.ask(offset_commit, 9, request(1))) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert all(not replies.said for replies in first)


def test_a_request_without_offsets_is_answered_at_once() -> None:
    assert Coordinator().ask(offset_commit, 9, OffsetCommitRequest(group_id="app")).topics == []


def test_committed_offsets_are_loaded_with_the_partition() -> None:
    broker = Coordinator()
    broker.ask(offset_commit, 9, request(7, 8))
    broker.ask(offset_commit, 9, request(9))
    broker.elect(1, 2, replicas=(1,))
    broker.work()
    assert (offset(broker), offset(broker, partition=1)) == (9, 8)


def test_a_whole_request_can_be_answered_with_an_error() -> None:
    response = offset_commit.API.failed(request(7, 8), ErrorCode.UNKNOWN_SERVER_ERROR)
    assert codes(travel(9, response)) == [-1, -1]
