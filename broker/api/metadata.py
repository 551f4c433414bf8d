"""Metadata (key 3): describe brokers, and topics with their partitions, leaders and replicas.

Versions 0–13. Topics requested by name are created if the broker and, from v4 on, the client allow it; a request for
all topics creates none. The request that creates a topic is answered UNKNOWN_TOPIC_OR_PARTITION, as in Kafka, and
clients ask again: so a client that looks whether a deleted topic is gone learns that it was. The response is sent after
the creation, and the next request finds the topic with its leaders. v12 and later can name topics by id (KIP-516); v10
and v11 refuse ids, since Kafka never answered them there.

Not done: in v0 Kafka leaves out offline replicas, with REPLICA_NOT_AVAILABLE; no client that still sends v0 looks at
replicas.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.api.context import AdminContext, submit, topic_keys
from purgatorio.broker.api.listing import (
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    leader_of,
    offline_replicas,
    reachable_brokers,
)
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.metadata import metadata as guard
from purgatorio.broker.metadata.cluster_change import ClusterChange
from purgatorio.broker.metadata.controller import NewTopic, TopicResult, create_topics
from purgatorio.broker.metadata.image import ClusterImage, PartitionState, Topic
from purgatorio.broker.metadata.topic_name import is_internal, topic_name_problem
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from purgatorio.protocol.primitives import ZERO_UUID

TOPIC_IDS_DECLARED_VERSION = 10
TOPIC_IDS_ANSWERED_VERSION = 12
_CREATED: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
"""The error of a topic in the answer to the request that creates it."""
MAX_CREATED_TOPICS = 1_000
"""The most topics that one request creates. The others are answered with UNKNOWN_TOPIC_OR_PARTITION, upon which clients
ask again: so thousands of new topics come in slices, between which the brokers do their other work."""


def handle(admin: AdminContext, ctx: RequestContext, request: MetadataRequest, reply: Reply) -> None:
    """Answer from this broker's image, after creating the missing topics that may be created."""
    if _has_ids_too_early(ctx.api_version, request):
        reply(error_response(request, ErrorCode.INVALID_REQUEST))
        return
    asked = _asked(ctx.api_version, request)
    missing = _to_create(admin, request, asked)
    if missing:
        submit(admin, ctx, _AutoCreateTopics(admin, ctx, request, asked, missing), reply)
    else:
        reply(_response(admin, ctx.session.listener, request, asked, {}))


class _AutoCreateTopics(ClusterChange[TopicResult]):
    def __init__(
        self,
        admin: AdminContext,
        ctx: RequestContext,
        request: MetadataRequest,
        asked: list[MetadataRequestTopic] | None,
        missing: list[NewTopic],
    ) -> None:
        super().__init__(topic_keys(topic.name for topic in missing))
        self._admin = admin
        self._listener = ctx.session.listener
        self._request = request
        self._asked = asked
        self._missing = missing

    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[TopicResult]]:
        return create_topics(image, self._missing, settings=self._admin.topics, rng=self._admin.rng)

    def respond(self, results: Sequence[TopicResult]) -> MetadataResponse:
        refusals = {result.name: result.error or _CREATED for result in results if result.name is not None}
        return _response(self._admin, self._listener, self._request, self._asked, refusals)

    def refuse(self, error_code: ErrorCode) -> MetadataResponse:
        """Answer for the other topics; no topic was created, and the client asks for the missing ones again."""
        return self.respond(())


def _has_ids_too_early(version: int, request: MetadataRequest) -> bool:
    return TOPIC_IDS_DECLARED_VERSION <= version < TOPIC_IDS_ANSWERED_VERSION and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in request.topics or ()
    )


def _asked(version: int, request: MetadataRequest) -> list[MetadataRequestTopic] | None:
    """Return the requested topics without duplicates; None means all topics."""
    if request.topics is None or (version == 0 and not request.topics):
        return None
    return list({(topic.topic_id, topic.name): topic for topic in request.topics}.values())


