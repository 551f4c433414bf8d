"""Committed offsets, and counts of pairs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from purgatorio.protocol.consumer_offsets import NO_EXPIRY
from purgatorio.protocol.primitives import ZERO_UUID

A = TypeVar("A", bound=Hashable)

B = TypeVar("B", bound=Hashable)


class CommittedOffset(NamedTuple):
    """The offset that a group has committed for one partition.

    Attributes:
        offset: the offset of the next record to consume.
        leader_epoch: the leader epoch of the last consumed record (KIP-320); -1 if the client has not given it.
        metadata: the client's own note.
        commit_ms: the wall time of the commit.
        expire_ms: the wall time at which it expires whatever the retention; -1: by the retention.
        topic_id: the topic that it belongs to; all zero if unknown.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_EXPIRY
    topic_id: bytes = ZERO_UUID

    def is_of(self, topic_id: bytes) -> bool:
        """Return whether it belongs to the topic with this id; not to an earlier topic of the same name."""
        return self.topic_id == topic_id or ZERO_UUID in (self.topic_id, topic_id)


GroupOffsets = dict[str, dict[int, CommittedOffset]]
"""The committed offsets of one group, by topic, then by partition; only what is replicated."""


class OffsetChange(NamedTuple):
    """A committed offset as a record of it says; None: it is deleted."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


class Tally(Generic[A, B]):
    """How many of each pair there are; a pair without any takes no memory."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[A, dict[B, int]] = {}

    def add(self, first: A, second: B) -> None:
        """Increment a pair's count."""
        counts = self._counts.get(first)
        if counts is None:
            counts = self._counts[first] = {}
        counts[second] = counts.get(second, 0) + 1

    def discard(self, first: A, second: B) -> None:
        """Decrement a pair's count, which is at least one."""
        counts = self._counts[first]
        if counts[second] > 1:
            counts[second] -= 1
            return
        del counts[second]
        if not counts:
            del self._counts[first]

    def has(self, first: A, second: B) -> bool:
        """Return whether there is such a pair."""
        return second in self._counts.get(first, ())

    def __contains__(self, first: A) -> bool:
        """Whether there is a pair with this first half."""
        return first in self._counts

    def of(self, first: A) -> Iterable[B]:
        """The second halves of the pairs with this first half, in the order in which they came."""
        return self._counts.get(first, ())
