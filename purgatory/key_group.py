"""Operations that wait for thousands of keys, and begin anew on the same ones: each is watched under a group of keys.

A watch list under every key would cost such an operation a step for each key whenever it is parked or answered. A group
of keys is made once and outlives the operations: an event marks its key in the group, and the parked operation looks at
the marked keys alone. A key that was marked hears of no further event until it was looked at and is watched again; so
an event costs no more than the groups that wait for it now, even if clients have abandoned the others.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

from .delayed_operation import DelayedOperation
from .native import mypyc_attr
from .purgatory import Purgatory

CHECKED_PER_TURN: Final = 2_000
"""The most weight, but for that of the last operation, that one event has checked in one turn of the event loop: some
10 ms for fetches, which weigh their partitions. The other operations are checked in later turns."""


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupOperation(DelayedOperation):
    """An operation that is watched under a group of keys.

    Attributes:
        is_deferred: whether it is to be checked in a later turn of the event loop.
    """

    __slots__ = ("is_deferred",)

    is_deferred: bool

    @property
    @abstractmethod
    def weight(self) -> int:
        """How much a check of it may cost, in keys."""


G = TypeVar("G")
K = TypeVar("K", bound=Hashable)
P = TypeVar("P", bound=GroupOperation)
W = TypeVar("W", bound="WatchedKey[Any]")


@mypyc_attr(allow_interpreted_subclasses=True)
class KeyGroup(Generic[W, P]):
    """The keys of an operation, and of those after it.

    Attributes:
        marked: the keys to look at: new ones, and those that had an event since the last look.
        operation: the parked operation; None while none is parked.
    """

    __slots__ = ("marked", "operation")

    marked: dict[W, None]
    operation: P | None


@mypyc_attr(allow_interpreted_subclasses=True)
class WatchedKey(Generic[G]):
    """One key in its group, the `context`. Compared and hashed by identity."""

    __slots__ = ("context",)

    context: G


KEY_COST: Final = 5
"""The cost of checking an operation for each key that it weighs, in microseconds of CPU."""
TakeLater = Callable[[Iterator[int]], object]
"""Takes steps from the next turn of the event loop on, in each turn as many as there is time for; each yields what it
has cost, in microseconds of CPU. A caller without a better one makes one of its loop's `call_soon`."""


class LaterChecks:
    """Operations to check in later turns of the event loop, since an event has woken many others.

    Args:
        purgatory: where they are parked.
        take_later: takes the steps of the checks.
    """

    __slots__ = ("_deferred", "_is_under_way", "_purgatory", "_take_later")

    def __init__(self, purgatory: Purgatory[Any], take_later: TakeLater) -> None:
        self._purgatory = purgatory
        self._take_later = take_later
        self._is_under_way = False
        self._deferred: dict[GroupOperation, tuple[str, Hashable]] = {}

    def add(self, operation: GroupOperation, cause: str, key: Hashable) -> None:
        """Check an operation in a later turn, in the order of the first event of each."""
        if not self._is_under_way:
            self._is_under_way = True
            self._take_later(self._steps())
        operation.is_deferred = True
        self._deferred.setdefault(operation, (cause, key))

    def _steps(self) -> Iterator[int]:
        while self._deferred:
            operation = next(iter(self._deferred))
            cause, key = self._deferred.pop(operation)
            operation.is_deferred = False
            weight = operation.weight
            self._purgatory.check(operation, cause, key)
            yield KEY_COST * weight
        self._is_under_way = False


class GroupWatch(Generic[K, W]):
    """Which groups of keys wait to hear of which key: the watch lists of a purgatory for operations with many keys.

    Args:
        purgatory: where the operations are parked.
        later: takes the operations that are too many for one turn; None: all are checked at once.
        on_event: called with each key that had an event, before its operation is checked.
    """

    __slots__ = ("_later", "_on_event", "_purgatory", "lists")

    lists: dict[K, dict[W, None]]
    """By key, those that have had no event since they were watched. A list without any does not exist."""

    def __init__(
        self,
        purgatory: Purgatory[Any],
        later: LaterChecks | None = None,
        on_event: Callable[[W], None] | None = None,
    ) -> None:
        self._purgatory = purgatory
        self._later = later
        self._on_event = on_event
        self.lists = {}

    def watch(self, key: K, watched: W) -> None:
        """Wait for the next event of a key."""
        waiting = self.lists.get(key)
        if waiting is None:
            self.lists[key] = {watched: None}
        else:
            waiting[watched] = None

    def discard(self, key: K, watched: W) -> None:
        """Wait no more, if it does."""
        waiting = self.lists.get(key)
        if waiting is not None and watched in waiting:
            del waiting[watched]
            if not waiting:
                del self.lists[key]

    def of(self, key: K) -> Collection[W]:
        """Return those that wait for a key."""
        return self.lists.get(key, ())

    def check_and_complete(self, key: K, cause: str) -> None:
        """Handle an event: mark the key in each group that waits for it, and check the parked operations of these.

        As `Purgatory.check_and_complete` for operations that are watched under their keys one by one.
        """
        waiting: Iterable[W] | None = self.lists.pop(key, None)
        if waiting is None:  # most events find none that waits
            return
        later, on_event, checked = self._later, self._on_event, 0
        for watched in waiting:
            if on_event is not None:
                on_event(watched)
            group: KeyGroup[Any, GroupOperation] = watched.context
            group.marked[watched] = None
            operation = group.operation
            if operation is None:
                continue
            if later is not None:
                if checked >= CHECKED_PER_TURN:
                    later.add(operation, cause, key)
                    continue
                checked += operation.weight
            self._purgatory.check(operation, cause, key)
