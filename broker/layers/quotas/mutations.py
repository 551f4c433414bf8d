"""Charges the partitions that requests create, add and delete (KIP-599), topic by topic.

From the versions of `STRICT_VERSIONS` on a topic is refused with THROTTLING_QUOTA_EXCEEDED while the client's bucket is
overdrawn, and only a refusal is throttled. In earlier versions, and where topics are created automatically, all is
done, and the client is throttled afterwards. Partitions that a handler refuses cost nothing: their charge is given
back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from purgatorio.broker.layers.quotas.charging import ChargedApi, ChargedRequest, ClientCharges
from purgatorio.broker.layers.quotas.client_rates import ClientAccounts
from purgatorio.broker.layers.quotas.entities import Limit
from purgatorio.broker.layers.quotas.throttle import Throttle, larger
from purgatorio.broker.routing.request import Handler, Reply, RequestContext, Route
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.parts import AnsweredArray, items_of, only, parts_of

STRICT_VERSIONS: Final = {ApiKey.CREATE_TOPICS: 6, ApiKey.CREATE_PARTITIONS: 3, ApiKey.DELETE_TOPICS: 5}


class KnownPartitions(Protocol):
    """The topics of the cluster, as this broker knows them."""

    def count(self, topic: str) -> int | None:
        """Return the number of a topic's partitions; None if there is no such topic."""
        ...

    def name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id."""
        ...

    def default_count(self) -> int:
        """Return the number of partitions of a topic that is created without one."""
        ...


class _Known(NamedTuple):
    """The charges and refusals that were decided before the handler ran.

    Attributes:
        taken: the partitions that were charged, by the name or id of the topic.
        refused: the answers for the topics that the handler does not see.
        is_strict: whether only a refusal is throttled.
    """

    limit: Limit | None
    taken: Mapping[str | bytes, int]
    refused: Sequence[Any]
    is_strict: bool


class ChargedMutations(ChargedApi):
    """Charges CreateTopics, CreatePartitions or DeleteTopics.

    Args:
        key: of the API.
        route: the API's own.
        topics: those of the cluster.
    """

    __slots__ = ("_cost", "_error_response", "_key", "_strict_from", "_topics")

    def __init__(self, charges: ClientCharges, key: ApiKey, route: Route, topics: KnownPartitions) -> None:
        super().__init__(charges, route.handler)
        self._error_response = route.error_response
        self._key = key
        self._cost = _COSTS[key]
        self._strict_from = STRICT_VERSIONS[key]
        self._topics = topics

    def accounts(self, ctx: RequestContext, request: Any) -> tuple[ClientAccounts[Any], ...]:
        """Return the accounts to charge; strict versions get THROTTLING_QUOTA_EXCEEDED instead."""
        charges = self.charges
        return (charges.request,) if ctx.api_version >= self._strict_from else (charges.mutations, charges.request)

    def start(self, ctx: RequestContext, request: Any, reply: Reply) -> None:
        """Let the handler work on the topics that the client's bucket allows."""
        limit = self.charges.mutations.limit(ctx.session.principal.name, ctx.client_id or "")
        is_strict = ctx.api_version >= self._strict_from
        taken: dict[str | bytes, int] = {}
        refused: list[Any] = []
        if limit is not None:
            allowed, over = self._take(limit, request, is_strict, taken)
            if over:
                refused = self._results(self._error_response(only(self._key, request, over), _REFUSED))
                request = only(self._key, request, allowed)
        charged = ChargedRequest(self, ctx, _Known(limit, taken, refused, is_strict), reply)
        if refused and not items_of(self._key, request):
            charged(self._error_response(request, _REFUSED))
        else:
            charged.begin(self._handler, request)

    def _take(
        self, limit: Limit, request: Any, is_strict: bool, taken: dict[str | bytes, int]
    ) -> tuple[list[tuple[AnsweredArray, Any]], list[tuple[AnsweredArray, Any]]]:
        """Charge topic by topic; return the topics that are allowed, and those that are not."""
        allowed, over = [], []
        mutations = self.charges.mutations
        for part, topic in items_of(self._key, request):
            if is_strict and mutations.is_overdrawn(limit):
                over.append((part, topic))
                continue
            allowed.append((part, topic))
            partitions = self._cost(topic, self._topics)
            mutations.take(limit, partitions)
            key = _key(topic)
            taken[key] = taken.get(key, 0) + partitions
        return allowed, over

    def judge(self, ctx: RequestContext, known: Any, response: Any, seconds: float) -> tuple[Any, Throttle | None]:
        over_time = self.charges.charge_time(ctx, seconds)
        limit, taken, refused, is_strict = known
        if limit is None or response is None:
            return response, over_time
        mutations = self.charges.mutations
        results = self._results(response)
        for result in results:
            if result.error_code not in _DONE:
                mutations.take(limit, -(taken.get(result.name) or taken.get(_id(result)) or 0))
        results += refused
        over = mutations.throttle(limit) if refused or not is_strict else None
        return response, larger(over, over_time)

    def _results(self, response: Any) -> list[Any]:
        results: list[Any] = getattr(response, parts_of(self._key)[0].answers)
        return results


