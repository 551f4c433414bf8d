"""FindCoordinator: names the leaders of groups' partitions, and creates their topic first."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.broker.api import find_coordinator
from purgatorio.broker.api.coordinator_topics import offsets_topic, share_state_topic, transaction_topic
from purgatorio.broker.group.config import GroupConfig
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from purgatorio.broker.share.state.services import ShareStateConfig
from purgatorio.broker.txn.services import TransactionConfig
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

Find = Callable[..., FindCoordinatorResponse]
BILLING_OF_50 = 9


@pytest.fixture
def find(cluster: Any) -> Find:
    topics = {
        0: offsets_topic(GroupConfig()),
        1: transaction_topic(TransactionConfig()),
        2: share_state_topic(ShareStateConfig()),
    }
    api: Any = SimpleNamespace(handle=lambda admin, *rest: find_coordinator.handle(admin, topics, *rest))
    return lambda version=6, **fields: cluster.ask(api, version, FindCoordinatorRequest(**fields))


def test_the_first_request_creates_the_topic_and_is_answered_with_the_leader(cluster: Any, find: Find) -> None:
    (found,) = find(coordinator_keys=["billing"]).coordinators
    topic = cluster.image.topics[OFFSETS_TOPIC]
    assert len(topic.partitions) == 50
    assert len(topic.partitions[0].replicas) == 3
    assert topic.configs["cleanup.policy"] == "compact"
    leader = topic.partitions[BILLING_OF_50].leader
    assert (found.error_code, found.key, found.node_id) == (ErrorCode.NONE, "billing", leader)
    assert (found.host, found.port) == (f"host-{leader}", 9000 + leader)


@pytest.mark.parametrize("version", range(4))
def test_before_version_4_the_answer_is_for_one_key(find: Find, version: int) -> None:
    answer = find(version=version, key="billing")
    assert answer.error_code == ErrorCode.NONE
    assert answer.node_id in (1, 2, 3)
    assert answer.coordinators == []


def test_several_groups_have_a_coordinator_each(find: Find) -> None:
    found = find(coordinator_keys=["billing", "", "my-group"]).coordinators
    assert [each.key for each in found] == ["billing", "", "my-group"]
    assert all(each.node_id > 0 for each in found)


def test_a_group_whose_partition_has_no_leader_has_no_coordinator_now(cluster: Any, find: Find) -> None:
    find(coordinator_keys=["billing"])
    leader = cluster.image.topics[OFFSETS_TOPIC].partitions[BILLING_OF_50].leader
    for broker_id in (1, 2, 3):
        cluster.fence(broker_id)
    (found,) = find(coordinator_keys=["billing"]).coordinators
    assert leader > 0
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def test_the_first_transactional_id_creates_the_topic_of_transactions(cluster: Any, find: Find) -> None:
    (found,) = find(key_type=1, coordinator_keys=["billing"]).coordinators
    topic = cluster.image.topics[TRANSACTION_STATE_TOPIC]
    assert (len(topic.partitions), len(topic.partitions[0].replicas)) == (50, 3)
    assert (topic.configs["cleanup.policy"], topic.configs["min.insync.replicas"]) == ("compact", "2")
    assert (found.error_code, found.node_id) == (ErrorCode.NONE, topic.partitions[BILLING_OF_50].leader)
    assert OFFSETS_TOPIC not in cluster.image.topics


@pytest.mark.parametrize(("stopped", "replicas", "min_isr"), [([], 3, "2"), ([3], 2, None), ([2, 3], 1, None)])
def test_groups_need_two_in_sync_replicas_of_three_and_outlive_one_broker_of_two(
    cluster: Any, find: Find, stopped: list[int], replicas: int, min_isr: str | None
) -> None:
    for broker_id in stopped:
        cluster.stop(broker_id)
    find(coordinator_keys=["billing"])
    topic = cluster.image.topics[OFFSETS_TOPIC]
    assert (len(topic.partitions[0].replicas), topic.configs.get("min.insync.replicas")) == (replicas, min_isr)


@pytest.mark.parametrize(("setting", "of_brokers", "min_isr"), [(1, 1, None), (2, 3, None), (9, 1, "2")])
def test_the_in_sync_replicas_of_groups_are_a_setting_but_no_fewer_than_those_of_all_topics(
    cluster: Any, setting: int, of_brokers: int, min_isr: str | None
) -> None:
    log = dataclasses.replace(cluster.admin.topics.log, min_insync_replicas=of_brokers)
    cluster.admin = dataclasses.replace(cluster.admin, topics=dataclasses.replace(cluster.admin.topics, log=log))
    topics = {0: offsets_topic(GroupConfig(offsets_topic_min_isr=setting))}
    api: Any = SimpleNamespace(handle=lambda admin, *rest: find_coordinator.handle(admin, topics, *rest))
    cluster.ask(api, 6, FindCoordinatorRequest(coordinator_keys=["billing"]))
    assert cluster.image.topics[OFFSETS_TOPIC].configs.get("min.insync.replicas") == min_isr


def test_fewer_brokers_mean_fewer_replicas_that_must_be_in_sync(cluster: Any, find: Find) -> None:
    cluster.stop(2)
    cluster.stop(3)
    find(key_type=1, coordinator_keys=["billing"])
    topic = cluster.image.topics[TRANSACTION_STATE_TOPIC]
    assert (len(topic.partitions[0].replicas), topic.configs["min.insync.replicas"]) == (1, "1")


def test_keys_of_unknown_types_are_refused(cluster: Any, find: Find) -> None:
    (found,) = find(key_type=7, coordinator_keys=["x"]).coordinators
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert found.error_message is not None
    assert OFFSETS_TOPIC not in cluster.image.topics


def test_the_first_share_partition_creates_the_topic_of_share_groups_states(cluster: Any, find: Find) -> None:
    """Kafka finds the same partition of this key (share_state's vectors)."""
    (found,) = find(key_type=2, coordinator_keys=["g:ESIzRFVmd4iZqrvM3e7_AA:3"]).coordinators
    topic = cluster.image.topics[SHARE_GROUP_STATE_TOPIC]
    assert (len(topic.partitions), len(topic.partitions[0].replicas)) == (50, 3)
    assert topic.configs == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "2",
        "retention.bytes": "-1",
        "retention.ms": "-1",
        "segment.bytes": "1048576",
    }
    assert (found.error_code, found.node_id) == (ErrorCode.NONE, topic.partitions[3].leader)


@pytest.mark.parametrize("key", ["", "g", "g:ESIzRFVmd4iZqrvM3e7_AA", "g:short:0", "g:ESIzRFVmd4iZqrvM3e7_AA:x", ":::"])
def test_a_key_that_names_no_share_partition_is_refused_and_others_are_not(find: Find, key: str) -> None:
    good = "a:b:ESIzRFVmd4iZqrvM3e7_AA:0"
    found = find(key_type=2, coordinator_keys=[key, good]).coordinators
    assert [(each.key, each.error_code) for each in found] == [(key, ErrorCode.INVALID_REQUEST), (good, ErrorCode.NONE)]


def test_before_version_6_share_partitions_have_no_coordinators(cluster: Any, find: Find) -> None:
    (found,) = find(version=5, key_type=2, coordinator_keys=["g:ESIzRFVmd4iZqrvM3e7_AA:3"]).coordinators
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert SHARE_GROUP_STATE_TOPIC not in cluster.image.topics
