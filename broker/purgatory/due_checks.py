"""The checks of one purgatory that wait for the end of the call that is under way."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from purgatorio.broker.purgatory.actions import ActionQueue


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
