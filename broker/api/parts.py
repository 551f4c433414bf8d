"""The rule for requests that name very much: they are worked on in parts, between which the broker does other work.

A request that names some thousand things is cut into requests that name a few hundred. Each of them goes to the
handler in a turn of the event loop of its own, and their answers are put together. The connection is muted until the
last part is begun, so that no later request overtakes one. Parts that wait for an event wait side by side.

What is named twice stays in one part where the handler refuses it. A connection that is lost begins no further part.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from purgatorio.broker.coordinator.listings import Listings
from purgatorio.broker.routing.replies import message_of
from purgatorio.broker.routing.request import Handler, Reply, RequestContext, Route
from purgatorio.broker.routing.route_layers import Wrap
from purgatorio.logger import get_logger
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode

PART_ENTRIES: Final = 500
"""What one part names: some milliseconds."""

_log = get_logger(__name__)


class Cut(NamedTuple):
    """Where the messages of an API have what a request names, and the answers to it.

    Attributes:
        items: the arrays of the request.
        answers: the array of the response with an entry for each item.
        inner: the array within an item that is cut as well, such as a topic's partitions; "" for none.
        inner_answers: the array within an entry of the response with the answers to these.
        key: what an item names (or an element of `inner` in it), if the handler refuses what is named twice.
        weight: as how many things an item counts that is not cut.
    """

    items: tuple[str, ...]
    answers: str
    inner: str = ""
    inner_answers: str = ""
    key: Callable[[Any, Any], Hashable] | None = None
    weight: Callable[[Any], int] | None = None


def _topic(item: Any, _: Any) -> Hashable:
    return item if isinstance(item, str) else (item.name, getattr(item, "topic_id", None))


def _marked(marker: Any) -> int:
    return 1 + sum(1 + len(topic.partition_indexes) for topic in marker.topics)


_TOPICS: Final = Cut(("topics",), "topics", "partitions", "partitions")
_RESOURCES: Final = Cut(("resources",), "responses", key=lambda item, _: (item.resource_type, item.resource_name))

CUTS: Final[Mapping[ApiKey, Cut]] = MappingProxyType(
    {
        ApiKey.OFFSET_COMMIT: _TOPICS,
        ApiKey.TXN_OFFSET_COMMIT: _TOPICS,
        ApiKey.OFFSET_DELETE: _TOPICS,
        ApiKey.DELETE_RECORDS: _TOPICS,
        ApiKey.DESCRIBE_PRODUCERS: _TOPICS._replace(inner="partition_indexes"),
        ApiKey.FIND_COORDINATOR: Cut(("coordinator_keys",), "coordinators"),
        ApiKey.LEAVE_GROUP: Cut(("members",), "members"),
        ApiKey.DELETE_GROUPS: Cut(("groups_names",), "results", key=lambda name, _: name),
        ApiKey.WRITE_TXN_MARKERS: Cut(("markers",), "markers", weight=_marked),
        ApiKey.CREATE_TOPICS: Cut(("topics",), "topics", key=_topic),
        ApiKey.DELETE_TOPICS: Cut(("topics", "topic_names"), "responses", key=_topic),
        ApiKey.CREATE_PARTITIONS: Cut(("topics",), "results", key=_topic),
        ApiKey.CREATE_ACLS: Cut(("creations",), "results"),
        ApiKey.DELETE_ACLS: Cut(("filters",), "filter_results"),
        ApiKey.ALTER_CONFIGS: _RESOURCES,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _RESOURCES,
        ApiKey.ALTER_CLIENT_QUOTAS: Cut(
            ("entries",),
            "entries",
            key=lambda item, _: frozenset((each.entity_type, each.entity_name) for each in item.entity),
        ),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Cut(("deletions", "upsertions"), "results", key=lambda item, _: item.name),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: Cut(
            ("topics",),
            "responses",
            "partitions",
            "partitions",
            key=lambda item, inner: (item.name, None if inner is None else inner.partition_index),
        ),
        ApiKey.ELECT_LEADERS: Cut(("topic_partitions",), "replica_election_results", "partitions", "partition_result"),
    }
)
"""The APIs whose requests are cut."""


def in_parts(listings: Listings) -> Wrap:
    """Return the layer that cuts long requests; see `RouteLayers`.

    Args:
        listings: takes the steps.
    """

    def before(key: int, route: Route) -> Handler:
        cut = CUTS.get(ApiKey(key))
        return route.handler if cut is None else _InParts(cut, route, listings)

    return before


class _InParts:
    __slots__ = ("_cut", "_listings", "_route")

    def __init__(self, cut: Cut, route: Route, listings: Listings) -> None:
        self._cut = cut
        self._route = route
        self._listings = listings

    def __call__(self, ctx: RequestContext, request: Any, reply: Reply) -> None:
        """Work on a request: at once, if it is not long. Each thing takes a byte at least, which is quickly seen."""
        if ctx.request_bytes <= PART_ENTRIES or _count(self._cut, request) <= PART_ENTRIES:
            self._route.handler(ctx, request, reply)
        else:
            self._listings.begin(self._steps(ctx, request, reply), ctx.session)

    def _steps(self, ctx: RequestContext, request: Any, reply: Reply) -> Iterator[None]:
        parts = parts_of(self._cut, request)
        answers = _Answers(self._cut, ctx, len(parts), reply)
        for nth, part in enumerate(parts):
            yield
            answer = _PartReply(answers, nth)
            try:
                self._route.handler(ctx, part, answer)
            except Exception:  # a bug in a handler costs the part that met it, and no other
                _log.exception("handler failed", api_key=ctx.api_key, version=ctx.api_version)
                response = self._route.error_response(part, ErrorCode.UNKNOWN_SERVER_ERROR)
                answer.close("the handler failed") if response is None else answer(response)


def _count(cut: Cut, request: Any) -> int:
    """Return how many things a request names."""
    count = 0
    for array in cut.items:
        items = getattr(request, array) or ()
        count += len(items) if cut.weight is None else sum(map(cut.weight, items))
        if cut.inner:
            count += sum(len(getattr(item, cut.inner)) for item in items)
    return count


def parts_of(cut: Cut, request: Any) -> list[Any]:
    """Cut a request into requests that name at most `PART_ENTRIES` things each, or one thing more often."""
    parts: list[list[tuple[str, Any, Any]]] = [[]]
    size = 0
    for same in _by_key(cut, request):
        weight = len(same) if cut.weight is None else sum(cut.weight(item) for _, item, _ in same)
        if parts[-1] and size + weight > PART_ENTRIES:
            parts.append([])
            size = 0
        parts[-1] += same
        size += weight
    return [_joined(cut, request, named) for named in parts]


def _named(cut: Cut, request: Any) -> Iterator[tuple[str, Any, Any]]:
    """Return each thing that a request names: its array, its item, and the element in that; None without one."""
    for array in cut.items:
        for item in getattr(request, array) or ():
            inner = getattr(item, cut.inner) if cut.inner else ()
            if inner:
                for each in inner:
                    yield array, item, each
            else:
                yield array, item, None


def _by_key(cut: Cut, request: Any) -> Iterable[list[tuple[str, Any, Any]]]:
    if cut.key is None:
        return ([named] for named in _named(cut, request))
    groups: dict[Hashable, list[tuple[str, Any, Any]]] = {}
    for named in _named(cut, request):
        groups.setdefault(cut.key(named[1], named[2]), []).append(named)
    return groups.values()


def _joined(cut: Cut, request: Any, named: list[tuple[str, Any, Any]]) -> Any:
    """Return a request that names these things alone."""
    part = copy(request)
    arrays: dict[str, list[Any]] = {array: [] for array in cut.items}
    last: Any = None
    inner: list[Any] = []
    for array, item, each in named:
        if each is None:
            arrays[array].append(item)
            continue
        if item is not last:
            last, inner, cut_item = item, [], copy(item)
            setattr(cut_item, cut.inner, inner)
            arrays[array].append(cut_item)
        inner.append(each)
    for array, items in arrays.items():
        setattr(part, array, items)
    return part


class _PartReply:
    """The reply of one part."""

    __slots__ = ("_answers", "_nth")

    def __init__(self, answers: _Answers, nth: int) -> None:
        self._answers = answers
        self._nth = nth

    def __call__(self, response: Any) -> None:
        """Keep the response until the others are there."""
        self._answers.put(self._nth, response)

    def nothing(self) -> None:
        """Keep silent about the part."""
        self._answers.put(self._nth, None)

    def close(self, reason: str) -> None:
        """Close the connection, whatever the other parts answer."""
        self._answers.close(reason)


class _Answers:
    """The answers of all parts; sends them together as soon as none is missing."""

    __slots__ = ("_answers", "_ctx", "_cut", "_missing", "_reply")

    def __init__(self, cut: Cut, ctx: RequestContext, parts: int, reply: Reply) -> None:
        self._cut = cut
        self._ctx = ctx
        self._reply = reply
        self._answers: list[Any] = [None] * parts
        self._missing = parts

    def put(self, nth: int, response: Any) -> None:
        """Add the answer of one part."""
        self._answers[nth] = None if response is None else message_of(self._ctx, response)
        self._missing -= 1
        if not self._missing:
            self._send([answer for answer in self._answers if answer is not None])

    def close(self, reason: str) -> None:
        """Close the connection, unless that was done."""
        if self._missing > 0:
            self._missing = -1
            self._reply.close(reason)

    def _send(self, answers: list[Any]) -> None:
        if not answers:
            self._reply.nothing()
            return
        failed = next((answer for answer in answers if getattr(answer, "error_code", 0)), None)
        if failed is None:
            together, entries = answers[0], []
            for answer in answers:
                entries += getattr(answer, self._cut.answers)
            setattr(together, self._cut.answers, self._without_cuts(entries))
            self._reply(together)
        else:  # it is about the whole request, as is the error of a group that is not coordinated here
            self._reply(failed)

    def _without_cuts(self, entries: list[Any]) -> list[Any]:
        """Return the entries with those joined that answer for one item, which was cut."""
        if not self._cut.inner:
            return entries
        inner = self._cut.inner_answers
        joined: dict[Hashable, Any] = {}
        for entry in entries:
            name = getattr(entry, "name", None) or getattr(entry, "topic", None), getattr(entry, "topic_id", None)
            known = joined.setdefault(name, entry)
            if known is not entry:
                getattr(known, inner).extend(getattr(entry, inner))
        return list(joined.values())
