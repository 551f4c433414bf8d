"""Large requests: they are handled in parts, between which the broker does other work.

A request that names some thousand things is cut into requests that name a few hundred. Each of them goes to the
handler in a turn of the event loop of its own, and their answers are put together. The connection is muted until the
last part is begun, so that no later request overtakes one. Parts that wait for an event wait side by side.

Repeated names stay in one part if the handler refuses them. A connection that is lost begins no further part.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.routing.replies import message_of
from purgatorio.broker.routing.request import Handler, Reply, RequestContext, Route
from purgatorio.broker.routing.route_layers import Wrap
from purgatorio.broker.time.long_work import Steps
from purgatorio.logger import get_logger
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.parts import AnsweredArray, changed, parts_of

PART_ENTRIES: Final = 500
"""The entries of one part: some milliseconds."""

_log = get_logger(__name__)


Key = Callable[[AnsweredArray, Any, Any], Hashable]
"""Returns the identity of an item of a request, or of an element within it."""


class Cut(NamedTuple):
    """How the requests of an API are cut.

    Attributes:
        parts: the arrays of the request that are cut, all answered in one array of the response.
        inner: the array within an item that is cut as well, such as a topic's partitions, or None.
        key: the identity of an item, if the handler refuses repeated ones.
        weight: the number of entries that an item counts for if it is not cut.
    """

    parts: tuple[AnsweredArray, ...]
    inner: AnsweredArray | None
    key: Key | None
    weight: Callable[[Any], int] | None


def _names(part: AnsweredArray, item: Any, inner: Any) -> Hashable:
    names = part.identity(item)
    return names if inner is None or part.inner is None else names + part.inner.identity(inner)


def _quota_entity(part: AnsweredArray, item: Any, inner: Any) -> Hashable:
    return frozenset((each.entity_type, each.entity_name) for each in item.entity)


def _marked(marker: Any) -> int:
    return 1 + sum(1 + len(topic.partition_indexes) for topic in marker.topics)


CUTS: Final[Mapping[ApiKey, Key | None]] = MappingProxyType(
    {
        ApiKey.OFFSET_COMMIT: None,
        ApiKey.TXN_OFFSET_COMMIT: None,
        ApiKey.OFFSET_DELETE: None,
        ApiKey.DELETE_RECORDS: None,
        ApiKey.DESCRIBE_PRODUCERS: None,
        ApiKey.FIND_COORDINATOR: None,
        ApiKey.LEAVE_GROUP: None,
        ApiKey.DELETE_GROUPS: _names,
        ApiKey.WRITE_TXN_MARKERS: None,
        ApiKey.CREATE_TOPICS: _names,
        ApiKey.DELETE_TOPICS: _names,
        ApiKey.CREATE_PARTITIONS: _names,
        ApiKey.CREATE_ACLS: None,
        ApiKey.DELETE_ACLS: None,
        ApiKey.ALTER_CONFIGS: _names,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _names,
        ApiKey.ALTER_CLIENT_QUOTAS: _quota_entity,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _names,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _names,
        ApiKey.ELECT_LEADERS: None,
    }
)
"""The APIs whose requests are cut, with what is refused if it is named twice, if anything is."""


def cut_of(key: ApiKey) -> Cut:
    """Return how the requests of one of these APIs are cut."""
    parts, weight = parts_of(key), _marked if key is ApiKey.WRITE_TXN_MARKERS else None
    return Cut(parts, parts[0].inner if weight is None else None, CUTS[key], weight)


def in_parts(listings: Listings) -> Wrap:
    """Return the layer that cuts long requests; see `RouteLayers`.

    Args:
        listings: takes the steps.
    """

    def before(key: int, route: Route) -> Handler:
        return _InParts(cut_of(ApiKey(key)), route, listings) if key in CUTS else route.handler

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

    def _steps(self, ctx: RequestContext, request: Any, reply: Reply) -> Steps:
        yield 0  # this turn has decoded the request
        parts = parts_in(self._cut, request)
        answers = _Answers(self._cut, ctx, len(parts), reply)
        for nth, part in enumerate(parts):
            yield 0
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
    for part in cut.parts:
        items = getattr(request, part.items) or ()
        count += len(items) if cut.weight is None else sum(map(cut.weight, items))
        if cut.inner is not None:
            count += sum(len(getattr(item, cut.inner.items)) for item in items)
    return count


def parts_in(cut: Cut, request: Any) -> list[Any]:
    """Cut a request into requests that name at most `PART_ENTRIES` things each, or one thing more often."""
    parts: list[list[_Item]] = [[]]
    size = 0
    for same in _by_key(cut, request):
        weight = len(same) if cut.weight is None else sum(cut.weight(item) for _, item, _ in same)
        if parts[-1] and size + weight > PART_ENTRIES:
            parts.append([])
            size = 0
        parts[-1] += same
        size += weight
    return [_joined(cut, request, named) for named in parts]


_Item = tuple[AnsweredArray, Any, Any]
"""A thing that a request names: its array, its item, and the element in that; None without one."""


def _named(cut: Cut, request: Any) -> Iterator[_Item]:
    for part in cut.parts:
        for item in getattr(request, part.items) or ():
            for each in (getattr(item, cut.inner.items) if cut.inner is not None else ()) or (None,):
                yield part, item, each


def _by_key(cut: Cut, request: Any) -> Iterable[list[_Item]]:
    if cut.key is None:
        return ([named] for named in _named(cut, request))
    groups: dict[Hashable, list[_Item]] = {}
    for named in _named(cut, request):
        groups.setdefault(cut.key(*named), []).append(named)
    return groups.values()


def _joined(cut: Cut, request: Any, named: list[_Item]) -> Any:
    """Return a request that names these things alone."""
    arrays: dict[str, list[Any]] = {part.items: [] for part in cut.parts}
    last: Any = None
    inner: list[Any] = []
    for part, item, each in named:
        if each is None or cut.inner is None:
            arrays[part.items].append(item)
            continue
        if item is not last:
            last, inner = item, []
            arrays[part.items].append(changed(item, **{cut.inner.items: inner}))
        inner.append(each)
    return changed(request, **arrays)


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
            part, together, entries = self._cut.parts[0], answers[0], []
            for answer in answers:
                entries += getattr(answer, part.answers)
            setattr(together, part.answers, entries if self._cut.inner is None else part.joined(entries))
            self._reply(together)
        else:  # it is about the whole request, as is the error of a group that is not coordinated here
            self._reply(failed)
