"""Tests of the CreatePartitions handler."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import create_partitions
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)


def wanted(name: str, count: int, *assignments: list[int]) -> CreatePartitionsTopic:
    given = [CreatePartitionsAssignment(broker_ids=broker_ids) for broker_ids in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=given or None)


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions_and_answers_each_topic(cluster: Any, version: int) -> None:
    cluster.create("a", 2)
    cluster.create("b", 2)
    request = CreatePartitionsRequest(topics=[wanted("a", 5), wanted("b", 2), wanted("c", 1)], timeout_ms=1000)
    response = cluster.ask(create_partitions, version, request)
    assert [(result.name, result.error_code, bool(result.error_message)) for result in response.results] == [
        ("a", ErrorCode.NONE, False),
        ("b", ErrorCode.INVALID_PARTITIONS, True),
        ("c", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
    ]
    assert len(cluster.image.topics["a"].partitions) == 5
    assert len(cluster.image.topics["b"].partitions) == 2


def test_assignments_are_honoured(cluster: Any) -> None:
    cluster.create("a", 1, 2)
    request = CreatePartitionsRequest(topics=[wanted("a", 3, [3, 2], [2, 1])], timeout_ms=1000)
    cluster.ask(create_partitions, 3, request)
    assert [state.replicas for state in cluster.image.topics["a"].partitions[1:]] == [(3, 2), (2, 1)]


def test_validate_only_answers_as_usual_and_adds_no_partitions(cluster: Any) -> None:
    cluster.create("a", 1)
    request = CreatePartitionsRequest(topics=[wanted("a", 3)], timeout_ms=1000, validate_only=True)
    (result,) = cluster.ask(create_partitions, 3, request).results
    assert result.error_code == ErrorCode.NONE
    assert len(cluster.image.topics["a"].partitions) == 1


def test_a_whole_request_can_be_answered_with_an_error(cluster: Any) -> None:
    request = CreatePartitionsRequest(topics=[wanted("a", 3)])
    seen = cluster.travel(3, create_partitions.API.failed(request, ErrorCode.NOT_CONTROLLER))
    assert [(result.name, result.error_code) for result in seen.results] == [("a", ErrorCode.NOT_CONTROLLER)]
