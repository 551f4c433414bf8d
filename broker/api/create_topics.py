"""CreateTopics (key 19): create topics, each independently of the others.

Versions 2–7. Any broker answers; only a broker that is stopping answers NOT_CONTROLLER. −1 as the number of partitions
or replicas means the broker's default (v4, KIP-464; accepted in earlier versions too, as Kafka does). v5 answers with
the topic's configs (KIP-525), v7 with its id. A request for many topics creates them in slices.

The response is sent when this broker's image shows a leader for every partition, or after `timeout_ms`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Final

from purgatorio.broker.api.config_listing import topic_entries
from purgatorio.broker.api.context import AdminContext, submit, topic_keys
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.causes.cause import NoLeader
from purgatorio.broker.layers.access.guards.topics import create_topics as guard
from purgatorio.broker.metadata.cluster_change import (
    WEIGHT_OF_PARTITIONS,
    ClusterChange,
    Decide,
    only_tried,
    slices,
)
from purgatorio.broker.metadata.controller import NewTopic, TopicResult, create_topics
from purgatorio.broker.metadata.delayed_decision import leaderless
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from purgatorio.protocol.parts import failed
from purgatorio.protocol.primitives import ZERO_UUID


def handle(admin: AdminContext, ctx: RequestContext, request: CreateTopicsRequest, reply: Reply) -> None:
    """Create the topics; with validate_only, only check the request."""
    submit(admin, ctx, _CreateTopics(admin, request), reply)


class _CreateTopics(ClusterChange[TopicResult]):
    def __init__(self, admin: AdminContext, request: CreateTopicsRequest) -> None:
        super().__init__(topic_keys(topic.name for topic in request.topics), request.timeout_ms)
        self._admin = admin
        self._request = request
        self._topics = [_new_topic(topic) for topic in request.topics]

    def decisions(self) -> Sequence[Decide[TopicResult]]:
        cut = slices(self._topics, attrgetter("name"), self._weight)
        decisions = [partial(self._decide, topics) for topics in cut]
        return only_tried(decisions) if self._request.validate_only else decisions

    def _decide(self, topics: Sequence[NewTopic], image: ClusterImage) -> tuple[ClusterImage, Sequence[TopicResult]]:
        return create_topics(image, topics, settings=self._admin.topics, rng=self._admin.rng)

    def _weight(self, topic: NewTopic) -> int:
        partitions = max(topic.num_partitions, len(topic.assignments), self._admin.topics.num_partitions)
        return 2 + partitions // WEIGHT_OF_PARTITIONS

    def respond(self, results: Sequence[TopicResult]) -> CreateTopicsResponse:
        validate_only, listed = self._request.validate_only, _ListedConfigs(self._admin)
        return CreateTopicsResponse(topics=[_result(result, listed, validate_only) for result in results])

    def refuse(self, error_code: ErrorCode) -> Any:
        return failed(ApiKey.CREATE_TOPICS, self._request, error_code)

    def unseen(self, image: ClusterImage, result: TopicResult) -> NoLeader | None:
        """Return a partition of the topic that has no leader yet; none is awaited if the image lacks the topic."""
        return None if result.topic is None else leaderless(image, result.topic)

    def timed_out(self, result: TopicResult, message: str) -> TopicResult:
        return replace(result, topic=None, error=ErrorCode.REQUEST_TIMED_OUT, message=message)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        assignments=[(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        configs={config.name: config.value for config in topic.configs},
    )


class _ListedConfigs:
    """The configs of topics as one response lists them; topics that set the same share a list."""

    def __init__(self, admin: AdminContext) -> None:
        self._admin = admin
        self._known: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    def of(self, topic: Topic) -> list[CreatableTopicConfigs]:
        """Return all configs of a topic."""
        key = tuple(topic.configs.items())
        listed = self._known.get(key)
        if listed is None:
            listed = self._known[key] = [
                CreatableTopicConfigs(
                    name=entry.name, value=entry.value, read_only=entry.read_only, config_source=entry.source
                )
                for entry in topic_entries(self._admin, topic.configs)
            ]
        return listed


def _result(result: TopicResult, listed: _ListedConfigs, validate_only: bool) -> CreatableTopicResult:
    assert result.name is not None
    topic = result.topic
    if topic is None:
        return CreatableTopicResult(name=result.name, error_code=result.error, error_message=result.message)
    return CreatableTopicResult(
        name=topic.name,
        error_message=None,
        # With validate_only no topic is created, so there is no id to show.
        topic_id=ZERO_UUID if validate_only else topic.topic_id,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=listed.of(topic),
    )


API: Final = ApiHandler(
    key=ApiKey.CREATE_TOPICS,
    min_version=2,
    max_version=7,
    needs=guard,
    bind=lambda services: partial(handle, services.admin),
)
