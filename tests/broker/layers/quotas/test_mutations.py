"""Tests of the quota of partitions that are created, added and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from purgatorio.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from purgatorio.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from purgatorio.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.broker.layers.quotas.harness import Client, FakeBroker

OVER = ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.fixture
def broker() -> FakeBroker:
    """A client may change 11 partitions at once, and then one a second."""
    broker = FakeBroker()
    broker.limit(client_id="", controller_mutation_rate=1)
    broker.handle[ApiKey.CREATE_TOPICS] = lambda reply, request: reply(
        CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name) for topic in request.topics])
    )
    return broker


def create(client: Client, *partitions: int, version: int = 7, **request: Any) -> Any:
    topics = [
        CreatableTopic(name=f"t{nth}", num_partitions=count, replication_factor=1)
        for nth, count in enumerate(partitions)
    ]
    return client.ask(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=topics, **request), version=version)


def errors(response: CreateTopicsResponse) -> list[tuple[str, int]]:
    return [(topic.name, topic.error_code) for topic in response.topics]


def tokens(broker: FakeBroker) -> float:
    (account,) = broker.quotas.charges.mutations.accounts()
    return account.meter.tokens(1, broker.clock.now_ms())


def test_topics_are_refused_one_by_one_while_the_bucket_is_overdrawn(broker: FakeBroker) -> None:
    """The one that overdraws it is created."""
    client = broker.client()
    response = create(client, 5, 9, 1, 2)
    assert errors(response) == [("t0", 0), ("t1", 0), ("t2", OVER), ("t3", OVER)]
    assert response.throttle_time_ms == 3_000
    assert broker.muted == [
        "client `billing` is muted for 3.0 s: overdrawn by 3 partitions/s of 1 partitions/s, rule: default client"
    ]
    broker.passes(2_999)
    assert errors(create(client, 1)) == [("t0", OVER)]
    broker.passes(1)
    assert errors(create(client, 1)) == [("t0", 0)]


def test_a_strict_quota_throttles_only_what_it_refuses(broker: FakeBroker) -> None:
    assert create(broker.client(), 20).throttle_time_ms == 0


def test_the_throttle_time_counts_from_the_refusal(broker: FakeBroker) -> None:
    waiting: list[Any] = []
    done = broker.handle[ApiKey.CREATE_TOPICS]
    broker.handle[ApiKey.CREATE_TOPICS] = lambda reply, request: waiting.append((reply, request))
    client = broker.client()
    create(client, 14, 1)
    broker.passes(1_000)
    done(*waiting[0])
    assert client.answers[0].throttle_time_ms == 2_000


def test_earlier_versions_are_done_and_then_throttled(broker: FakeBroker) -> None:
    client = broker.client()
    response = create(client, 5, 9, 1, 2, version=5)
    assert {error for _, error in errors(response)} == {0}
    assert response.throttle_time_ms == 6_000
    assert client.channel.throttled


def test_what_the_handler_refuses_costs_nothing(broker: FakeBroker) -> None:
    broker.handle[ApiKey.CREATE_TOPICS] = lambda reply, request: reply(
        CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name="t0", error_code=ErrorCode.TOPIC_ALREADY_EXISTS),
                CreatableTopicResult(name="t1", error_code=ErrorCode.REQUEST_TIMED_OUT),
            ]
        )
    )
    create(broker.client(), 5, 2)
    assert tokens(broker) == 9


def test_validate_only_is_charged_too(broker: FakeBroker) -> None:
    create(broker.client(), 5, validate_only=True)
    assert tokens(broker) == 6


def test_topics_cost_their_assignments_or_the_default(broker: FakeBroker) -> None:
    assigned = [CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in (0, 1)]
    topics = [
        CreatableTopic(name="a", num_partitions=-1, replication_factor=-1, assignments=assigned),
        CreatableTopic(name="b", num_partitions=-1, replication_factor=-1),
    ]
    broker.client().ask(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=topics), version=7)
    assert tokens(broker) == 11 - 2 - 3


@pytest.mark.parametrize(("version", "error"), [(2, 0), (3, OVER)])
def test_added_partitions_are_charged(broker: FakeBroker, version: int, error: int) -> None:
    broker.counts = {"a": 2, "b": 1}
    broker.handle[ApiKey.CREATE_PARTITIONS] = lambda reply, request: reply(
        CreatePartitionsResponse(results=[CreatePartitionsTopicResult(name=topic.name) for topic in request.topics])
    )
    topics = [CreatePartitionsTopic(name="a", count=15), CreatePartitionsTopic(name="b", count=2)]
    request = CreatePartitionsRequest(topics=topics)
    response = broker.client().ask(ApiKey.CREATE_PARTITIONS, request, version=version)
    assert [(result.name, result.error_code) for result in response.results] == [("a", 0), ("b", error)]
    assert response.throttle_time_ms == (2_000 if error else 3_000)


def deleted(reply: Any, request: Any) -> None:
    names = [*request.topic_names, *(topic.name for topic in request.topics)]
    ids = [bytes(16)] * len(request.topic_names) + [topic.topic_id for topic in request.topics]
    results = [DeletableTopicResult(name=name, topic_id=each) for name, each in zip(names, ids, strict=True)]
    reply(DeleteTopicsResponse(responses=results))


def test_deleted_partitions_are_charged_by_name_and_by_id(broker: FakeBroker) -> None:
    broker.counts = {"a": 2, "b": 13}
    broker.handle[ApiKey.DELETE_TOPICS] = deleted
    b, c = (DeleteTopicState(name=None, topic_id=name.ljust(16, b"\0")) for name in (b"b", b"c"))
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="a"), b, c])
    response = broker.client().ask(ApiKey.DELETE_TOPICS, request, version=6)
    assert [result.error_code for result in response.responses] == [0, 0, OVER]
    assert response.responses[2].topic_id == c.topic_id
    assert response.throttle_time_ms == 4_000


def test_names_of_old_requests_are_charged_and_refused(broker: FakeBroker) -> None:
    broker.counts = {"a": 12, "b": 1}
    broker.handle[ApiKey.DELETE_TOPICS] = deleted
    client = broker.client()
    response = client.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topic_names=["a", "b"]), version=5)
    assert [(result.name, result.error_code) for result in response.responses] == [("a", 0), ("b", OVER)]
    response = client.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topic_names=["b"]), version=5)
    assert [(result.name, result.error_code) for result in response.responses] == [("b", OVER)]


def metadata(broker: FakeBroker, client: Client, *names: str, auto: bool = True) -> int:
    topics = [
        MetadataResponseTopic(name=name, partitions=[MetadataResponsePartition(partition_index=i) for i in range(12)])
        for name in names
    ]
    broker.handle[ApiKey.METADATA] = lambda reply, request: reply(MetadataResponse(topics=topics))
    asked = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=auto)
    throttle_ms: int = client.ask(ApiKey.METADATA, request, version=9).throttle_time_ms
    return throttle_ms


def test_topics_that_are_created_automatically_are_done_and_then_throttled(broker: FakeBroker) -> None:
    broker.counts = {"known": 12}
    client = broker.client()
    assert metadata(broker, client, "known") == 0
    assert metadata(broker, client, "new", auto=False) == 0
    assert metadata(broker, client, "new") == 1_000


def test_clients_without_a_limit_of_their_own_are_free(broker: FakeBroker) -> None:
    broker.limit(client_id="")
    broker.limit(client_id="other", controller_mutation_rate=1)
    client = broker.client()
    assert errors(create(client, 50, 50)) == [("t0", 0), ("t1", 0)]
    assert metadata(broker, client, "new") == 0
