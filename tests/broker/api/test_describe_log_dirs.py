"""Tests of the DescribeLogDirs handler: the replicas of one broker, with their sizes."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import describe_log_dirs
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.broker.api.group_requests import travel
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import MIB, Harness, batch, topic


@pytest.fixture
def broker() -> Harness:
    """Broker 1 with two partitions of "orders" and one of "other"; orders-0 has one batch."""
    harness = Harness()
    harness.set_topics(topic("other"), topic(partitions=2), topic("elsewhere", leader=2, replicas=(2, 3)))
    harness.produce(acks=1)
    return harness


def ask(broker: Harness, topics: list[DescribableLogDirTopic] | None) -> Any:
    replies = Replies()
    request = DescribeLogDirsRequest(topics=topics)
    describe_log_dirs.handle(broker.replicas, context(ApiKey.DESCRIBE_LOG_DIRS, 4), request, replies)
    (result,) = replies.only.results
    return result


def sizes(result: Any) -> list[tuple[str, int, int]]:
    return [(each.name, p.partition_index, p.partition_size) for each in result.topics for p in each.partitions]


def test_all_replicas_of_this_broker_are_listed_with_their_sizes(broker: Harness) -> None:
    result = ask(broker, None)
    assert sizes(result) == [("orders", 0, len(batch(b"value"))), ("orders", 1, 0), ("other", 0, 0)]
    assert (result.error_code, result.log_dir) == (ErrorCode.NONE, "memory")


def test_only_the_requested_replicas_that_are_here_are_listed_each_once(broker: Harness) -> None:
    wanted = [DescribableLogDirTopic(topic=name, partitions=[1, 1, 7]) for name in ("orders", "elsewhere", "nowhere")]
    assert sizes(ask(broker, wanted)) == [("orders", 1, 0)]
    assert sizes(ask(broker, [])) == []


def test_the_volume_is_the_memory_cap(broker: Harness) -> None:
    result = ask(broker, None)
    assert result.total_bytes == 64 * MIB
    assert 0 < result.total_bytes - result.usable_bytes < 1000


@pytest.mark.parametrize("version", range(1, 6))
def test_the_answer_can_be_sent_in_every_version(broker: Harness, version: int) -> None:
    replies = Replies()
    request = DescribeLogDirsRequest(topics=None)
    describe_log_dirs.handle(broker.replicas, context(ApiKey.DESCRIBE_LOG_DIRS, version), request, replies)
    (result,) = travel(version, replies.only).results
    assert (sizes(result)[0][0], result.is_cordoned) == ("orders", False)


def test_a_whole_request_can_be_answered_with_an_error() -> None:
    response = describe_log_dirs.API.failed(DescribeLogDirsRequest(), ErrorCode.UNKNOWN_SERVER_ERROR)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