class ChargedMetadata(ChargedApi):
    """Charges the topics that Metadata requests create."""

    __slots__ = ("_topics",)

    def __init__(self, charges: ClientCharges, handler: Handler, topics: KnownPartitions) -> None:
        super().__init__(charges, handler)
        self._topics = topics

    def before(self, ctx: RequestContext, request: Any) -> Any:
        """Return the client's limit, and the topics that the request may create."""
        limit = self.charges.mutations.limit(ctx.session.principal.name, ctx.client_id or "")
        if limit is None or not request.allow_auto_topic_creation:
            return None, ()
        names = (topic.name for topic in request.topics or ())
        return limit, frozenset(name for name in names if name and self._topics.count(name) is None)

    def judge(self, ctx: RequestContext, known: Any, response: Any, seconds: float) -> tuple[Any, Throttle | None]:
        over_time = self.charges.charge_time(ctx, seconds)
        limit, unknown = known
        if not unknown or response is None:
            return response, over_time
        created = sum(len(topic.partitions) for topic in response.topics if topic.name in unknown)
        if not created:
            return response, over_time
        self.charges.mutations.take(limit, created)
        return response, larger(self.charges.mutations.throttle(limit), over_time)


_REFUSED: Final = ErrorCode.THROTTLING_QUOTA_EXCEEDED
_DONE: Final = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
"""Results that cost their partitions; what timed out may be committed later."""


def _key(topic: Any) -> str | bytes:
    """Return what names a topic of a request: its name, or its id if it has none."""
    name: str | None = topic if isinstance(topic, str) else topic.name
    return _id(topic) if name is None else name


def _id(topic: Any) -> bytes:
    return getattr(topic, "topic_id", b"")


def _created(topic: Any, known: KnownPartitions) -> int:
    if topic.assignments:
        return len(topic.assignments)
    partitions: int = topic.num_partitions
    return partitions if partitions > 0 else known.default_count()


def _added(topic: Any, known: KnownPartitions) -> int:
    wanted: int = topic.count
    return max(0, wanted - (known.count(topic.name) or wanted))


def _deleted(topic: Any, known: KnownPartitions) -> int:
    key = _key(topic)
    name = known.name(key) if isinstance(key, bytes) else key
    return (known.count(name) if name is not None else None) or 0


_COSTS: Final[Mapping[ApiKey, Callable[[Any, KnownPartitions], int]]] = {
    ApiKey.CREATE_TOPICS: _created,
    ApiKey.CREATE_PARTITIONS: _added,
    ApiKey.DELETE_TOPICS: _deleted,
}
"""The partitions that a topic of a request costs."""
