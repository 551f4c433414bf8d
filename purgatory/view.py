"""Read-only views of a purgatory for pages and metrics: lists, counts, a look-up of one operation."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice
from typing import Generic, TypeVar

from .delayed_operation import DelayedOperation
from .snapshots import ParkedOperation, WatchListSnapshot, parked
from .timer import Timer
from .timing_wheel import LevelSnapshot
from .watchers import Watchers

Op = TypeVar("Op", bound=DelayedOperation)


class PurgatoryView(Generic[Op]):
    """The parked operations of one purgatory, to be read; `Purgatory` has the rest.

    Args:
        name: the kind of operation.
        timer: where the deadlines wait.
    """

    __slots__ = ("_parked", "_timer", "_watchers", "name")

    def __init__(self, name: str, timer: Timer) -> None:
        self.name = name
        self._timer = timer
        self._watchers = Watchers()
        self._parked: dict[int, Op] = {}  # by id, which is also the order of parking

    @property
    def watched(self) -> int:
        """Entries in all watch lists (Kafka's PurgatorySize).

        An operation counts once per key. A completed operation counts until the list is walked or purged.
        """
        return self._watchers.size

    @property
    def num_delayed(self) -> int:
        """Number of parked operations (Kafka's NumDelayedOperations), exactly."""
        return len(self._parked)

    def now_ms(self) -> int:
        """The time on this purgatory's clock, to which all its times belong."""
        return self._timer.now_ms()

    def find(self, operation_id: int) -> Op | None:
        """The parked operation with that id; None if no such operation is parked."""
        return self._parked.get(operation_id)

    def operations(self, limit: int = 100) -> list[ParkedOperation]:
        """The `limit` oldest parked operations, oldest first, each with the condition that it misses."""
        return [parked(self.name, operation) for operation in islice(self._parked.values(), limit)]

    def watching(self, key: Hashable, limit: int = 100) -> list[ParkedOperation]:
        """The `limit` oldest parked operations that watch a key, as `operations` shows them."""
        tickets = self._watchers.lists.get(key, ())
        waiting = (ticket.operation for ticket in tickets if ticket.operation is not None)
        return [parked(self.name, operation) for operation in islice(waiting, limit)]

    def watch_lists(self, limit: int = 100) -> list[WatchListSnapshot]:
        """Up to `limit` watch lists with their lengths, in the order in which they were created."""
        return [WatchListSnapshot(key, len(tickets)) for key, tickets in islice(self._watchers.lists.items(), limit)]

    def wheel(self) -> list[LevelSnapshot]:
        """The timing wheel in which the deadlines wait: every level, finest first, with its non-empty buckets."""
        return self._timer.snapshot()
