"""Requests taken apart: what a request names, how a part of it is refused, and how answers are put together.

All of it follows from the declarations of the messages, for all of an API's versions at once: fields say what they name
(`Entity`), and an array of a request is answered by the array of the response whose entries name the same. It is found
out once for each API, when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from copy import copy
from functools import cache
from typing import Any, Final, NamedTuple

from purgatorio.protocol.api import APIS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.message import LATEST, NEVER, ArrayType, StructType, Wire, WireField, fields_of
from purgatorio.protocol.primitives import ZERO_UUID

NOT_ASKED: Final = frozenset(
    (
        "FetchRequest.forgotten_topics_data",
        "ShareFetchRequest.forgotten_topics_data",
        "ConsumerGroupHeartbeatRequest.subscribed_topic_names",
        "ConsumerGroupHeartbeatRequest.topic_partitions",
    )
)
"""Arrays in which a client lists what it has or gives up. They get no answer of their own."""
ANSWERED_ONCE: Final = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_GROUPS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    )
)
"""The APIs that answer once for an entry that a request repeats."""
ERROR_IN_EACH_PART: Final = frozenset((ApiKey.ALTER_PARTITION_REASSIGNMENTS,))
"""The APIs that repeat the error of a failed request in each part, although the response has a field for it."""
ERROR_AT_TOP_ONLY: Final = frozenset((ApiKey.FETCH,))
"""The APIs that have it in the response's own field only: there, Fetch clients take it as the end of their session."""
_ERRORS: Final = ("error_code", "partition_error_code")
_OF_FAILED: Final[dict[str, Any]] = {"error_message": None, "node_id": -1, "port": -1}
"""Values of fields in a response with an error, where they differ from the field's default."""
_OF_FAILED_REQUEST: Final = _OF_FAILED | {"producer_epoch": -1}
_OF_FAILED_PART: Final = _OF_FAILED | {
    "base_offset": -1,
    "committed_offset": -1,
    "high_watermark": -1,
    "low_watermark": -1,
    "records": b"",
}
_KEY_TYPES: Final = {Entity.GROUP_ID: 0, Entity.TRANSACTIONAL_ID: 1}
"""The key types of FindCoordinator."""


class AnsweredArray:
    """An array of requests, each entry of which has an entry of its own in the response.

    Attributes:
        items: the array of the request.
        answers: the array of the response.
        inner: the array within an entry whose entries are answered in their turn, as a topic's partitions; or None.
        names: what both entries name: the field in the request, and in the response. Without a name in the request the
            entry is a plain value. Empty: answers are in the order of what they answer.
        name: the field with the name of a topic, group or transactional id.
        ids_since: the first version in which topics have ids in place of names; never: above all versions.
    """

    __slots__ = ("_answer", "_error", "_fixed", "_refuse", "answers", "ids_since", "inner", "items", "name", "names")

    def __init__(self, item: WireField, answers: str, answer: Any, names: dict[Entity, tuple[str, str]]) -> None:
        self.items = item.name
        self.answers = answers
        self.names = tuple(names.values())
        self._answer = answer
        self._refuse: Callable[[Iterable[Any], ErrorCode], list[Any]] | None = None
        fields = {each.name: each.wire for each in fields_of(answer)}
        self._error = next((each for each in _ERRORS if each in fields), "")
        self._fixed = _fixed(fields, _OF_FAILED_PART) if self._error else {}
        cls = _element(item)
        inner = () if cls is None else tuple(_parts(cls, answer))
        self.inner: AnsweredArray | None = inner[0] if inner else None
        self.name, _ = next((each for kind, each in names.items() if kind is not Entity.TOPIC_ID), ("", ""))
        until = next((each.wire.until for each in fields_of(cls) if each.name == self.name), LATEST) if cls else LATEST
        self.ids_since = 0 if not self.name and Entity.TOPIC_ID in names else until + 1

    def identity(self, item: Any) -> tuple[Hashable, ...]:
        """Return what an entry of a request names."""
        return tuple(getattr(item, mine) if mine else item for mine, _ in self.names)

    def refused(self, items: Iterable[Any], error_code: ErrorCode) -> list[Any]:
        """Return the answers to entries of a request that failed."""
        if self._refuse is None:
            names: dict[str, Any] = {}
            self._refuse = eval(f"lambda items, code: {self._source(names, 'items')}", names)
        return self._refuse(items, error_code)

    def _source(self, names: dict[str, Any], items: str) -> str:
        """Return the expression that makes these answers: a comprehension, three times as fast as calls for each entry.

        Args:
            names: gets the classes that the expression uses.
        """
        depth = len(names)
        names[f"answer{depth}"], item = self._answer, f"item{depth}"
        values = [f"{theirs}={item}.{mine}" if mine else f"{theirs}={item}" for mine, theirs in self.names]
        values += [f"{name}={value!r}" for name, value in self._fixed.items()]
        if self._error:
            values.append(f"{self._error}=code")
        elif self.inner is not None:
            values.append(f"{self.inner.answers}={self.inner._source(names, f'{item}.{self.inner.items}')}")
        return f"[answer{depth}({', '.join(values)}) for {item} in {items}]"

    def merge(self, into: Any, other: Any) -> Any:
        """Put the answers of one response into another one; return the latter."""
        setattr(into, self.answers, self.joined([*getattr(into, self.answers), *getattr(other, self.answers)]))
        return into

    def joined(self, answers: list[Any]) -> list[Any]:
        """Return answers with those put together that are about the same, each with some of its inner entries."""
        if self.inner is None or not self.names:
            return answers
        inner = self.inner.answers
        joined: dict[Hashable, Any] = {}
        for answer in answers:
            known = joined.setdefault(self._answered(answer), answer)
            if known is not answer:
                getattr(known, inner).extend(getattr(answer, inner))
        return list(joined.values())

    def once(self, answers: list[Any]) -> list[Any]:
        """Return the first one of the answers that are about the same."""
        first: dict[Hashable, Any] = {}
        for answer in answers:
            first.setdefault(self._answered(answer), answer)
        return list(first.values())

    def _answered(self, answer: Any) -> Hashable:
        return tuple(getattr(answer, theirs) for _, theirs in self.names)


