"""The requests that clients sent last, with what became of them: a bounded log to assert on.

Requests between brokers are left out: an idle cluster has dozens of them a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, Literal

from purgatorio.broker.layers.faults.matching import KnownTopics
from purgatorio.broker.layers.faults.names import api_name
from purgatorio.broker.layers.faults.rule import broker_of
from purgatorio.broker.routing.request import Handler, Reply, RequestContext
from purgatorio.protocol.api import EncodedResponse
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.message import ArrayType, StructType, fields_of
from purgatorio.protocol.parts import Topics, topics_of
from purgatorio.purgatory.clock import Clock

MAX_REQUESTS: Final = 1_000
MAX_TOPICS: Final = 10
"""The most topics, and the most different errors, that are kept of a request."""
READS: Final = frozenset((ApiKey.FETCH, ApiKey.LIST_OFFSETS))
"""The APIs that say where a consumer reads: their requests are kept, and the answers to ListOffsets."""
OF_TRANSACTIONS: Final = frozenset(
    (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.PRODUCE,
    )
)
"""The APIs that name a transactional id, except in requests between brokers."""
JOINS: Final = frozenset((ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT))
"""The APIs by which a member joins: without a member id, or with epoch 0."""
MAX_PARTITIONS: Final = 50
"""The most partitions of a request that is kept: a thousand such requests are some megabytes."""

Ended = Literal["waiting", "answered", "unanswered", "disconnected"]


class LoggedRequest:
    """A request in the log; its handler's `Reply` until it is answered.

    Attributes:
        number: counts the requests of the cluster.
        at_ms: when it was received, on the broker's monotonic clock.
        topics: the topics that it names; at most `MAX_TOPICS`. A topic without a known name is an id in hexadecimal
            digits.
        ended_ms: when it was answered; -1: not yet.
        ended: "unanswered" is a request that wants no answer (produce with acks=0).
        errors: the names of the errors in the answer, each once.
        asked: the request itself, if it is one of `READS` and names few partitions; else None.
        told: the answer to a ListOffsets request that is kept.
        group: the group that a consumer joins by it, or in which it stays; "" for other requests.
        begins: whether it joins by it for the first time.
        may_create: whether it asks for the metadata of topics, and has missing ones created where brokers do so.
        rebalance_timeout_ms: the one of such a request: clients give max.poll.interval.ms; otherwise -1.
        found_nothing: whether it is a fetch whose answer has no records.
        software: the name of the client's software, if the request gives it; else "".
        transactional_id: the one that it names, of requests about transactions; "" otherwise.
    """

    __slots__ = (
        "_clock",
        "_reply",
        "api_key",
        "asked",
        "at_ms",
        "begins",
        "broker",
        "client",
        "ended",
        "ended_ms",
        "errors",
        "found_nothing",
        "group",
        "may_create",
        "number",
        "rebalance_timeout_ms",
        "software",
        "told",
        "topics",
        "transactional_id",
        "version",
    )

    def __init__(
        self,
        number: int,
        broker: int,
        ctx: RequestContext,
        topics: tuple[str, ...],
        reply: Reply,
        clock: Clock,
        asked: Any = None,
    ) -> None:
        self.number = number
        self.broker = broker
        self.api_key = ctx.api_key
        self.version = ctx.api_version
        self.client = ctx.client_id or ""
        self.at_ms = ctx.received_ms
        self.topics = topics
        self.ended: Ended = "waiting"
        self.ended_ms = -1
        self.errors: tuple[str, ...] = ()
        self.asked = asked
        self.told: Any = None
        self.group = ""
        self.begins = False
        self.rebalance_timeout_ms = -1
        self.may_create = False
        self.found_nothing = False
        self.software = ""
        self.transactional_id = ""
        self._reply: Reply | None = reply
        self._clock = clock

    @property
    def api(self) -> str:
        """The API's name."""
        return api_name(self.api_key)

    def __call__(self, response: Any) -> None:
        """Note the answer, and send it."""
        if response.__class__ is not EncodedResponse:  # handlers encode nothing that has errors
            self.errors = errors_in(response)
            if self.api_key in (ApiKey.FETCH, ApiKey.SHARE_FETCH):
                self.found_nothing = not any(each.records for topic in response.responses for each in topic.partitions)
            elif self.api_key == ApiKey.LIST_OFFSETS and self.asked is not None:
                self.told = response
        self._end("answered")(response)

    def nothing(self) -> None:
        """Note that there is no answer."""
        self._end("unanswered").nothing()

    def close(self, reason: str) -> None:
        """Note that the connection is closed instead."""
        self._end("disconnected").close(reason)

    def _end(self, how: Ended) -> Reply:
        """Return the request's own reply, and let go of it: the log must not keep connections alive."""
        reply = self._reply
        assert reply is not None, "a request is answered once"
        self._reply = None
        self.ended = how
        self.ended_ms = self._clock.now_ms()
        return reply


