"""FindCoordinator (key 10): name the brokers that coordinate groups, transactional ids and share partitions.

Versions 0–6. The first request creates the coordinators' topic, and waits in the "topic" purgatory until its partitions
have leaders. Brokers alone ask for the coordinators of share partitions (KIP-932), from version 6 on, and only if share
groups are switched on; a key that names none gets INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.coordinator_topics import (
    CoordinatorTopic,
    ensure_topic,
    offsets_topic,
    share_state_topic,
    transaction_topic,
)
from purgatorio.broker.api.listing import leader_of
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.transactions import find_coordinator as guard
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from purgatorio.protocol.share_state import SharePartitionKey

GROUP_KEY: Final = 0
"""The key type of groups."""
TRANSACTION_KEY: Final = 1
"""The key type of transactional ids."""
SHARE_KEY: Final = 2
"""The key type of share partitions."""
BATCHED_VERSION: Final = 4
SHARE_VERSION: Final = 6


def handle(
    admin: AdminContext,
    topics: Mapping[int, CoordinatorTopic],
    ctx: RequestContext,
    request: FindCoordinatorRequest,
    reply: Reply,
) -> None:
    """Answer with the leaders of the keys' partitions, after creating their topic if there is none."""
    topic = topics.get(request.key_type)
    if topic is None or (request.key_type == SHARE_KEY and ctx.api_version < SHARE_VERSION):
        message = f"This broker names no coordinators of keys of type {request.key_type} in this version."
        reply(_refusal(request, ErrorCode.INVALID_REQUEST, message))
        return
    name = topic.name

    def found(error_code: ErrorCode) -> None:
        reply(_refusal(request, error_code, None) if error_code else _response(admin, name, ctx, request))

    ensure_topic(admin, ctx, topic, found)


class _Found(NamedTuple):
    """A coordinator, or why there is none."""

    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


def _response(
    admin: AdminContext, name: str, ctx: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    image, listener = admin.store.image, ctx.session.listener
    topic = image.topics.get(name)
    keys = request.coordinator_keys if ctx.api_version >= BATCHED_VERSION else [request.key]
    if request.key_type == SHARE_KEY:
        return _answer(request, [_problem(key) or _find(admin, image, topic, listener, key) for key in keys])
    return _answer(request, [_find(admin, image, topic, listener, key) for key in keys])


def _problem(key: str) -> _Found | None:
    """Return the refusal of a key that names no share partition."""
    try:
        SharePartitionKey.parse(key)
    except ValueError:
        return _Found(error_code=ErrorCode.INVALID_REQUEST, error_message="A key is group:topic id:partition.")
    return None


def _find(admin: AdminContext, image: ClusterImage, topic: Topic | None, listener: str, key: str) -> _Found:
    """Find the leader of the key's partition, at the endpoint of the client's listener."""
    if topic is None:
        return _Found(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    state = topic.partitions[coordinator_partition(key, len(topic.partitions))]
    error_code, leader = leader_of(image, state, admin.seems_dead)
    broker = None if error_code else image.live_broker(leader)
    endpoint = None if broker is None else broker.endpoint(listener)
    if endpoint is None:
        return _Found(
            error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message="The key's partition has no leader now."
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


API: Final = ApiHandler(
    key=ApiKey.FIND_COORDINATOR,
    min_version=0,
    max_version=6,
    needs=guard,
    bind=lambda services: partial(
        handle,
        services.admin,
        {
            GROUP_KEY: offsets_topic(services.groups.config),
            TRANSACTION_KEY: transaction_topic(services.transactions.config),
        }
        | ({SHARE_KEY: share_state_topic(services.shares.config)} if services.share_version else {}),
    ),
)