@cache
def parts_of(api_key: int) -> tuple[AnsweredArray, ...]:
    """Return the parts of an API's requests; none, if they are answered as a whole."""
    api = APIS[api_key]
    return tuple(_parts(api.request, api.response))


@cache
def part_of(api_key: int, items: str, inner: str = "") -> AnsweredArray:
    """Return the part of an API's requests that is this array, or this one within its entries."""
    part = next(each for each in parts_of(api_key) if each.items == items)
    if not inner:
        return part
    assert part.inner is not None, "its entries are answered by parts of theirs"
    assert part.inner.items == inner, "there is one such array"
    return part.inner


def failed(api_key: int, request: Any, error_code: ErrorCode) -> Any:
    """Return the response to a request that failed.

    The error stands in the response's own field if all versions have one; otherwise in each part, too.
    """
    fixed, has_error_at_top_only = _of_failed(api_key)
    answer: Any = APIS[api_key].response() if has_error_at_top_only else refused(api_key, request, error_code)
    for name in fixed:
        setattr(answer, name, error_code if name == "error_code" else fixed[name])
    return answer


def refused(api_key: int, request: Any, error_code: ErrorCode) -> Any:
    """Return the response with an error in each part, and none for the request."""
    answer: Any = APIS[api_key].response()
    parts = parts_of(api_key)
    for part in parts:
        getattr(answer, part.answers).extend(part.refused(getattr(request, part.items) or (), error_code))
    if api_key in ANSWERED_ONCE:
        first = parts[0]
        setattr(answer, first.answers, first.once(getattr(answer, first.answers)))
    return answer


def has_error_at_top_only(api_key: int) -> bool:
    """Return whether the response to a failed request has its error in the response's own field, and in no part."""
    return _of_failed(api_key)[1]


@cache
def _of_failed(api_key: int) -> tuple[dict[str, Any], bool]:
    """Return the fields of a failed response, and whether its error stands in its own field only."""
    response: Any = APIS[api_key].response
    fields = {each.name: each.wire for each in fields_of(response)}
    error = fields.get("error_code")
    if error is None:
        return {}, False
    has_error_at_top_only = error.since == 0 and error.until == LATEST and api_key not in ERROR_IN_EACH_PART
    return _fixed(fields, _OF_FAILED_REQUEST) | {"error_code": 0}, has_error_at_top_only or api_key in ERROR_AT_TOP_ONLY


