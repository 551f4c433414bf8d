"""FindCoordinator (key 10): name the brokers that coordinate groups.

Versions 0–6. The first request creates ``__consumer_offsets``, and waits in the "topic" purgatory until its partitions
have leaders; Kafka answers COORDINATOR_NOT_AVAILABLE meanwhile, and clients ask again later. Coordinators of
transactions and of share groups are refused with INVALID_REQUEST: there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.api.context import AdminContext, submit, topic_keys
from purgatorio.broker.api.listing import leader_of
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.group.config import OFFSETS_TOPIC, OFFSETS_TOPIC_CONFIGS, GroupConfig
from purgatorio.broker.metadata.cluster_change import ClusterChange
from purgatorio.broker.metadata.controller import NewTopic, TopicResult, create_topics
from purgatorio.broker.metadata.delayed_decision import leaderless
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP_KEY: Final = 0
"""The key type of groups; 1 is that of transactional ids, 2 that of share groups."""
BATCHED_VERSION: Final = 4


def handle(
    admin: AdminContext, config: GroupConfig, ctx: RequestContext, request: FindCoordinatorRequest, reply: Reply
) -> None:
    """Answer with the leaders of the groups' partitions, after creating their topic if there is none."""
    if request.key_type != GROUP_KEY:
        message = f"This broker coordinates groups only, not keys of type {request.key_type}."
        reply(_refusal(request, ErrorCode.INVALID_REQUEST, message))
    elif OFFSETS_TOPIC in admin.store.image.topics:
        reply(_response(admin, ctx, request))
    else:
        submit(admin, ctx, _CreateOffsetsTopic(admin, config, ctx, request), reply)


class _CreateOffsetsTopic(ClusterChange[TopicResult]):
    """Creates the topic once; concurrent requests find it created, which is no error to them."""

    def __init__(
        self, admin: AdminContext, config: GroupConfig, ctx: RequestContext, request: FindCoordinatorRequest
    ) -> None:
        super().__init__(topic_keys([OFFSETS_TOPIC]))
        self._admin = admin
        self._config = config
        self._ctx = ctx
        self._request = request

    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[TopicResult]]:
        replicas = min(self._config.offsets_topic_replication_factor, len(image.live_brokers))
        topic = NewTopic(OFFSETS_TOPIC, self._config.offsets_topic_partitions, replicas, configs=OFFSETS_TOPIC_CONFIGS)
        return create_topics(image, [topic], settings=self._admin.topics, rng=self._admin.rng)

    def respond(self, results: Sequence[TopicResult]) -> FindCoordinatorResponse:
        return _response(self._admin, self._ctx, self._request)

    def refuse(self, error_code: ErrorCode) -> FindCoordinatorResponse:
        return _refusal(self._request, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)

    def missing(self, image: ClusterImage, result: TopicResult) -> str:
        return "" if result.topic is None else leaderless(image, result.topic)

    def timed_out(self, result: TopicResult, missing: str) -> TopicResult:
        return result


class _Found(NamedTuple):
    """A coordinator, or why there is none."""

    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


def _response(admin: AdminContext, ctx: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    image, listener = admin.store.image, ctx.session.listener
    topic = image.topics.get(OFFSETS_TOPIC)
    keys = request.coordinator_keys if ctx.api_version >= BATCHED_VERSION else [request.key]
    return _answer(request, [_find(admin, image, topic, listener, key) for key in keys])


def _find(admin: AdminContext, image: ClusterImage, topic: Topic | None, listener: str, key: str) -> _Found:
    """Find the leader of the group's partition, at the endpoint of the client's listener."""
    if topic is None:
        return _Found(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    state = topic.partitions[coordinator_partition(key, len(topic.partitions))]
    error_code, leader = leader_of(image, state, admin.seems_dead)
    broker = None if error_code else image.live_broker(leader)
    endpoint = None if broker is None else broker.endpoint(listener)
    if endpoint is None:
        return _Found(
            error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message="The group's partition has no leader now."
        )
    return _Found(leader, endpoint.host, endpoint.port)


def _answer(request: FindCoordinatorRequest, found: Sequence[_Found]) -> FindCoordinatorResponse:
    """Return the response in both forms; the codec takes that of the request's version."""
    first = found[0] if found else _Found()
    return FindCoordinatorResponse(
        error_code=first.error_code,
        error_message=first.error_message,
        node_id=first.node_id,
        host=first.host,
        port=first.port,
        coordinators=[
            Coordinator(
                key=key,
                node_id=each.node_id,
                host=each.host,
                port=each.port,
                error_code=each.error_code,
                error_message=each.error_message,
            )
            for key, each in zip(request.coordinator_keys, found, strict=False)
        ],
    )


def _refusal(request: FindCoordinatorRequest, error_code: ErrorCode, message: str | None) -> FindCoordinatorResponse:
    refused = _Found(error_code=error_code, error_message=message)
    return _answer(request, [refused] * max(1, len(request.coordinator_keys)))


def error_response(request: FindCoordinatorRequest, error_code: ErrorCode) -> FindCoordinatorResponse:
    """Return the response with `error_code` for every key."""
    return _refusal(request, error_code, None)


API: Final = ApiHandler(
    key=ApiKey.FIND_COORDINATOR,
    min_version=0,
    max_version=6,
    bind=lambda services: partial(handle, services.admin, services.groups.config),
    error_response=error_response,
)