class RequestLog:
    """The last requests of clients.

    Args:
        clock: the cluster's.

    Attributes:
        entries: the requests, oldest first; at most `MAX_REQUESTS`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = 0
        self.entries: deque[LoggedRequest] = deque(maxlen=MAX_REQUESTS)

    @property
    def forgotten(self) -> int:
        """How many earlier requests are not in it any more."""
        return self._count - len(self.entries)

    def before(self, handler: Handler, broker_id: int, api_key: int, known: KnownTopics) -> Handler:
        """Return a handler that notes each request, and passes it on.

        Args:
            known: the topics that the broker knows, for requests that name topics by their ids (KIP-516).
        """
        named_by = topics_of(api_key)
        reads = api_key in READS
        is_of_transaction = api_key in OF_TRANSACTIONS
        joins = api_key in JOINS
        is_metadata = api_key == ApiKey.METADATA
        introduces = api_key == ApiKey.API_VERSIONS

        def logged(ctx: RequestContext, request: Any, reply: Reply) -> None:
            client = ctx.client_id
            if client is not None and client.startswith("broker-") and broker_of(client):
                handler(ctx, request, reply)
                return
            self._count += 1
            topics = _topics(request, named_by, known) if named_by else ()
            asked = request if reads and _is_small(request) else None
            entry = LoggedRequest(self._count, broker_id, ctx, topics, reply, self._clock, asked)
            if is_of_transaction:
                entry.transactional_id = _transactional_id(request)
            if joins:
                entry.group = request.group_id
                entry.begins = not (request.member_id if api_key == ApiKey.JOIN_GROUP else request.member_epoch)
                entry.rebalance_timeout_ms = request.rebalance_timeout_ms
            if introduces:
                entry.software = request.client_software_name
            if is_metadata:
                entry.may_create = bool(topics) and request.allow_auto_topic_creation
            self.entries.append(entry)
            handler(ctx, request, entry)

        return logged

    def clear(self) -> None:
        """Forget all requests."""
        self.entries.clear()
        self._count = 0


def _transactional_id(request: Any) -> str:
    for name in ("transactional_id", "v3_and_below_transactional_id"):
        if found := getattr(request, name, None):
            return str(found)
    return next((str(each.transactional_id) for each in getattr(request, "transactions", ())), "")


def _is_small(request: Any) -> bool:
    return sum(len(topic.partitions) for topic in request.topics) <= MAX_PARTITIONS


def _topics(request: Any, named_by: Sequence[Topics], known: KnownTopics) -> tuple[str, ...]:
    return tuple(
        each.name_of(topic) or _name(topic.topic_id, known)
        for each in named_by
        for topic in each.of(request)[:MAX_TOPICS]
    )[:MAX_TOPICS]


def _name(topic_id: bytes, known: KnownTopics) -> str:
    return known.topic_name(topic_id) or topic_id.hex()


def errors_in(response: Any) -> tuple[str, ...]:
    """Return the names of the errors in a response, each once, in their order; at most `MAX_TOPICS`."""
    codes: dict[int, None] = {}
    _collect(response, codes)
    if not codes:
        return ()
    return tuple(ErrorCode(code).name if code in _CODES else str(code) for code in list(codes)[:MAX_TOPICS])


_CODES: Final = frozenset(map(int, ErrorCode))
_ERRORS: Final = frozenset(("error_code", "partition_error_code", "acknowledge_error_code"))


def _collect(message: Any, codes: dict[int, None]) -> None:
    cls: Any = message.__class__
    errors, arrays = _shape(cls)
    for name in errors:
        if code := getattr(message, name):
            codes[int(code)] = None
    for name in arrays:
        for each in getattr(message, name) or ():
            _collect(each, codes)


@lru_cache(1024)
def _shape(cls: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the error codes of a struct, and its arrays of structs that have some, at any depth."""
    fields = fields_of(cls)
    arrays = []
    for each in fields:
        if isinstance(each.wire.type, ArrayType) and isinstance(each.wire.type.element, StructType):
            inner: Any = each.wire.type.element.cls
            if any(_shape(inner)):
                arrays.append(each.name)
    return tuple(each.name for each in fields if each.name in _ERRORS), tuple(arrays)
