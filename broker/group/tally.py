"""Counts of pairs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

A = TypeVar("A", bound=Hashable)
B = TypeVar("B", bound=Hashable)


class Tally(Generic[A, B]):
    """How many of each pair there are; a pair without any takes no memory."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[A, dict[B, int]] = {}

    def add(self, first: A, second: B) -> None:
        """Count one more of a pair."""
        counts = self._counts.get(first)
        if counts is None:
            counts = self._counts[first] = {}
        counts[second] = counts.get(second, 0) + 1

    def discard(self, first: A, second: B) -> None:
        """Count one less of a pair, of which there is at least one."""
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
