"""Fetch (key 1): read records, for consumers and for followers.

Versions 4–16; from v13 on topics are named by id. Fetch sessions (KIP-227) are declined: the response has session id 0
and lists every requested partition, empty ones too, since a Java client drops a full response that lacks one. Below v10
no zstd batch is sent (KIP-110): a read ends before the first one, and one that begins with it is answered with
UNSUPPORTED_COMPRESSION_TYPE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from purgatorio.broker.api.listing import leader_endpoints
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.reader import FetchParams, PartitionFetch
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)

FOLLOWER_FETCHING_VERSION = 11
TOPIC_ID_VERSION = 13
REPLICA_STATE_VERSION = 15
NODE_ENDPOINTS_VERSION = 16
ZSTD_VERSION = 10
"""The first version that may carry zstd (KIP-110)."""
READ_COMMITTED = 1
MAX_CONSUMER_PARTITIONS = 4_000
"""The most partitions and topics in a consumer's fetch: each costs some 5 µs, and the event loop waits for all of them.
The followers of this cluster may name more, as they must name every partition."""


class FetchHandler:
    """Answers fetch requests.

    Args:
        replicas: this broker's replicas.
        image: returns this broker's image of the cluster.
        max_bytes: the most bytes that one response holds, even if the request allows more (fetch.max.bytes).
    """

    def __init__(self, replicas: ReplicaManager, image: Callable[[], ClusterImage], *, max_bytes: int) -> None:
        self._replicas = replicas
        self._image = image
        self._max_bytes = max_bytes

    def handle(self, ctx: RequestContext, request: FetchRequest, reply: Reply) -> None:
        """Answer when `min_bytes` can be read, or after `max_wait_ms`."""
        if request.session_id != 0 and request.session_epoch > 0:
            reply(error_response(request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            return
        state = request.replica_state
        replica_id = state.replica_id if ctx.api_version >= REPLICA_STATE_VERSION else request.replica_id
        if replica_id >= 0 and not self._is_current(replica_id, state.replica_epoch):
            reply(error_response(request, ErrorCode.STALE_BROKER_EPOCH))
            return
        if replica_id < 0 and _count(request) > MAX_CONSUMER_PARTITIONS:
            reply(error_response(request, ErrorCode.INVALID_REQUEST))
            return
        max_bytes = min(request.max_bytes, self._max_bytes)
        params = FetchParams(
            replica_id=replica_id,
            replica_epoch=state.replica_epoch,
            max_wait_ms=request.max_wait_ms,
            min_bytes=min(request.min_bytes, max_bytes),
            max_bytes=max_bytes,
            read_committed=request.isolation_level == READ_COMMITTED,
            rack_id=request.rack_id,
            may_read_followers=replica_id < 0 and ctx.api_version >= FOLLOWER_FETCHING_VERSION,
            knows_zstd=ctx.api_version >= ZSTD_VERSION,
            client=ctx.client_id or "",
        )
        fetches = self._fetches(ctx.api_version, request)

        def answer(partitions: list[PartitionData]) -> None:
            reply(self._response(ctx, request, partitions))

        self._replicas.fetch(params, fetches, answer)

    def _is_current(self, replica_id: int, replica_epoch: int) -> bool:
        """Return whether the follower has the current broker epoch (KIP-903); -1 (not given) is not current."""
        registered = self._image().brokers.get(replica_id)
        return registered is not None and registered.broker_epoch == replica_epoch

    def _fetches(self, version: int, request: FetchRequest) -> list[PartitionFetch]:
        by_id = version >= TOPIC_ID_VERSION
        fetches = []
        for topic in request.topics:
            name, topic_id, error_code = topic.topic, None, ErrorCode.NONE
            if by_id:
                topic_id = topic.topic_id
                known = self._image().topic_by_id(topic_id)
                if known is None:
                    name, error_code = topic_id.hex(), ErrorCode.UNKNOWN_TOPIC_ID
                else:
                    name = known.name
            fetches += [
                PartitionFetch(TopicPartition(name, partition.partition), topic_id, partition, error_code)
                for partition in topic.partitions
            ]
        return fetches

    def _response(self, ctx: RequestContext, request: FetchRequest, partitions: list[PartitionData]) -> FetchResponse:
        response = FetchResponse()
        position = 0
        for topic in request.topics:
            end = position + len(topic.partitions)
            response.responses.append(
                FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions[position:end])
            )
            position = end
        if ctx.api_version >= NODE_ENDPOINTS_VERSION:
            response.node_endpoints = self._endpoints(partitions, ctx.session.listener)
        return response

    def _endpoints(self, partitions: list[PartitionData], listener: str) -> list[NodeEndpoint]:
        """Return the endpoints of the leaders that the response names (KIP-951)."""
        leader_ids = (data.current_leader.leader_id for data in partitions if data.current_leader.leader_id >= 0)
        return [
            NodeEndpoint(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in leader_endpoints(self._image(), leader_ids, listener)
        ]


def _count(request: FetchRequest) -> int:
    """Return the number of topics and partitions of a request."""
    topics = request.topics
    return len(topics) if len(topics) > MAX_CONSUMER_PARTITIONS else sum(1 + len(topic.partitions) for topic in topics)


def error_response(request: FetchRequest, error_code: ErrorCode) -> FetchResponse:
    """Return the response to a request that failed with `error_code`."""
    return FetchResponse(error_code=error_code)


API: Final = ApiHandler(
    key=ApiKey.FETCH,
    min_version=4,
    max_version=16,
    bind=lambda services: (
        FetchHandler(services.replicas, lambda: services.admin.store.image, max_bytes=services.fetch_max_bytes).handle
    ),
    error_response=error_response,
)
