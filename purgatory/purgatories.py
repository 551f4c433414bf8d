"""The short way to purgatories: a timer, an action queue and a running reaper, in one ``async with``."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from .actions import MAX_ROUNDS, ActionQueue
from .clock import Alarm
from .delayed_operation import FinishedOperation
from .purgatory import Purgatory
from .reaper import Reaper
from .timer import Timer

_log = logging.getLogger(__name__)


def monotonic_ms() -> int:
    """The machine's monotonic clock, in whole milliseconds, rounded up: what begins now began by then."""
    return -(time.monotonic_ns() // -1_000_000)


def passed_monotonic_ms() -> int:
    """The machine's monotonic clock, in whole milliseconds, rounded down: the last one that has passed."""
    return time.monotonic_ns() // 1_000_000


class PurgatoryGroup:
    """Purgatories that share a timer, an action queue and the reaper task that runs their deadlines.

    ``async with PurgatoryGroup() as group:`` starts the reaper. At the end of the block, also by an exception or a
    cancellation, the group shuts every purgatory down, which answers all parked operations and ends all waits, and then
    stops the reaper. No operation is parked and no task is left after it. Deadlines of the user's own in `timer` are
    not run any more.

    An exception in the block propagates unchanged. If the reaper fails, because an injected clock does, the block is
    cancelled, and the failure is raised as `asyncio.TaskGroup` raises it, in an `ExceptionGroup`.

    Args:
        now_ms: the clock: monotonic, whole milliseconds. The default is the machine's, on which no wait is early.
        passed_ms: see `Timer`; pass it with a clock of yours that is finer than milliseconds.
        call_later: ``call_later(delay_ms, callback)`` schedules a call on that clock; see `Reaper`. The default is the
            running event loop's. Pass both to run on a clock that you move.

    Attributes:
        timer: where the deadlines of all purgatories of this group wait. Other deadlines may be added.
        actions: the action queue; ``with group.actions:`` delays all events to the end of its block.
    """

    def __init__(
        self,
        *,
        now_ms: Callable[[], int] = monotonic_ms,
        passed_ms: Callable[[], int] | None = None,
        call_later: Callable[[float, Callable[[], None]], Alarm] | None = None,
    ) -> None:
        if passed_ms is None and now_ms is monotonic_ms:
            passed_ms = passed_monotonic_ms
        self.timer = Timer(now_ms, passed_ms=passed_ms)
        self.actions = ActionQueue()
        self._reaper = Reaper(now_ms, [self.timer], actions=self.actions, call_later=call_later)
        self._purgatories: list[Purgatory[Any]] = []
        self._tasks = asyncio.TaskGroup()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def purgatory(
        self,
        name: str,
        *,
        purge_interval: int = 1000,
        on_finished: Callable[[FinishedOperation], object] | None = None,
    ) -> Purgatory[Any]:
        """Make a purgatory of this group, before the ``async with`` block or inside it.

        A group keeps its purgatories until it ends: make one per kind of operation, not one per request.

        Args:
            name: the kind of operation, for metrics and logs.
            purge_interval: see `Purgatory`.
            on_finished: see `Purgatory`.

        Raises:
            RuntimeError: the ``async with`` block has ended.
        """
        if self._closed:
            raise RuntimeError(f"cannot make purgatory {name!r}: its group has ended")
        purgatory: Purgatory[Any] = Purgatory(
            name, self.timer, actions=self.actions, purge_interval=purge_interval, on_finished=on_finished
        )
        self._purgatories.append(purgatory)
        return purgatory

    @property
    def purgatories(self) -> tuple[Purgatory[Any], ...]:
        """All purgatories of this group, in the order in which they were made."""
        return tuple(self._purgatories)

    async def __aenter__(self) -> PurgatoryGroup:
        """Start the reaper.

        Raises:
            RuntimeError: the group was entered before.
        """
        await self._tasks.__aenter__()
        self.actions.on_backlog = self._reaper.wake  # the reaper sets it too, but first runs after this returns
        self._task = self._tasks.create_task(self._reaper.run(), name="purgatory reaper")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Shut the purgatories down, and stop the reaper."""
        self._closed = True
        try:
            for purgatory in self._purgatories:
                purgatory.shutdown()
            self._drain()
        finally:
            assert self._task is not None
            self._task.cancel()
            # The block's own exception is kept from the task group, which would wrap it in an ExceptionGroup.
            await self._tasks.__aexit__(None, None, None)

    def _drain(self) -> None:
        """Run the actions that the shutdown left over, but not endlessly those that queue each other."""
        for _ in range(MAX_ROUNDS):
            if not len(self.actions):
                return
            self.actions.drain()
        if len(self.actions):
            _log.warning("%d actions were left when their group of purgatories ended", len(self.actions))
