"""Tests of the AlterReplicaLogDirs handler: there is one log directory, in which replicas stay."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import alter_replica_log_dirs
from purgatorio.broker.api.describe_log_dirs import LOG_DIR
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tests.broker.api.group_requests import travel
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import Harness, topic

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOWHERE, ELSEWHERE = ErrorCode.LOG_DIR_NOT_FOUND, ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def broker() -> Harness:
    """Broker 1 with two partitions of "orders"; "elsewhere" is at others."""
    harness = Harness()
    harness.set_topics(topic(partitions=2), topic("elsewhere", leader=2, replicas=(2, 3)))
    return harness


def log_dir(path: str, **partitions: list[int]) -> AlterReplicaLogDir:
    topics = [AlterReplicaLogDirTopic(name=name, partitions=indexes) for name, indexes in partitions.items()]
    return AlterReplicaLogDir(path=path, topics=topics)


def ask(broker: Harness, *dirs: AlterReplicaLogDir) -> dict[tuple[str, int], ErrorCode]:
    replies = Replies()
    request = AlterReplicaLogDirsRequest(dirs=list(dirs))
    alter_replica_log_dirs.handle(broker.replicas, context(ApiKey.ALTER_REPLICA_LOG_DIRS, 2), request, replies)
    return codes(replies.only)


def codes(response: Any) -> dict[tuple[str, int], ErrorCode]:
    told = [(each.topic_name, p.partition_index, p.error_code) for each in response.results for p in each.partitions]
    found = {(name, index): ErrorCode(code) for name, index, code in told}
    assert len(found) == len(told), "each replica has one result"
    return found


def test_no_replica_moves_to_another_directory(broker: Harness) -> None:
    assert ask(broker, log_dir("/data", orders=[0, 7], nowhere=[0])) == {
        ("orders", 0): NOWHERE,
        ("orders", 7): NOWHERE,
        ("nowhere", 0): NOWHERE,
    }


def test_a_replica_may_stay_where_it_is(broker: Harness) -> None:
    assert ask(broker, log_dir(LOG_DIR, orders=[0, 1, 7], nowhere=[0], elsewhere=[0])) == {
        ("orders", 0): NONE,
        ("orders", 1): NONE,
        ("orders", 7): UNKNOWN,
        ("nowhere", 0): UNKNOWN,
        ("elsewhere", 0): ELSEWHERE,
    }


def test_what_is_repeated_is_answered_once_for_its_last_directory(broker: Harness) -> None:
    assert ask(broker, log_dir(LOG_DIR, orders=[0, 0, 1]), log_dir("/data", orders=[0])) == {
        ("orders", 0): NOWHERE,
        ("orders", 1): NONE,
    }
    assert ask(broker) == {}


@pytest.mark.parametrize("version", [1, 2])
def test_a_whole_request_can_be_answered_with_an_error(version: int) -> None:
    request = AlterReplicaLogDirsRequest(dirs=[log_dir("/data", orders=[0, 1])])
    failed = alter_replica_log_dirs.error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    answer = travel(version, failed)
    assert codes(answer) == {("orders", 0): refused, ("orders", 1): refused}