def _fixed(fields: dict[str, Wire], values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in values.items()
        if name in fields and (value is not None or fields[name].null_since != NEVER)
    }


def changed(message: Any, **fields: object) -> Any:
    """Return a message with other values in these fields; the message itself stays as it is."""
    result = copy(message)
    for name, value in fields.items():
        setattr(result, name, value)
    return result


def items_of(api_key: int, request: Any) -> list[tuple[AnsweredArray, Any]]:
    """Return the entries of a request that get an answer each, every one with the part that it belongs to."""
    return [(part, item) for part in parts_of(api_key) for item in getattr(request, part.items) or ()]


def only(api_key: int, request: Any, items: Iterable[tuple[AnsweredArray, Any]]) -> Any:
    """Return a request with these items alone."""
    arrays: dict[str, list[Any]] = {part.items: [] for part in parts_of(api_key)}
    for part, item in items:
        arrays[part.items].append(item)
    return changed(request, **arrays)


def split(part: AnsweredArray, request: Any, chosen: Collection[tuple[int, int]]) -> tuple[Any, Any]:
    """Return two requests: one with the chosen inner entries, and one with the others, None if there are none.

    Args:
        chosen: positions, of the entry and of the inner entry in it.
    """
    assert part.inner is not None, "an entry is split"
    inner = part.inner.items
    taken: list[Any] = []
    left: list[Any] = []
    for nth, item in enumerate(getattr(request, part.items)):
        for into, wanted in ((taken, True), (left, False)):
            some = [each for p, each in enumerate(getattr(item, inner)) if ((nth, p) in chosen) is wanted]
            if some:
                into.append(changed(item, **{inner: some}))
    return changed(request, **{part.items: taken}), changed(request, **{part.items: left}) if left else None


# --- what requests name ---


class Named(NamedTuple):
    """A partition that a request names.

    Attributes:
        topic: the topic's name; empty if the request has an id that the broker does not know.
        topic_id: the topic's id, if the request has it.
        partition: -1 for a topic without partitions.
        at: the positions of the topic and the partition in the request.
    """

    topic: str
    topic_id: bytes | None
    partition: int
    at: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}" if self.partition >= 0 else self.topic


class Topics(NamedTuple):
    """An array of topics of a request.

    Attributes:
        array: its name.
        within: the arrays around it, outermost first.
        name: the field with a topic's name; "": the entry is the name; None: it has an id alone.
        topic_id: the field with its id; "" for none.
        partitions: the array of its partitions; "" for none.
        partition: the field with the index of a partition; "": the entry is the index.
    """

    array: str
    within: tuple[str, ...]
    name: str | None
    topic_id: str
    partitions: str
    partition: str

    def name_of(self, topic: Any) -> str:
        """Return the name that an entry has; "" if it has none."""
        if self.name is None:
            return ""
        return (getattr(topic, self.name) if self.name else topic) or ""

    def of(self, request: Any) -> Sequence[Any]:
        """Return the topics of a request."""
        return [*_entries(request, (*self.within, self.array))] if self.within else getattr(request, self.array) or ()


def topics_of(api_key: int) -> tuple[Topics, ...]:
    """Return where requests of an API name topics."""
    cls: Any = APIS[api_key].request
    return _topics_of(cls)


@cache
def _topics_of(cls: Hashable) -> tuple[Topics, ...]:
    return tuple(_topics(cls, ()))


def _topics(cls: Any, within: tuple[str, ...]) -> Iterator[Topics]:
    for field in _asked(cls):
        names = _names(field)
        element = _element(field)
        if Entity.TOPIC_NAME in names or Entity.TOPIC_ID in names:
            inner = (
                next((each for each in _asked(element) if Entity.PARTITION in _names(each)), None) if element else None
            )
            yield Topics(
                field.name,
                within,
                names.get(Entity.TOPIC_NAME),
                names.get(Entity.TOPIC_ID, ""),
                "" if inner is None else inner.name,
                "" if inner is None else _names(inner)[Entity.PARTITION],
            )
        elif element is not None:
            yield from _topics(element, (*within, field.name))


