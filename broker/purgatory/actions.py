"""The action queue: events raised inside a completion wait until the outermost call has returned.

Completing A may append to a log, which is an event on the very key whose watch list is being walked, which may complete
B, which … Kafka's threads deadlocked there (KAFKA-2253, 3994, 6042, 8334); in one thread the same thing is re-entrancy,
and unbounded recursion. So an event inside a completion is queued, and handled when nothing is under way.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

_log = logging.getLogger(__name__)

MAX_ROUNDS = 100
"""How many rounds the outermost call drains itself before it leaves the rest to `on_backlog`, to let I/O in between."""


class ActionQueue:
    """What is to be done after the call that is under way; shared by the purgatories of one broker.

    ``with actions:`` marks a call that must not be interrupted by events. When the outermost one ends, also by an
    exception, the queue is drained. A purgatory marks its own calls; others may mark theirs, to handle all events of a
    request at its end.

    A round runs the actions that were queued when it began; what they queue is left to the next round. Actions that
    queue each other without end would keep the event loop: after `MAX_ROUNDS` rounds the rest is left to `on_backlog`,
    if that is set (a `Reaper` sets it), and drained to the end if it is not, because an action that nobody drains is an
    event lost (KAFKA-15380).
    """

    __slots__ = ("_draining", "_queue", "depth", "on_backlog")

    depth: int
    """How many marked calls are under way, one inside the other; 0 means that an event can be handled now."""
    on_backlog: Callable[[], None] | None
    """Asked to see to it that `drain` is called soon."""

    def __init__(self) -> None:
        self.depth = 0
        self.on_backlog = None
        self._draining = False
        self._queue: deque[Callable[[], object]] = deque()

    def __len__(self) -> int:
        """How many actions wait."""
        return len(self._queue)

    def __bool__(self) -> bool:
        """True, even when it is empty."""
        return True

    def __enter__(self) -> ActionQueue:
        self.depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def add(self, action: Callable[[], object]) -> None:
        """Queue an action for the end of the outermost call; outside of any, for the end of the next, or `drain`."""
        self._queue.append(action)

    def leave(self) -> None:
        """End a marked call (`depth` was incremented at its start); the outermost one drains the queue."""
        self.depth -= 1
        if self._queue and not self.depth and not self._draining:
            self._settle()

    def drain(self) -> int:
        """Run the actions queued by now, one round, and return how many; 0 while a call or a round is under way.

        An action that fails is logged, and does not stop the others.
        """
        if self.depth or self._draining:
            return 0
        queue = self._queue
        count = len(queue)
        self._draining = True
        try:
            for _ in range(count):
                action = queue.popleft()
                try:
                    action()
                except Exception:  # an action is other people's code, and the next one belongs to somebody else
                    _log.exception("an action failed: %r", action)
        finally:
            self._draining = False
        return count

    def _settle(self) -> None:
        rounds = 0
        while self._queue:
            if rounds >= MAX_ROUNDS and self.on_backlog is not None:
                self.on_backlog()
                return
            self.drain()
            rounds += 1
