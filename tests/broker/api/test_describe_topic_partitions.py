"""Tests of the DescribeTopicPartitions handler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from purgatorio.broker.api import describe_topic_partitions
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest


def ask(cluster: Any, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    at = Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=at
    )
    return cluster.ask(describe_topic_partitions, 0, request)


def contents(response: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, [each.partition_index for each in topic.partitions]) for topic in response.topics]


def test_all_topics_are_described_sorted_by_name(cluster: Any) -> None:
    cluster.create("b", 2)
    a = cluster.create("a")
    response = ask(cluster)
    assert contents(response) == [("a", [0]), ("b", [0, 1])]
    assert response.next_cursor is None
    first = response.topics[0]
    assert (first.error_code, first.topic_id, first.is_internal) == (0, a.topic_id, False)
    assert first.topic_authorized_operations == 0b1101_1111_1000
    partition, state = first.partitions[0], a.partitions[0]
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, state.leader, 0)
    assert tuple(partition.replica_nodes) == tuple(partition.isr_nodes) == state.replicas
    assert partition.eligible_leader_replicas == []
    assert partition.offline_replicas == []


def test_each_requested_topic_is_described_once_and_none_is_created(cluster: Any) -> None:
    for name in "abc":
        cluster.create(name)
    response = ask(cluster, "c", "a", "x", "c", "a b")
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", ErrorCode.NONE),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", ErrorCode.NONE),
        ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert list(cluster.image.topics) == ["a", "b", "c"]


def test_a_partition_without_a_leader_is_answered_with_an_error(cluster: Any) -> None:
    leader = cluster.create("orders", factor=1).partitions[0].leader
    cluster.stop(leader)
    partition = ask(cluster).topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.offline_replicas == [leader]


def test_kip_966_replicas_that_have_all_acknowledged_records_are_eligible(cluster: Any) -> None:
    state = cluster.create("orders", min_insync_replicas="2").partitions[0]
    first, second, last = state.replicas
    for broker_id in (first, second):
        cluster.fence(broker_id)
    partition = ask(cluster).topics[0].partitions[0]
    assert (partition.leader_id, partition.isr_nodes) == (last, [last])
    assert partition.eligible_leader_replicas == [second]
    assert partition.last_known_elr == [], "Java's AdminClient fails on null"


def test_a_page_ends_at_the_limit_and_the_cursor_starts_the_next_page(cluster: Any) -> None:
    cluster.create("a", 3)
    cluster.create("b", 2)
    first = ask(cluster, limit=2)
    assert contents(first) == [("a", [0, 1])]
    assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == ("a", 2)
    second = ask(cluster, limit=2, cursor=("a", 2))
    assert contents(second) == [("a", [2]), ("b", [0])]
    assert (second.next_cursor.topic_name, second.next_cursor.partition_index) == ("b", 1)
    third = ask(cluster, limit=2, cursor=("b", 1))
    assert contents(third) == [("b", [1])]
    assert third.next_cursor is None


def test_a_page_that_ends_with_a_topic_is_continued_with_the_next_topic(cluster: Any) -> None:
    cluster.create("a", 2)
    cluster.create("b", 1)
    cursor = ask(cluster, limit=2).next_cursor
    assert (cursor.topic_name, cursor.partition_index) == ("b", 0)


@pytest.mark.parametrize("limit", [0, -5])
def test_a_page_has_at_least_one_partition(cluster: Any, limit: int) -> None:
    cluster.create("a", 2)
    assert contents(ask(cluster, limit=limit)) == [("a", [0])]


def test_a_page_has_at_most_the_brokers_limit_of_partitions(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_topic_partitions, "MAX_PARTITIONS_PER_PAGE", 3)
    cluster.create("a", 5)
    assert contents(ask(cluster)) == [("a", [0, 1, 2])]


@pytest.mark.parametrize("names", [(), ("b", "c", "bb")])
def test_a_topic_deleted_between_two_pages_does_not_hide_partitions_of_the_next_topic(
    cluster: Any, names: tuple[str, ...]
) -> None:
    cluster.create("c", 2)
    response = ask(cluster, *names, cursor=("b", 1))
    assert contents(response)[-1] == ("c", [0, 1])


def test_a_cursor_past_a_topics_end_continues_with_the_next_topic(cluster: Any) -> None:
    cluster.create("a", 1)
    cluster.create("b", 1)
    assert contents(ask(cluster, cursor=("a", 9))) == [("a", []), ("b", [0])]


def test_a_negative_cursor_is_refused(cluster: Any) -> None:
    cluster.create("a")
    (topic,) = ask(cluster, "a", cursor=("a", -1)).topics
    assert topic.error_code == ErrorCode.INVALID_REQUEST


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=st.integers(1, 12))
def test_the_pages_together_list_every_partition_once(cluster: Any, limit: int) -> None:
    for name, count in (("a", 4), ("b", 1), ("c", 5)):
        if name not in cluster.image.topics:
            cluster.create(name, count)
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    while True:
        response = ask(cluster, limit=limit, cursor=cursor)
        page = [(topic, index) for topic, indexes in contents(response) for index in indexes]
        assert 1 <= len(page) <= limit
        seen += page
        if response.next_cursor is None:
            break
        cursor = response.next_cursor.topic_name, response.next_cursor.partition_index
    assert seen == [("a", n) for n in range(4)] + [("b", 0)] + [("c", n) for n in range(5)]


def test_a_page_has_no_more_partitions_than_the_broker_allows(cluster: Any) -> None:
    cluster.create("a", partitions=3)
    cluster.admin = replace(cluster.admin, max_partitions_per_page=2)
    assert contents(ask(cluster)) == [("a", [0, 1])]
