"""Sets of partitions by topic id, as assignments hold them, and the interface of the assignors that make these."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol, TypeVar

from purgatorio.broker.group.memory import ENTRY_BYTES

PARTITION_BYTES: Final = 150
"""A partition that a member holds, or shall hold."""

Partitions = Mapping[bytes, frozenset[int]]
"""Partition numbers by topic id; no set is empty. Never changed: a change makes a new mapping."""

NO_PARTITIONS: Final[Partitions] = {}


class WirePartitions(Protocol):
    """The partitions of one topic in a message or in a record; several classes of `protocol` have this form."""

    topic_id: bytes
    partitions: list[int]


P = TypeVar("P", bound=WirePartitions)


def from_wire(entries: Iterable[WirePartitions]) -> Partitions:
    """Return the partitions of a message or of a record."""
    merged: dict[bytes, frozenset[int]] = {}
    for entry in entries:
        if entry.partitions:
            merged[entry.topic_id] = merged.get(entry.topic_id, frozenset()) | frozenset(entry.partitions)
    return merged


def to_wire(partitions: Partitions, make: Callable[..., P]) -> list[P]:
    """Return the partitions as entries of a message or of a record, in the order of ids and numbers.

    Args:
        make: the class of the entries.
    """
    return [make(topic_id=topic_id, partitions=sorted(numbers)) for topic_id, numbers in sorted(partitions.items())]


def each(partitions: Partitions) -> Iterator[tuple[bytes, int]]:
    """Iterate over the partitions, in the order of ids and numbers."""
    for topic_id in sorted(partitions):
        for number in sorted(partitions[topic_id]):
            yield topic_id, number


def collect(partitions: Iterable[tuple[bytes, int]]) -> Partitions:
    """Return single partitions by topic id."""
    collected: dict[bytes, set[int]] = {}
    for topic_id, number in partitions:
        collected.setdefault(topic_id, set()).add(number)
    return {topic_id: frozenset(numbers) for topic_id, numbers in collected.items()}


def minus(left: Partitions, right: Partitions) -> Partitions:
    """Return the partitions of `left` that are not in `right`."""
    return {
        topic_id: rest for topic_id, numbers in left.items() if (rest := numbers - right.get(topic_id, frozenset()))
    }


def common(left: Partitions, right: Partitions) -> Partitions:
    """Return the partitions that are in both."""
    return {
        topic_id: both for topic_id, numbers in left.items() if (both := numbers & right.get(topic_id, frozenset()))
    }


def union(left: Partitions, right: Partitions) -> Partitions:
    """Return the partitions that are in either."""
    merged = dict(left)
    for topic_id, numbers in right.items():
        merged[topic_id] = merged.get(topic_id, frozenset()) | numbers
    return merged


def includes(whole: Partitions, part: Partitions) -> bool:
    """Return whether all partitions of `part` are in `whole`."""
    return all(numbers <= whole.get(topic_id, frozenset()) for topic_id, numbers in part.items())


def partitions_bytes(partitions: Partitions) -> int:
    """Return the bytes that a set of partitions takes."""
    return sum(2 * ENTRY_BYTES + PARTITION_BYTES * len(numbers) for numbers in partitions.values())


# --- assignors: pure functions of members and topics, in steps ---

TopicId = bytes
Partition = tuple[TopicId, int]


class AssignedMember(NamedTuple):
    """A member, as assignors see it.

    Attributes:
        instance_id: the name of a static member (KIP-345); None for a dynamic member.
        topics: the ids of the topics that it subscribes to and that exist, ascending.
        target: what it shall have until now.
    """

    member_id: str
    instance_id: str | None
    topics: tuple[TopicId, ...]
    target: Partitions = NO_PARTITIONS


Assignment = Generator[int, None, dict[str, Partitions]]
"""Returns what each member shall have, by member id, after steps that yield what they cost (see `LongWork`)."""
