"""Fetch (key 1): read records, for consumers and for followers.

Versions 4–18; from v13 on topics are named by id. From v7 on a client may have a fetch session (KIP-227): its requests
name new or altered partitions, and its responses list those with news. A request without one, and the first of a
session, is answered with every requested partition, empty ones too, since a Java client drops a full response that
lacks one. Batches of zstd are sent in all versions, as by Apache Kafka 4.4; KIP-110 refused them below v10. Fields of
v17 and v18 are for followers (the directory of a log, the high watermark that they know), and are ignored: followers
here send v16.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from typing import Final

from purgatorio.broker.api.listing import leader_endpoints
from purgatorio.broker.api.registry import ApiHandler, Services
from purgatorio.broker.layers.access.guards.fetch import fetch as guard
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.replica.fetching.fetch_context import FetchContext, FetchEntry, FetchParams, PartitionFetch
from purgatorio.broker.replica.fetching.fetch_session import FetchSession, FetchSessionCache
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.routing.request import Handler, Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import (
    INITIAL_EPOCH,
    NO_SESSION,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
    is_full,
    replica_of,
)

SESSION_VERSION = 7
FOLLOWER_FETCHING_VERSION = 11
TOPIC_ID_VERSION = 13
NODE_ENDPOINTS_VERSION = 16
READ_COMMITTED = 1
NO_TOPIC_ID = bytes(16)
MAX_CONSUMER_PARTITIONS = 4_000
"""The most partitions and topics in a consumer's fetch, and partitions in its session: each costs some 5 µs, and the
event loop waits for all of them. The followers of this cluster may name more, as they must name every partition."""
MAX_AT_ONCE = 1_000
"""The most partitions that a consumer's fetch without a session reads at once; more are read in steps."""
MAX_PARKED_PARTITIONS = 1_000
"""The most partitions of a consumer's fetches that wait at a time, on one connection and without a session, but for
those of a single fetch; further ones are answered at once with what there is. Each takes some 500 bytes, and some 5 µs
when its fetch is answered. Clients have one fetch under way, or few."""


