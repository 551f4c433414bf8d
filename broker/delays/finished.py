"""What has become of delayed operations: the last of them, for the page; and what people call each kind."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Final

from purgatorio.broker.purgatory import FinishedOperation
from purgatorio.broker.replica.delayed_fetch import FollowerKey

_CAPITAL_INSIDE: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def kind_of(purgatory: str, keys: Iterable[Hashable]) -> str:
    """What an operation is: "consumer fetch", "follower fetch", or its purgatory in words, such as "elect leader"."""
    if purgatory == "Fetch":
        return "follower fetch" if any(isinstance(key, FollowerKey) for key in keys) else "consumer fetch"
    return _CAPITAL_INSIDE.sub(" ", purgatory).lower()


class FinishedOperations:
    """The last operations that were completed, expired or cancelled on one broker, oldest first.

    Args:
        capacity: how many are kept.
    """

    def __init__(self, capacity: int = 1000) -> None:
        self.total = 0
        self._ring: deque[FinishedOperation] = deque(maxlen=capacity)

    def add(self, operation: FinishedOperation) -> None:
        """Keep one more, and forget the oldest if there are too many."""
        self.total += 1
        self._ring.append(operation)

    def last(self, count: int) -> list[FinishedOperation]:
        """The newest `count`, newest first."""
        ring = self._ring
        return [ring[i] for i in range(len(ring) - 1, max(-1, len(ring) - 1 - count), -1)]
