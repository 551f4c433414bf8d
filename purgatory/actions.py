"""The action queue: events raised inside a completion wait until the outermost call has returned.

Completing operation A may append to a log, which is an event on the very key whose watch list is being walked; that
event may complete operation B, and so on. Kafka's threads deadlocked there (KAFKA-2253, 3994, 6042, 8334). In one
thread the same situation is re-entrancy and unbounded recursion. So the queue keeps an event that is raised inside a
completion, and handles it when no call is under way.
"""

# compiled: docs/compiled.md

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable

_log = logging.getLogger(__name__)

MAX_ROUNDS = 100
"""Rounds that the outermost call drains itself. It leaves the rest to `on_backlog`, so that I/O is served between."""


class ActionQueue:
    """Actions that wait for the end of the call that is under way; shared by the purgatories of one broker.

    ``with actions:`` marks a call that events must not interrupt. The queue is drained when the outermost marked call
    ends, also if it ends by an exception. A purgatory marks its own calls. Other code may mark its calls too, to have
    all events of a request handled at the end of the request.

    A round runs the actions that were queued when the round began. Actions queued meanwhile wait for the next round.
    Actions that queue each other without end would keep the event loop busy: after `MAX_ROUNDS` rounds the queue leaves
    the rest to `on_backlog` if that is set (a `Reaper` sets it). Otherwise it drains to the end, because an action that
    is never run is a lost event (KAFKA-15380).
    """

    __slots__ = ("_draining", "depth", "on_backlog", "queue")

    depth: int
    """Number of marked calls that are under way, one inside the other. At 0 an event can be handled immediately."""
    on_backlog: Callable[[], None] | None
    """Called when actions are left over; it must arrange that `drain` is called soon."""
    queue: deque[Callable[[], object]]
    """The actions that wait, oldest first. The purgatory reads it, to save calls of `leave`."""

    def __init__(self) -> None:
        self.depth = 0
        self.on_backlog = None
        self._draining = False
        self.queue = deque()

    def __len__(self) -> int:
        """Number of actions that wait."""
        return len(self.queue)

    def __bool__(self) -> bool:
        """True, even when the queue is empty."""
        return True

    def __enter__(self) -> ActionQueue:
        self.depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def add(self, action: Callable[[], object]) -> None:
        """Queue an action for the end of the outermost marked call.

        If no call is under way, the action waits for the end of the next one, or for `drain`.
        """
        self.queue.append(action)

    def leave(self) -> None:
        """End a marked call, whose start incremented `depth`. The outermost call drains the queue."""
        self.depth -= 1
        if self.queue and not self.depth:
            self.settle()

    def drain(self) -> int:
        """Run one round: the actions that are queued now. Does nothing while a call or a round is under way.

        The queue logs an action that fails, and goes on with the next.

        Returns:
            The number of actions that were run.
        """
        if self.depth or self._draining:
            return 0
        queue = self.queue
        count = len(queue)
        self._draining = True
        try:
            for _ in range(count):
                action = queue.popleft()
                try:
                    action()
                except Exception:  # the action is the user's code; a failure must not keep the next one from running
                    _log.exception("an action failed: %r", action)
        finally:
            self._draining = False
        return count

    def settle(self) -> None:
        """Drain round after round until no action waits, or `MAX_ROUNDS`. Does nothing inside of a round."""
        rounds = 0
        while self.queue and not self._draining:
            if rounds >= MAX_ROUNDS and self.on_backlog is not None:
                self.on_backlog()
                return
            self.drain()
            rounds += 1


class DueChecks:
    """Keys that had an event, and operations that had one of their own, in the order of the first event of each.

    Args:
        actions: gets `run`, once for all checks that are due.
        run: takes the checks, and runs them.
    """

    __slots__ = ("_actions", "_keys", "_operations", "_run")

    def __init__(self, actions: ActionQueue, run: Callable[[], None]) -> None:
        self._actions = actions
        self._run = run
        self._keys: dict[Hashable, str] = {}
        self._operations: dict[int, tuple[str, Hashable | None]] = {}

    def add_key(self, key: Hashable, cause: str) -> None:
        """Note an event on a key; the first one's cause is kept."""
        if key not in self._keys:
            self._queue()
            self._keys[key] = cause

    def add_operation(self, operation_id: int, cause: str, event_key: Hashable | None) -> None:
        """Note an event of one operation; the first one's cause and key are kept."""
        if operation_id not in self._operations:
            self._queue()
            self._operations[operation_id] = cause, event_key

    def take(self) -> tuple[dict[Hashable, str], dict[int, tuple[str, Hashable | None]]]:
        """Return the keys with their causes, and the operations by id with cause and key, and forget them."""
        keys, self._keys = self._keys, {}
        operations, self._operations = self._operations, {}
        return keys, operations

    def _queue(self) -> None:
        if not self._keys and not self._operations:
            self._actions.add(self._run)