class FetchHandler:
    """Answers fetch requests.

    Args:
        replicas: this broker's replicas.
        store: has this broker's image of the cluster.
        sessions: this broker's fetch sessions.
        max_bytes: the most bytes that one response holds, even if the request allows more (fetch.max.bytes).
        listings: takes the steps of fetches of very many partitions.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        store: MetadataStore,
        *,
        sessions: FetchSessionCache,
        max_bytes: int,
        listings: Listings,
    ) -> None:
        self._replicas = replicas
        self._store = store
        self._sessions = sessions
        self._max_bytes = max_bytes
        self._listings = listings

    def handle(self, ctx: RequestContext, request: FetchRequest, reply: Reply) -> None:
        """Answer when `min_bytes` can be read, or after `max_wait_ms`."""
        replica_id = replica_of(request)
        if replica_id >= 0:
            if not self._is_current(replica_id, request.replica_state.replica_epoch):
                reply(FetchResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
                return
            ctx.session.is_broker = True
        if replica_id < 0 and _count(request) > MAX_CONSUMER_PARTITIONS:
            reply(FetchResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        params = self._params(ctx, request, replica_id)
        if is_full(request):
            self._full(ctx, request, params, reply)
        else:
            self._incremental(ctx, request, params, reply)

    def _params(self, ctx: RequestContext, request: FetchRequest, replica_id: int) -> FetchParams:
        max_bytes = min(request.max_bytes, self._max_bytes)
        return FetchParams(
            replica_id=replica_id,
            replica_epoch=request.replica_state.replica_epoch if replica_id >= 0 else -1,
            max_wait_ms=request.max_wait_ms,
            min_bytes=min(request.min_bytes, max_bytes),
            max_bytes=max_bytes,
            read_committed=request.isolation_level == READ_COMMITTED,
            rack_id=request.rack_id,
            may_read_followers=replica_id < 0 and ctx.api_version >= FOLLOWER_FETCHING_VERSION,
            client=ctx.client_id or "",
        )

    def _full(self, ctx: RequestContext, request: FetchRequest, params: FetchParams, reply: Reply) -> None:
        """Answer a request that names all its partitions; it may begin a session, and ends the one that it names."""
        if request.session_id != NO_SESSION and (session := self._sessions.find(request.session_id)) is not None:
            self._sessions.close(session)
        fetches = self._fetches(ctx.api_version, request)
        context: FetchContext | None = None
        if request.session_epoch == INITIAL_EPOCH and ctx.api_version >= SESSION_VERSION:
            by_topic_id = ctx.api_version >= TOPIC_ID_VERSION
            context = self._sessions.open(params, fetches, by_topic_id=by_topic_id, owner=ctx.session)
        self._fetch(ctx, context or FetchContext(params, fetches), fetches, reply)

    def _incremental(self, ctx: RequestContext, request: FetchRequest, params: FetchParams, reply: Reply) -> None:
        """Answer a request of a session.

        A request that is refused leaves the session as it is, and so does not disturb the client whose it is.
        """
        sessions = self._sessions
        session = sessions.find(request.session_id)
        by_topic_id = ctx.api_version >= TOPIC_ID_VERSION
        if session is None or not session.belongs_to(params):
            reply(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            return
        if not session.expects(request.session_epoch):
            reply(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
            return
        if session.by_topic_id != by_topic_id:
            reply(FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR))
            return
        forgotten = [
            (topic.topic_id if by_topic_id else topic.topic, partition)
            for topic in request.forgotten_topics_data
            for partition in topic.partitions
        ]
        named, gone = sessions.accept(session, params, self._fetches(ctx.api_version, request), forgotten)
        self._replicas.forget(gone)
        if not session.fetches:
            sessions.close(session)
            reply(FetchResponse())
        elif sessions.is_overfull or _is_too_large(session):
            sessions.close(session)
            reply(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        else:
            session.resolve_names(self._store.image)
            self._fetch(ctx, session, named, reply)

    def _fetch(self, ctx: RequestContext, context: FetchContext, named: list[PartitionFetch], reply: Reply) -> None:
        session_id = context.session_id if isinstance(context, FetchSession) else NO_SESSION
        connection, parked = ctx.session, 0
        if session_id == NO_SESSION and context.params.replica_id < 0:
            parked = len(context.fetches)
            if connection.parked_partitions and connection.parked_partitions + parked > MAX_PARKED_PARTITIONS:
                context.params.max_wait_ms = 0
            connection.parked_partitions += parked

        def answer(entries: list[FetchEntry] | None) -> None:
            connection.parked_partitions -= parked
            if entries is None:
                reply(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session_id))
            else:
                reply(self._response(ctx, session_id, entries))

        if parked > MAX_AT_ONCE:
            self._replicas.fetch_in_steps(context, answer, lambda steps: self._listings.begin(steps, connection))
        else:
            self._replicas.fetch(context, named, answer)

    def _is_current(self, replica_id: int, replica_epoch: int) -> bool:
        """Return whether the follower has the current broker epoch (KIP-903); -1 (not given) is not current."""
        registered = self._store.image.brokers.get(replica_id)
        return registered is not None and registered.broker_epoch == replica_epoch

    def _fetches(self, version: int, request: FetchRequest) -> list[PartitionFetch]:
        by_id = version >= TOPIC_ID_VERSION
        fetches = []
        for topic in request.topics:
            name, topic_id, error_code = topic.topic, None, ErrorCode.NONE
            if by_id:
                topic_id = topic.topic_id
                known = self._store.image.topic_by_id(topic_id)
                if known is None:
                    name, error_code = topic_id.hex(), ErrorCode.UNKNOWN_TOPIC_ID
                else:
                    name = known.name
            fetches += [
                PartitionFetch(TopicPartition(name, partition.partition), topic_id, partition, error_code)
                for partition in topic.partitions
            ]
        return fetches

    def _response(self, ctx: RequestContext, session_id: int, entries: list[FetchEntry]) -> FetchResponse:
        response = FetchResponse(session_id=session_id)
        topics: dict[tuple[str, bytes | None], list[PartitionData]] = {}
        name: str | None = None
        topic_id: bytes | None = None
        partitions: list[PartitionData] = []
        names_leaders = False
        for fetch, data in entries:
            if fetch.tp.topic is not name or fetch.topic_id is not topic_id:  # mostly it is that of the entry before
                name, topic_id = fetch.tp.topic, fetch.topic_id
                partitions = topics.setdefault((name, topic_id), [])
                if not partitions:
                    response.responses.append(
                        FetchableTopicResponse(topic=name, topic_id=topic_id or NO_TOPIC_ID, partitions=partitions)
                    )
            partitions.append(data)
            names_leaders = names_leaders or data.error_code != 0
        if names_leaders and ctx.api_version >= NODE_ENDPOINTS_VERSION:
            response.node_endpoints = self._endpoints(entries, ctx.session.listener)
        return response

    def _endpoints(self, entries: list[FetchEntry], listener: str) -> list[NodeEndpoint]:
        """Return the endpoints of the leaders that the response names (KIP-951)."""
        leader_ids = (data.current_leader.leader_id for _, data in entries if data.current_leader.leader_id >= 0)
        return [
            NodeEndpoint(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in leader_endpoints(self._store.image, leader_ids, listener)
        ]


def _count(request: FetchRequest) -> int:
    """Return the number of topics and partitions of a request."""
    count = len(request.topics)
    if count <= MAX_CONSUMER_PARTITIONS:
        for topic in request.topics:
            count += len(topic.partitions)
    return count


def _is_too_large(session: FetchSession) -> bool:
    return not session.is_privileged and len(session.fetches) > MAX_CONSUMER_PARTITIONS


def _bind(services: Services) -> Handler:
    admin = services.admin
    return FetchHandler(
        services.replicas,
        admin.store,
        sessions=services.fetch_sessions,
        max_bytes=services.fetch_max_bytes,
        listings=admin.listings,
    ).handle


API: Final = ApiHandler(
    key=ApiKey.FETCH,
    min_version=4,
    max_version=18,
    needs=guard,
    bind=_bind,
)
