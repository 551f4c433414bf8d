"""Which topics, groups and transactional ids a request names, and how a part of its partitions is refused.

Requests differ in what they call these fields; the names here are those of all APIs that the brokers answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from copy import copy
from functools import lru_cache
from typing import Any, Final, NamedTuple

from purgatorio.protocol.api import APIS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.message import ArrayType, StructType, fields_of

_TOPICS: Final = ("topics", "topic_data", "v3_and_below_topics")
_TOPIC_NAMES: Final = ("name", "topic", "topic_name")
_PARTITIONS: Final = ("partitions", "partition_data", "partition_indexes", "partition_responses")
_INDEXES: Final = ("partition_index", "partition", "index")
_GROUPS: Final = ("group_id", "groups", "group_ids", "groups_names")
_TRANSACTIONAL_IDS: Final = ("transactional_id", "v3_and_below_transactional_id", "transactional_ids", "transactions")

SPLIT: Final = frozenset(
    (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DELETE_RECORDS,
    )
)
"""APIs whose answers have an error code for each partition, so that some can be refused and the others answered."""


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


def names_topics(request: type) -> bool:
    """Return whether requests of this class name topics."""
    return _attribute(request, _TOPICS) is not None


@lru_cache(1024)
def topic_attributes(api_key: int) -> tuple[str, str] | None:
    """Return the attributes of an API's requests that hold the topics, and a topic's name; None if there are none."""
    request: Any = APIS[api_key].request
    for each in fields_of(request):
        if each.name in _TOPICS and isinstance(each.wire.type, ArrayType):
            element = each.wire.type.element
            cls: Any = element.cls if isinstance(element, StructType) else None
            name = None if cls is None else _attribute(cls, _TOPIC_NAMES)
            return None if name is None else (each.name, name)
    return None


def names_group(request: type) -> bool:
    """Return whether requests of this class name a group."""
    return _attribute(request, _GROUPS) is not None or _attribute(request, ("coordinator_keys",)) is not None


def names_transactional_id(request: type) -> bool:
    """Return whether requests of this class name a transactional id."""
    return _attribute(request, _TRANSACTIONAL_IDS) is not None or _attribute(request, ("coordinator_keys",)) is not None


def named_partitions(request: Any, topic_name: Callable[[bytes], str | None]) -> Iterator[Named]:
    """Yield the partitions that a request names, and the topics that it names without partitions.

    Args:
        topic_name: returns the name of a topic's id; None if the broker does not know it.
    """
    for nth, topic in enumerate(_values(request, _TOPICS)):
        if isinstance(topic, str):
            yield Named(topic, None, -1, (nth, -1))
            continue
        name, topic_id = _topic(topic, topic_name)
        partitions = _values(topic, _PARTITIONS)
        for position, partition in enumerate(partitions):
            yield Named(name, topic_id, partition_index(partition), (nth, position))
        if not partitions:
            yield Named(name, topic_id, -1, (nth, -1))


def _topic(topic: Any, topic_name: Callable[[bytes], str | None]) -> tuple[str, bytes | None]:
    attribute = _attribute_of(topic, _TOPIC_NAMES)
    name: str = (getattr(topic, attribute) if attribute else None) or ""
    topic_id: bytes | None = getattr(topic, "topic_id", None)
    if topic_id is not None and not any(topic_id):
        topic_id = None
    if topic_id is not None and not name:
        name = topic_name(topic_id) or ""
    return name, topic_id


def partition_index(partition: Any) -> int:
    """Return the index of a partition of a request or a response."""
    if isinstance(partition, int):
        return partition
    attribute = _attribute_of(partition, _INDEXES)
    return getattr(partition, attribute) if attribute else -1


def groups_of(request: Any) -> list[str]:
    """Return the groups that a request names."""
    if _attribute_of(request, ("coordinator_keys",)):
        return _coordinator_keys(request, 0)
    return _texts(request, _GROUPS, "group_id")


def transactional_ids_of(request: Any) -> list[str]:
    """Return the transactional ids that a request names."""
    if _attribute_of(request, ("coordinator_keys",)):
        return _coordinator_keys(request, 1)
    return _texts(request, _TRANSACTIONAL_IDS, "transactional_id")


def _coordinator_keys(request: Any, key_type: int) -> list[str]:
    if request.key_type != key_type:
        return []
    return [request.key, *request.coordinator_keys] if request.key else list(request.coordinator_keys)


def _texts(request: Any, attributes: tuple[str, ...], inner: str) -> list[str]:
    found = []
    for attribute in attributes:
        value = getattr(request, attribute, None)
        if isinstance(value, str):
            found.append(value)
        elif value:
            found += [each if isinstance(each, str) else getattr(each, inner, "") for each in value]
    return [each for each in found if each]


def split(request: Any, chosen: Collection[tuple[int, int]]) -> tuple[Any, Any]:
    """Return two requests: one with the chosen partitions, and one with the others, None if there are none."""
    attribute = _attribute_of(request, _TOPICS)
    assert attribute is not None, "the request names topics"
    taken: list[Any] = []
    left: list[Any] = []
    for nth, topic in enumerate(getattr(request, attribute)):
        of_topic = _attribute_of(topic, _PARTITIONS)
        assert of_topic is not None, "its topics have partitions"
        positions = range(len(getattr(topic, of_topic)))
        for into, wanted in ((taken, True), (left, False)):
            partitions = [getattr(topic, of_topic)[p] for p in positions if ((nth, p) in chosen) is wanted]
            if partitions:
                into.append(_with(topic, of_topic, partitions))
    return _with(request, attribute, taken), _with(request, attribute, left) if left else None


def merge(into: Any, other: Any) -> Any:
    """Put the partitions of one response into another one of the same API; return the latter."""
    attribute = _attribute_of(into, ("responses", "topics"))
    assert attribute is not None, "the response names topics"
    topics = getattr(into, attribute)
    for topic in getattr(other, attribute):
        of_topic = _attribute_of(topic, _PARTITIONS)
        assert of_topic is not None, "its topics have partitions"
        same = next((each for each in topics if _identity(each) == _identity(topic)), None)
        if same is None:
            topics.append(topic)
        else:
            setattr(same, of_topic, [*getattr(same, of_topic), *getattr(topic, of_topic)])
    return into


def _identity(topic: Any) -> tuple[object, object]:
    attribute = _attribute_of(topic, _TOPIC_NAMES)
    return getattr(topic, attribute) if attribute else None, getattr(topic, "topic_id", None)


def _with(message: Any, attribute: str, value: object) -> Any:
    changed = copy(message)
    setattr(changed, attribute, value)
    return changed


def _values(message: Any, attributes: tuple[str, ...]) -> Any:
    attribute = _attribute_of(message, attributes)
    return (getattr(message, attribute) if attribute else None) or ()


def _attribute_of(message: object, candidates: tuple[str, ...]) -> str | None:
    cls: Any = type(message)
    return _attribute(cls, candidates)


@lru_cache(1024)
def _attribute(cls: type, candidates: tuple[str, ...]) -> str | None:
    """Return the first of the candidates that messages of this class have."""
    if not hasattr(cls, "__dataclass_fields__"):
        return None
    names = {each.name for each in fields_of(cls)}
    return next((each for each in candidates if each in names), None)
