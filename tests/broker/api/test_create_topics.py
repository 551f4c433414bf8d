"""Tests of the CreateTopics handler; the tests of the controller cover the decision."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import create_topics
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.log.config import GONE_CONFIGS, TOPIC_CONFIGS
from purgatorio.broker.metadata.cluster_change import SLICE_WEIGHT
from purgatorio.broker.metadata.controller import TopicSettings, unregister_broker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from purgatorio.protocol.primitives import ZERO_UUID


def topic(name: str, partitions: int = -1, factor: int = -1, **configs: str) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates_topics_and_answers_each(cluster: Any, version: int) -> None:
    request = CreateTopicsRequest(topics=[topic("orders", 4, 2, retention_ms="9"), topic("a b")], timeout_ms=1000)
    response = cluster.ask(create_topics, version, request)
    good, bad = response.topics
    assert (good.name, good.error_code, good.error_message) == ("orders", 0, None)
    assert (bad.name, bad.error_code) == ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert bad.error_message
    created = cluster.image.topics["orders"]
    assert len(created.partitions) == 4
    assert created.configs == {"retention.ms": "9"}
    if version >= 5:
        assert (good.num_partitions, good.replication_factor) == (4, 2)
        assert (bad.num_partitions, bad.replication_factor, bad.configs) == (-1, -1, [])
    if version >= 7:
        assert good.topic_id == created.topic_id
        assert bad.topic_id == ZERO_UUID


def test_the_broker_answers_when_it_sees_the_topic(cluster: Any) -> None:
    reply = cluster.send(create_topics, 7, CreateTopicsRequest(topics=[topic("orders")]))
    assert reply.responses == []
    assert cluster.image.topics == {}
    while not reply.responses:
        cluster.turns.turn()
    assert "orders" in cluster.image.topics


def test_minus_one_means_the_brokers_defaults(cluster: Any) -> None:
    (answer,) = cluster.ask(create_topics, 5, CreateTopicsRequest(topics=[topic("orders")])).topics
    assert (answer.num_partitions, answer.replication_factor) == (2, 3)


def test_the_response_lists_every_config_with_its_value_and_source(cluster: Any) -> None:
    request = CreateTopicsRequest(topics=[topic("orders", segment_bytes="2000")])
    (answer,) = cluster.ask(create_topics, 5, request).topics
    configs = {config.name: (config.value, config.config_source) for config in answer.configs}
    assert set(configs) == set(TOPIC_CONFIGS) - GONE_CONFIGS
    assert configs["segment.bytes"] == ("2000", 1)
    assert configs["retention.ms"] == ("5000", 4)
    assert configs["cleanup.policy"] == ("delete", 5)
    assert not any(config.read_only or config.is_sensitive for config in answer.configs)


def test_assignments_are_honoured(cluster: Any) -> None:
    assigned = topic("orders")
    assigned.assignments = [
        CreatableReplicaAssignment(partition_index=1, broker_ids=[2, 3]),
        CreatableReplicaAssignment(partition_index=0, broker_ids=[3, 1]),
    ]
    (answer,) = cluster.ask(create_topics, 7, CreateTopicsRequest(topics=[assigned])).topics
    assert answer.error_code == 0
    assert [state.replicas for state in cluster.image.topics["orders"].partitions] == [(3, 1), (2, 3)]


def test_validate_only_answers_without_an_id_and_creates_no_topic(cluster: Any) -> None:
    request = CreateTopicsRequest(topics=[topic("orders", 4, 2), topic("wrong", 1, 9)], validate_only=True)
    good, bad = cluster.ask(create_topics, 7, request).topics
    assert (good.error_code, good.num_partitions, good.topic_id) == (0, 4, ZERO_UUID)
    assert bad.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert cluster.image.topics == {}


def test_a_topic_named_twice_is_answered_once(cluster: Any) -> None:
    request = CreateTopicsRequest(topics=[topic("orders"), topic("orders")])
    (answer,) = cluster.ask(create_topics, 7, request).topics
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_the_second_of_two_requests_for_a_topic_finds_that_it_exists(cluster: Any) -> None:
    request = CreateTopicsRequest(topics=[topic("orders")])
    replies = [cluster.send(create_topics, 7, request) for _ in range(2)]
    cluster.turns.run()
    codes = [reply.responses[0].topics[0].error_code for reply in replies]
    assert codes == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]


@pytest.mark.parametrize("version", range(2, 8))
def test_a_whole_request_can_be_answered_with_an_error(cluster: Any, version: int) -> None:
    request = CreateTopicsRequest(topics=[topic("a"), topic("a"), topic("b")])
    seen = cluster.travel(version, create_topics.API.failed(request, ErrorCode.NOT_CONTROLLER))
    assert [(answer.name, answer.error_code) for answer in seen.topics] == [
        ("a", ErrorCode.NOT_CONTROLLER),
        ("b", ErrorCode.NOT_CONTROLLER),
    ]


def test_a_waiting_request_shows_its_keys_and_its_missing_condition(cluster: Any) -> None:
    cluster.send(create_topics, 7, CreateTopicsRequest(topics=[topic("orders"), topic("a b")], timeout_ms=1000))
    (waiting,) = cluster.admin.purgatories.topics.operations(10)
    assert [str(key) for key in waiting.keys] == ["orders", "a b"]
    assert in_words(waiting.causes) == "the metadata store has not decided yet"
    cluster.turns.run()
    assert cluster.admin.purgatories.topics.num_delayed == 0


@pytest.mark.parametrize("timeout_ms", [500, 0, -1])
def test_a_request_times_out_while_the_store_does_not_answer(cluster: Any, timeout_ms: int) -> None:
    """The store may still create the topic, as in Kafka."""
    reply = cluster.send(create_topics, 7, CreateTopicsRequest(topics=[topic("orders")], timeout_ms=timeout_ms))
    assert len(reply.responses) == (timeout_ms <= 0)
    cluster.pass_ms(501)
    (response,) = reply.responses
    assert [answer.error_code for answer in response.topics] == [ErrorCode.REQUEST_TIMED_OUT]
    cluster.turns.run()
    assert "orders" in cluster.image.topics


def test_at_the_deadline_only_the_topic_without_a_leader_times_out(cluster: Any) -> None:
    """The broker of its only replica leaves before broker 1 sees the topic; the other topics keep their results."""
    alone, gone = topic("orders"), 2
    alone.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[gone])]
    request = CreateTopicsRequest(topics=[alone, topic("other", 1, 3), topic("a b")], timeout_ms=1000)
    cluster.see_only(cluster.image)
    reply = cluster.send(create_topics, 7, request)
    while "orders" not in cluster.store.image.topics:
        cluster.turns.turn()
    cluster.admin.store.image = leave(cluster.store.image, gone)
    cluster.turns.run()
    (waiting,) = cluster.admin.purgatories.topics.operations(10)
    assert in_words(waiting.causes) == "orders-0: no leader yet"
    cluster.pass_ms(1001)
    (response,) = reply.responses
    assert [(answer.name, answer.error_code) for answer in cluster.travel(7, response).topics] == [
        ("orders", ErrorCode.REQUEST_TIMED_OUT),
        ("other", ErrorCode.NONE),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]


def leave(image: Any, broker_id: int) -> Any:
    """Return the image without a broker."""
    image, _ = unregister_broker(image, broker_id, image.brokers[broker_id].broker_epoch, settings=TopicSettings())
    return image


@pytest.mark.parametrize("validate_only", [False, True])
def test_many_topics_are_created_in_slices_with_the_same_answers(cluster: Any, validate_only: bool) -> None:
    """Between two slices brokers do their other work; what is named twice, or collides, is refused all the same."""
    names = [*(f"topic{number}" for number in range(3 * SLICE_WEIGHT)), "topic0", "a.b", *map(str, range(200)), "a_b"]
    topics = [topic(name, 1, 1) for name in names]
    before = cluster.image.version
    response = cluster.ask(create_topics, 7, CreateTopicsRequest(topics=topics, validate_only=validate_only))
    assert [each.name for each in response.topics] == list(dict.fromkeys(names))
    codes = {each.name: each.error_code for each in response.topics if each.error_code}
    assert codes == {"topic0": ErrorCode.INVALID_REQUEST, "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert len(cluster.image.topics) == (0 if validate_only else len(response.topics) - 2)
    assert (cluster.image.version - before > 3) is not validate_only
