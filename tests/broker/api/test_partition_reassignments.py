"""Tests of the AlterPartitionReassignments and ListPartitionReassignments handlers."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import alter_partition_reassignments, list_partition_reassignments
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from purgatorio.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


def alter(
    cluster: Any, replicas: list[int] | None, *, index: int = 0, version: int = 1, may_change_factor: bool = True
) -> ErrorCode:
    partition = ReassignablePartition(partition_index=index, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=1000,
        allow_replication_factor_change=may_change_factor,
        topics=[ReassignableTopic(name="orders", partitions=[partition])],
    )
    response = cluster.ask(alter_partition_reassignments, version, request)
    assert response.error_code == ErrorCode.NONE
    return ErrorCode(response.responses[0].partitions[0].error_code)


def moving(cluster: Any, *asked: str) -> list[tuple[str, int, list[int], list[int], list[int]]]:
    topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 1]) for name in asked] or None
    request = ListPartitionReassignmentsRequest(timeout_ms=1000, topics=topics)
    response = cluster.ask(list_partition_reassignments, 0, request)
    return [
        (topic.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in response.topics
        for p in topic.partitions
    ]


@pytest.fixture
def placed(cluster: Any) -> Any:
    """A cluster with the topic orders, whose partitions have one replica each."""
    cluster.create("orders", 2, factor=1)
    cluster.create("other")
    return cluster


@pytest.mark.parametrize("version", range(2))
def test_a_reassignment_is_started_listed_and_cancelled(placed: Any, version: int) -> None:
    (here,) = placed.image.partition("orders", 0).replicas
    there = here % 3 + 1
    assert moving(placed) == []
    assert alter(placed, [there], version=version) == ErrorCode.NONE
    expected = [("orders", 0, [there, here], [there], [here])]
    assert moving(placed) == moving(placed, "orders") == expected
    assert moving(placed, "other", "nowhere") == []
    assert alter(placed, None, version=version) == ErrorCode.NONE
    assert moving(placed) == []
    assert placed.image.partition("orders", 0).replicas == (here,)


def test_an_impossible_reassignment_is_refused_and_the_replicas_stay(placed: Any) -> None:
    before = placed.image
    assert alter(placed, [1, 9]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert alter(placed, []) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert alter(placed, [1], index=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(placed, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert alter(placed, [1, 2], may_change_factor=False) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert placed.image is before


def test_a_request_times_out_while_the_store_does_not_answer(placed: Any) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=[1])
    topics = [ReassignableTopic(name="orders", partitions=[partition])]
    request = AlterPartitionReassignmentsRequest(timeout_ms=500, topics=topics)
    reply = placed.send(alter_partition_reassignments, 1, request)
    (waiting,) = placed.admin.purgatories.topics.operations(10)
    assert [str(key) for key in waiting.keys] == ["orders"]
    placed.pass_ms(501)
    (response,) = reply.responses
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("version", range(2))
def test_a_whole_alter_request_can_be_answered_with_an_error(cluster: Any, version: int) -> None:
    code = ErrorCode.NOT_CONTROLLER
    partitions = [ReassignablePartition(partition_index=index, replicas=[1]) for index in (3, 4)]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="orders", partitions=partitions)])
    seen = cluster.travel(version, alter_partition_reassignments.API.failed(request, code))
    assert seen.error_code == code
    assert [(row.partition_index, row.error_code) for row in seen.responses[0].partitions] == [(3, code), (4, code)]


def test_a_whole_list_request_can_be_answered_with_an_error(cluster: Any) -> None:
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    response = list_partition_reassignments.API.failed(ListPartitionReassignmentsRequest(), code)
    assert cluster.travel(0, response).error_code == code