def named_partitions(request: Any, topic_name: Callable[[bytes], str | None]) -> Iterator[Named]:
    """Yield the partitions that a request names, and the topics that it names without partitions.

    Args:
        topic_name: returns the name of a topic's id; None if the broker does not know it.
    """
    cls: Any = type(request)
    for topics in _topics_of(cls):
        for nth, topic in enumerate(topics.of(request)):
            name = topics.name_of(topic)
            topic_id = getattr(topic, topics.topic_id) if topics.topic_id else ZERO_UUID
            if topic_id == ZERO_UUID:
                topic_id = None
            elif not name:
                name = topic_name(topic_id) or ""
            partitions = getattr(topic, topics.partitions) if topics.partitions else ()
            for position, partition in enumerate(partitions):
                index = getattr(partition, topics.partition) if topics.partition else partition
                yield Named(name, topic_id, index, (nth, position))
            if not partitions:
                yield Named(name, topic_id, -1, (nth, -1))


def names(api_key: int, kind: Entity) -> bool:
    """Return whether requests of an API name groups, or transactional ids."""
    cls: Any = APIS[api_key].request
    return bool(_paths(cls, kind) or _paths(cls, Entity.COORDINATOR_KEY))


def named(request: Any, kind: Entity) -> list[str]:
    """Return the groups, or the transactional ids, that a request names."""
    cls: Any = type(request)
    paths = _paths(cls, kind)
    if not paths and getattr(request, "key_type", None) == _KEY_TYPES[kind]:
        paths = _paths(cls, Entity.COORDINATOR_KEY)
    found: list[str] = []
    for within, field in paths:
        for entry in _entries(request, within):
            value = getattr(entry, field)
            found += value if isinstance(value, list) else (value,)
    return [each for each in found if each]


@cache
def _paths(cls: Hashable, kind: Entity) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return the fields of a request that name something, each behind the arrays around it."""
    found: list[tuple[tuple[str, ...], str]] = []
    for field in fields_of(cls):
        element = _element(field)
        if field.wire.entity is kind:
            found.append(((), field.name))
        elif element is not None:
            found += [((field.name, *within), name) for within, name in _paths(element, kind)]
    return tuple(found)


# --- declarations ---


def _entries(message: Any, arrays: tuple[str, ...]) -> Iterator[Any]:
    """Yield the entries of the last one of nested arrays; the message itself without any."""
    if not arrays:
        yield message
        return
    for entry in getattr(message, arrays[0]) or ():
        yield from _entries(entry, arrays[1:])


def _asked(cls: Any) -> Iterator[WireField]:
    """Yield the arrays of a request, or of an entry in one, that say what it asks about."""
    for field in fields_of(cls):
        if isinstance(field.wire.type, ArrayType) and f"{cls.__name__}.{field.name}" not in NOT_ASKED:
            yield field


def _element(field: WireField) -> Any:
    """Return the class of an array's entries; None if it is none, or if they are plain values."""
    element = field.wire.type.element if isinstance(field.wire.type, ArrayType) else None
    return element.cls if isinstance(element, StructType) else None


def _names(array: WireField) -> dict[Entity, str]:
    """Return the fields of an array's entries that name something; "" for plain values."""
    element = _element(array)
    if element is None:
        return {} if array.wire.entity is None else {array.wire.entity: ""}
    return {
        each.wire.entity: each.name
        for each in fields_of(element)
        if each.wire.entity is not None and not isinstance(each.wire.type, ArrayType)
    }


def _has_error(cls: Any) -> bool:
    return any(
        each.name in _ERRORS or ((inner := _element(each)) is not None and _has_error(inner)) for each in fields_of(cls)
    )


def _parts(request: Any, response: Any) -> Iterator[AnsweredArray]:
    answers = [(each, cls) for each in fields_of(response) if (cls := _element(each)) is not None and _has_error(cls)]
    for item in _asked(request):
        mine = _names(item)
        for answer, cls in answers:
            theirs = _names(answer)
            shared = {kind: (name, theirs[kind]) for kind, name in mine.items() if kind in theirs}
            if shared or not (mine or theirs):
                yield AnsweredArray(item, answer.name, cls, shared)
                break
