"""The reaper: one task that runs the deadlines of a broker's timers, and the only file here that knows asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from purgatorio.broker.purgatory.actions import ActionQueue
from purgatorio.broker.purgatory.timer import Timer

SLICE_MS = 2
"""How long the reaper works before the loop goes round: I/O waits no longer than this for any number of deadlines."""
STEP = 16
"""Entries between two looks at the clock within a slice."""
AHEAD_ENTRIES = 4096
"""Entries of each timer that are moved ahead of their time in one slice: about a millisecond's work."""
SLICE_ENTRIES = 4096
"""Entries per slice at most, for clocks that stand still while code runs (virtual time)."""


class Reaper:
    """Sleeps until the earliest bucket of its timers begins, runs what is due in slices, and sleeps again.

    It is woken earlier when an earlier bucket appears. It uses nothing of the loop but `call_later` and futures, so it
    runs on asyncio, uvloop and virtual-time loops alike; the time comes from `now_ms` alone.

    Args:
        now_ms: the clock that the timers use.
        timers: those to look after; more can be added later.
        actions: if given, the reaper also drains what this queue leaves over (see `ActionQueue`).
    """

    def __init__(
        self, now_ms: Callable[[], int], timers: Iterable[Timer] = (), *, actions: ActionQueue | None = None
    ) -> None:
        self._now_ms = now_ms
        self._timers: list[Timer] = []
        self._actions = actions
        self._sleep: asyncio.Future[None] | None = None
        for timer in timers:
            self.add(timer)

    def add(self, timer: Timer) -> None:
        """Look after this timer, too."""
        self._timers.append(timer)
        timer.on_earlier = self.wake
        self.wake()

    def wake(self) -> None:
        """Look at the timers again: an earlier deadline has appeared, or the clock was moved by hand."""
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)

    async def run(self) -> None:
        """Run deadlines until cancelled. For the owner's TaskGroup; one at a time."""
        loop = asyncio.get_running_loop()
        if self._actions is not None:
            self._actions.on_backlog = self.wake
        try:
            while True:
                if self._work():
                    await asyncio.sleep(0)  # one turn of the loop, with its I/O, between two slices
                else:
                    await self._rest(loop)
        finally:
            if self._actions is not None:
                self._actions.on_backlog = None

    def _work(self) -> bool:
        """One slice; True if there is more to do."""
        actions = self._actions
        if actions is not None:
            actions.drain()
        now_ms = started_ms = self._now_ms()
        due = self._timers
        handled = 0
        while due:
            handled += STEP * len(due)
            due = [timer for timer in due if timer.advance(now_ms, STEP) == STEP]
            now_ms = self._now_ms()
            if due and (now_ms - started_ms >= SLICE_MS or handled >= SLICE_ENTRIES):
                return True
        ahead = [timer.advance_ahead(AHEAD_ENTRIES) == AHEAD_ENTRIES for timer in self._timers]
        return any(ahead) or (actions is not None and len(actions) > 0)

    async def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Sleep until the earliest bucket begins, or `wake`."""
        expirations_ms = [ms for timer in self._timers if (ms := timer.next_expiration_ms) is not None]
        self._sleep = sleep = loop.create_future()
        alarm = None
        if expirations_ms:
            # At least 1 ms, since the clock may stand still or the loop's may be ahead: never a busy loop.
            delay_ms = max(1, min(expirations_ms) - self._now_ms())
            alarm = loop.call_later(delay_ms / 1000, self.wake)
        try:
            await sleep
        finally:
            self._sleep = None
            if alarm is not None:
                alarm.cancel()
