"""Tests of the Metadata handler."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from purgatorio.broker.api import metadata
from purgatorio.broker.metadata.controller import TopicSettings, register_broker
from purgatorio.broker.metadata.image import Endpoint
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseBroker
from purgatorio.protocol.primitives import ZERO_UUID
from tests.broker.api.harness import Replies, context

VERSIONS = range(14)
NOT_ASKED = -(2**31)


def by_name(*names: str, create: bool = True) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create)


def by_id(*topic_ids: bytes) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_describes_brokers_topics_and_partitions(cluster: Any, version: int) -> None:
    topic = cluster.create("orders", 2)
    response = cluster.ask(metadata, version, by_name("orders"))
    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [
        (1, "host-1", 9001),
        (2, "host-2", 9002),
        (3, "host-3", 9003),
    ]
    (answer,) = response.topics
    assert (answer.error_code, answer.name) == (0, "orders")
    for index, partition in enumerate(answer.partitions):
        state = topic.partitions[index]
        assert (partition.error_code, partition.partition_index) == (0, index)
        assert partition.leader_id == state.leader
        assert tuple(partition.replica_nodes) == tuple(partition.isr_nodes) == state.replicas
    if version >= 1:
        assert response.controller_id == 1
        assert [broker.rack for broker in response.brokers] == ["rack-1", "rack-2", "rack-3"]
    if version >= 2:
        assert response.cluster_id == "test-cluster"
    if version >= 7:
        assert [partition.leader_epoch for partition in answer.partitions] == [0, 0]
    if version >= 10:
        assert answer.topic_id == topic.topic_id


@pytest.mark.parametrize(("version", "everything"), [(0, []), (1, None), (13, None)])
def test_each_version_asks_for_all_topics_in_its_own_way(
    cluster: Any, version: int, everything: list[MetadataRequestTopic] | None
) -> None:
    cluster.create("a")
    cluster.create("b")
    response = cluster.ask(metadata, version, MetadataRequest(topics=everything))
    assert [topic.name for topic in response.topics] == ["a", "b"]


def test_an_empty_list_means_no_topics_from_version_1_on(cluster: Any) -> None:
    cluster.create("a")
    assert cluster.ask(metadata, 1, MetadataRequest(topics=[])).topics == []


def test_the_request_that_creates_a_topic_is_told_that_it_is_unknown_as_in_kafka(cluster: Any) -> None:
    """A client that looks whether a deleted topic is gone would be told that it is there, for it was created anew."""
    (topic,) = cluster.ask(metadata, 12, by_name("orders")).topics
    assert (topic.error_code, topic.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders")
    assert topic.partitions == []
    assert "orders" in cluster.image.topics


def test_the_next_request_finds_the_created_topic(cluster: Any) -> None:
    cluster.ask(metadata, 12, by_name("orders"))
    (topic,) = cluster.ask(metadata, 12, by_name("orders")).topics
    assert topic.error_code == 0
    assert topic.topic_id == cluster.image.topics["orders"].topic_id
    assert len(topic.partitions) == 2
    assert all(partition.leader_id in {1, 2, 3} for partition in topic.partitions)


def test_one_request_creates_so_many_topics_and_clients_ask_again_for_the_others(cluster: Any) -> None:
    """Thousands in one go let no broker renew its lease in time."""
    names = [f"topic-{number}" for number in range(metadata.MAX_CREATED_TOPICS + 5)]
    for created in (0, metadata.MAX_CREATED_TOPICS, len(names)):
        answer = cluster.ask(metadata, 9, by_name(*names))
        errors = [topic.error_code for topic in answer.topics]
        unknown = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (len(names) - created)
        assert errors == [ErrorCode.NONE] * created + unknown


def test_a_creation_is_not_answered_before_the_broker_sees_the_topic(cluster: Any) -> None:
    reply = cluster.send(metadata, 12, by_name("orders"))
    assert reply.responses == []
    cluster.turns.run()
    assert len(reply.responses) == 1


@pytest.mark.parametrize("version", [4, 13])
def test_no_topic_is_created_if_the_client_forbids_it(cluster: Any, version: int) -> None:
    (topic,) = cluster.ask(metadata, version, by_name("orders", create=False)).topics
    assert (topic.error_code, topic.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders")
    assert topic.partitions == []
    assert cluster.image.topics == {}


def test_versions_without_the_flag_create_topics(cluster: Any) -> None:
    assert cluster.ask(metadata, 3, by_name("orders")).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.ask(metadata, 3, by_name("orders")).topics[0].error_code == 0


def test_no_topic_is_created_if_the_broker_forbids_it(cluster: Any) -> None:
    cluster.admin = dataclasses.replace(cluster.admin, auto_create_topics_enable=False)
    (topic,) = cluster.ask(metadata, 12, by_name("orders")).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.image.topics == {}


@pytest.mark.parametrize("create", [True, False])
def test_an_invalid_name_has_another_error_than_an_unknown_one(cluster: Any, create: bool) -> None:
    response = cluster.ask(metadata, 12, by_name("a b", "", create=create))
    assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 2
    assert cluster.image.topics == {}


def test_a_topic_that_cannot_be_created_is_answered_with_its_error_beside_the_others(cluster: Any) -> None:
    cluster.create("known")
    cluster.admin = dataclasses.replace(cluster.admin, topics=TopicSettings(replication_factor=4))
    response = cluster.ask(metadata, 12, by_name("orders", "known"))
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("orders", ErrorCode.INVALID_REPLICATION_FACTOR),
        ("known", ErrorCode.NONE),
    ]


def test_a_name_that_collides_with_a_topic_is_not_created(cluster: Any) -> None:
    cluster.create("a.b")
    assert cluster.ask(metadata, 12, by_name("a_b")).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_that_another_broker_creates_at_the_same_time_is_described(cluster: Any) -> None:
    first, second = (cluster.send(metadata, 12, by_name("orders")) for _ in range(2))
    cluster.turns.run()
    created, described = [reply.responses[0].topics[0] for reply in (first, second)]
    assert (created.error_code, described.error_code) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE)
    assert described.topic_id == cluster.image.topics["orders"].topic_id


def test_a_stopping_broker_describes_the_known_topics_and_creates_none(cluster: Any) -> None:
    cluster.create("known")
    reply = cluster.send(metadata, 12, by_name("known", "orders"))
    cluster.view.close()
    cluster.turns.run()
    (response,) = reply.responses
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("known", ErrorCode.NONE),
        ("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert list(cluster.store.image.topics) == ["known"]


def test_a_name_requested_many_times_is_answered_once(cluster: Any) -> None:
    cluster.create("orders")
    response = cluster.ask(metadata, 12, by_name(*["orders"] * 100))
    assert [topic.name for topic in response.topics] == ["orders"]


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id(cluster: Any, version: int) -> None:
    topic = cluster.create("orders")
    response = cluster.ask(metadata, version, by_id(topic.topic_id, b"?" * 16))
    assert [(answer.error_code, answer.name, answer.topic_id) for answer in response.topics] == [
        (ErrorCode.NONE, "orders", topic.topic_id),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, b"?" * 16),
    ]
    assert list(cluster.image.topics) == ["orders"]


def test_a_topic_with_neither_name_nor_id_is_an_unknown_id(cluster: Any) -> None:
    (answer,) = cluster.ask(metadata, 12, by_id(ZERO_UUID)).topics
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_in_the_versions_in_which_kafka_never_answered_them(cluster: Any, version: int) -> None:
    topic = cluster.create("orders")
    (answer,) = cluster.ask(metadata, version, by_id(topic.topic_id)).topics
    assert (answer.error_code, answer.name) == (ErrorCode.INVALID_REQUEST, "")


def test_a_partition_without_a_leader_is_answered_with_an_error_and_its_offline_replicas(cluster: Any) -> None:
    topic = cluster.create("orders", 3, factor=1)
    cluster.stop(2)
    response = cluster.ask(metadata, 13, by_name("orders"))
    assert [broker.node_id for broker in response.brokers] == [1, 3]
    (answer,) = response.topics
    assert answer.error_code == ErrorCode.NONE
    for partition, before in zip(answer.partitions, topic.partitions, strict=True):
        lost = before.leader == 2
        assert partition.error_code == (ErrorCode.LEADER_NOT_AVAILABLE if lost else ErrorCode.NONE)
        assert partition.leader_id == (-1 if lost else before.leader)
        assert partition.offline_replicas == ([2] if lost else [])
        assert partition.isr_nodes == ([] if lost else [before.leader])


def test_another_broker_leads_the_partitions_of_a_stopped_one(cluster: Any) -> None:
    cluster.create("orders", 3)
    cluster.stop(2)
    (answer,) = cluster.ask(metadata, 13, by_name("orders")).topics
    assert all(partition.leader_id in (1, 3) for partition in answer.partitions)
    assert all(partition.offline_replicas == [2] for partition in answer.partitions)
    assert all(sorted(partition.isr_nodes) == [1, 3] for partition in answer.partitions)


def test_the_controller_is_a_live_broker(cluster: Any) -> None:
    cluster.stop(1)
    assert cluster.ask(metadata, 12, by_name()).controller_id == 2


@pytest.mark.parametrize("version", range(8, 14))
def test_authorized_operations_are_included_only_on_request(cluster: Any, version: int) -> None:
    cluster.create("orders")
    plain = cluster.ask(metadata, version, by_name("orders"))
    assert plain.topics[0].topic_authorized_operations == NOT_ASKED
    asking = by_name("orders", "?")
    asking.include_topic_authorized_operations = True
    asking.include_cluster_authorized_operations = version <= 10
    told = cluster.ask(metadata, version, asking)
    assert told.topics[0].topic_authorized_operations == 0b1101_1111_1000
    assert told.topics[1].topic_authorized_operations == NOT_ASKED
    if version <= 10:
        assert plain.cluster_authorized_operations == NOT_ASKED
        assert told.cluster_authorized_operations == 0b1_1111_1010_0000


def test_an_internal_topic_is_not_created_automatically(cluster: Any) -> None:
    (answer,) = cluster.ask(metadata, 9, by_name("__consumer_offsets")).topics
    assert (answer.error_code, answer.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
    assert "__consumer_offsets" not in cluster.image.topics


def test_internal_topics_are_marked(cluster: Any) -> None:
    cluster.create("__consumer_offsets")
    cluster.create("orders")
    response = cluster.ask(metadata, 12, by_name("__consumer_offsets", "orders"))
    assert [topic.is_internal for topic in response.topics] == [True, False]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_whole_request_can_be_answered_with_an_error(cluster: Any, version: int) -> None:
    response = metadata.error_response(by_name("orders"), ErrorCode.UNKNOWN_SERVER_ERROR)
    seen = cluster.travel(version, response)
    assert seen.topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_client_gets_the_endpoints_of_its_own_listener(cluster: Any) -> None:
    """A broker without that listener is left out, as in Kafka."""
    endpoints = (Endpoint("PLAINTEXT", "inside", 1), Endpoint("EXTERNAL", "outside", 2))
    cluster.stop(2)
    cluster.change(lambda image: register_broker(image, 2, endpoints, settings=TopicSettings()))
    told = {
        listener: [(b.node_id, b.host, b.port) for b in reachable_of(cluster, listener)]
        for listener in ("PLAINTEXT", "EXTERNAL")
    }
    assert told == {
        "PLAINTEXT": [(1, "host-1", 9001), (2, "inside", 1), (3, "host-3", 9003)],
        "EXTERNAL": [(2, "outside", 2)],
    }


def reachable_of(cluster: Any, listener: str) -> list[MetadataResponseBroker]:
    """Return the brokers in the response to a client of a listener."""
    reply = Replies()
    metadata.handle(cluster.admin, context(ApiKey.METADATA, 12, listener), MetadataRequest(topics=[]), reply)
    brokers: list[MetadataResponseBroker] = reply.only.brokers
    return brokers
