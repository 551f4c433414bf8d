"""The delayed operations of one broker that finished last, for the page, and the kind of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence

from purgatorio.broker.causes.kinds import KINDS, Kind
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.replica.fetching.delayed_fetch import FollowerKey
from purgatorio.purgatory import FinishedOperation


def kind_of(purgatory: str, keys: Sequence[Hashable]) -> Kind:
    """Return an operation's kind: of its purgatory, or that of fetches of followers."""
    kind = KINDS[purgatory]
    if kind.of_followers is not None and keys and isinstance(keys[-1], FollowerKey):
        return kind.of_followers  # the follower's key comes after those of its partitions, which may be thousands
    return kind


def detail_of(ended: FinishedOperation) -> str:
    """Return the condition that it still missed if it ended unmet, or the exception if it failed; otherwise ""."""
    return ended.error or in_words(ended.causes)


class FinishedOperations:
    """The last delayed operations that ended on one broker, whatever their outcome.

    Attributes:
        total: number of operations added so far, including those that are not kept any more.
    """

    def __init__(self, capacity: int = 1000) -> None:
        self.total = 0
        self._ring: deque[FinishedOperation] = deque(maxlen=capacity)

    def add(self, operation: FinishedOperation) -> None:
        """Keep a finished operation. Beyond the capacity, drop the oldest."""
        self.total += 1
        self._ring.append(operation)

    def last(self, count: int) -> list[FinishedOperation]:
        """Return up to `count` of the operations kept, newest first."""
        ring = self._ring
        return [ring[i] for i in range(len(ring) - 1, max(-1, len(ring) - 1 - count), -1)]