def _to_create(
    admin: AdminContext, request: MetadataRequest, asked: list[MetadataRequestTopic] | None
) -> list[NewTopic]:
    """Return the topics that are requested by name, do not exist, and may be created automatically."""
    # Versions before 4 have no flag; the codec decodes it as its default, true.
    if asked is None or not request.allow_auto_topic_creation or not admin.auto_create_topics_enable:
        return []
    topics = admin.store.image.topics
    missing = (
        NewTopic(topic.name)
        for topic in asked
        if topic.topic_id == ZERO_UUID
        and topic.name is not None
        and topic.name not in topics
        and topic_name_problem(topic.name) is None
        and not is_internal(topic.name)  # the first group creates it, with its own settings
    )
    return list(itertools.islice(missing, MAX_CREATED_TOPICS))


def _response(
    admin: AdminContext,
    listener: str,
    request: MetadataRequest,
    asked: list[MetadataRequestTopic] | None,
    refusals: Mapping[str, ErrorCode],
) -> MetadataResponse:
    """Return the response from this broker's image, with the endpoints of the client's listener.

    Args:
        refusals: error codes of the topics that could not be created, and of those that were.
    """
    image = admin.store.image
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in reachable_brokers(image, listener)
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    topics = _Topics(image, admin.seems_dead)
    if asked is None:
        response.topics = [topics.show(topic) for topic in image.topics.values()]
    else:
        response.topics = [_look_up(topics, image, topic, refusals) for topic in asked]
    if request.include_topic_authorized_operations:
        for answer in response.topics:
            if answer.error_code == ErrorCode.NONE:
                answer.topic_authorized_operations = TOPIC_OPERATIONS
    return response


def _look_up(
    topics: _Topics, image: ClusterImage, asked: MetadataRequestTopic, refusals: Mapping[str, ErrorCode]
) -> MetadataResponseTopic:
    if asked.topic_id != ZERO_UUID or asked.name is None:
        topic = image.topic_by_id(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        return topics.show(topic)
    topic = image.topics.get(asked.name)
    if topic is not None and refusals.get(asked.name) != _CREATED:
        return topics.show(topic)
    return MetadataResponseTopic(
        error_code=_missing_code(asked.name, refusals), name=asked.name, is_internal=is_internal(asked.name)
    )


def _missing_code(name: str, refusals: Mapping[str, ErrorCode]) -> ErrorCode:
    if topic_name_problem(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    refusal = refusals.get(name, ErrorCode.NONE)
    # The topic existed during the creation, and has been deleted since.
    if refusal in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refusal


class _Topics:
    """The topics of one image as a response shows them.

    Args:
        seems_dead: whether a broker is probably dead, though it is not fenced yet.
    """

    def __init__(self, image: ClusterImage, seems_dead: Callable[[int], bool]) -> None:
        self._image = image
        self._seems_dead = seems_dead
        # By identity: thousands of partitions share few states, and to hash one costs as much as to describe it.
        self._described: dict[int, _Described] = {}

    def show(self, topic: Topic) -> MetadataResponseTopic:
        """Return a topic with its partitions."""
        partitions = []
        for index, state in enumerate(topic.partitions):
            described = self._described.get(id(state))
            if described is None:
                described = self._described[id(state)] = self._describe(state)
            partitions.append(
                MetadataResponsePartition(
                    error_code=described.error_code,
                    partition_index=index,
                    leader_id=described.leader_id,
                    leader_epoch=state.leader_epoch,
                    replica_nodes=described.replicas,
                    isr_nodes=described.isr,
                    offline_replicas=described.offline,
                )
            )
        return MetadataResponseTopic(
            name=topic.name, topic_id=topic.topic_id, is_internal=is_internal(topic.name), partitions=partitions
        )

    def _describe(self, state: PartitionState) -> _Described:
        error_code, leader_id = leader_of(self._image, state, self._seems_dead)
        offline = offline_replicas(self._image, state)
        return _Described(error_code, leader_id, list(state.replicas), list(state.isr_ids), offline)


class _Described(NamedTuple):
    error_code: ErrorCode
    leader_id: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


def error_response(request: MetadataRequest, error_code: ErrorCode) -> MetadataResponse:
    """Return the response with `error_code` for every requested topic, and from v13 on for the request."""
    return MetadataResponse(
        error_code=error_code,
        topics=[
            # Versions before 12 have no null here.
            MetadataResponseTopic(error_code=error_code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ],
    )


API: Final = ApiHandler(
    key=ApiKey.METADATA,
    min_version=0,
    max_version=13,
    needs=guard,
    bind=lambda services: partial(handle, services.admin),
    error_response=error_response,
)
