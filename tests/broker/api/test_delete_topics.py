"""Tests of the DeleteTopics handler."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from purgatorio.broker.api import delete_topics
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


@pytest.mark.parametrize("version", range(1, 6))
def test_topics_are_deleted_by_name(cluster: Any, version: int) -> None:
    cluster.create("a")
    cluster.create("b")
    request = DeleteTopicsRequest(topic_names=["a", "x"], timeout_ms=1000)
    response = cluster.ask(delete_topics, version, request)
    assert [(answer.name, answer.error_code) for answer in response.responses] == [
        ("a", ErrorCode.NONE),
        ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert list(cluster.image.topics) == ["b"]
    if version >= 5:
        assert response.responses[0].error_message is None
        assert response.responses[1].error_message


def test_version_6_deletes_by_name_and_by_id_and_answers_with_both(cluster: Any) -> None:
    a, b = cluster.create("a"), cluster.create("b")
    request = DeleteTopicsRequest(
        timeout_ms=1000,
        topics=[
            DeleteTopicState(name="a"),
            DeleteTopicState(topic_id=b.topic_id),
            DeleteTopicState(topic_id=b"?" * 16),
            DeleteTopicState(name="c", topic_id=b"?" * 16),
        ],
    )
    response = cluster.ask(delete_topics, 6, request)
    assert [(answer.name, answer.topic_id, answer.error_code) for answer in response.responses] == [
        ("a", a.topic_id, ErrorCode.NONE),
        ("b", b.topic_id, ErrorCode.NONE),
        (None, b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
        ("c", b"?" * 16, ErrorCode.INVALID_REQUEST),
    ]
    assert cluster.image.topics == {}


def test_the_broker_answers_when_it_no_longer_sees_the_topic(cluster: Any) -> None:
    cluster.create("a")
    reply = cluster.send(delete_topics, 5, DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000))
    assert reply.responses == []
    while not reply.responses:
        cluster.turns.turn()
    assert cluster.image.topics == {}


@pytest.mark.parametrize("version", range(1, 7))
def test_a_whole_request_can_be_answered_with_an_error(cluster: Any, version: int) -> None:
    request = DeleteTopicsRequest(topic_names=["a", "a"], timeout_ms=1000)
    seen = cluster.travel(version, delete_topics.API.failed(request, ErrorCode.NOT_CONTROLLER))
    assert [(answer.name, answer.error_code) for answer in seen.responses] == [("a", ErrorCode.NOT_CONTROLLER)]


def test_a_waiting_request_is_watched_under_topic_names_and_unknown_ids(cluster: Any) -> None:
    known = cluster.create("a")
    topics = [DeleteTopicState(topic_id=known.topic_id), DeleteTopicState(topic_id=b"?" * 16)]
    cluster.send(delete_topics, 6, DeleteTopicsRequest(timeout_ms=1000, topics=topics))
    (waiting,) = cluster.admin.purgatories.topics.operations(10)
    assert [str(key) for key in waiting.keys] == ["a", "3f" * 16]


@pytest.mark.parametrize("version", range(1, 7))
def test_clients_cannot_delete_topics_while_that_is_disabled(cluster: Any, version: int) -> None:
    """Topics that do not exist are refused in the same way, as in Kafka 4.4.0."""
    cluster.create("a")
    cluster.admin = dataclasses.replace(cluster.admin, delete_topic_enable=False)
    names = ["a", "unknown"]
    topics = [DeleteTopicState(name=name) for name in names]
    request = DeleteTopicsRequest(topics=topics) if version == 6 else DeleteTopicsRequest(topic_names=names)
    response = cluster.ask(delete_topics, version, request)
    expected = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert [(answer.name, answer.error_code) for answer in response.responses] == [(name, expected) for name in names]
    assert list(cluster.image.topics) == ["a"]
