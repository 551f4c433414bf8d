"""The reaper: one task that runs the deadlines of a broker's timers."""

# compiled: docs/compiled.md

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from .actions import ActionQueue
from .clock import Alarm
from .timer import Timer

SLICE_MS = 2
"""How long the reaper works before the event loop makes a turn: no number of deadlines delays I/O longer than this."""
STEP = 16
"""Entries between two readings of the clock within a slice."""
AHEAD_ENTRIES = 4096
"""Entries of each timer that one slice moves ahead of their time: about a millisecond's work."""
SLICE_ENTRIES = 4096
"""Entries per slice at most, for clocks that stand still while code runs (virtual time)."""
LISTENING_TURNS = 2
"""Turns in which an event loop reads all bytes that have arrived before: it reads once a turn, and asyncio's own loop
handles them only after what was ready already."""


class Reaper:
    """Sleeps until the earliest bucket of its timers begins, runs in slices the entries that are due, sleeps again.

    An earlier bucket that appears in the meantime wakes it.

    Args:
        now_ms: the clock that its slices are timed by.
        timers: the timers to run; `add` takes more later. Each goes by its own clock, which may stand still at times
            but is never faster than `call_later`'s.
        actions: if given, the reaper also drains the actions that this queue leaves over (see `ActionQueue`).
        call_later: ``call_later(delay_ms, callback)`` makes the reaper's wake-up call, `delay_ms` later on the same
            clock as `now_ms`; delays are in milliseconds. The default is the running event loop's `call_later`. With a
            clock that the user moves, pass that clock's, so that the reaper follows it.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        timers: Iterable[Timer] = (),
        *,
        actions: ActionQueue | None = None,
        call_later: Callable[[float, Callable[[], None]], Alarm] | None = None,
    ) -> None:
        self._now_ms = now_ms
        self._timers: list[Timer] = []
        self._heard_ms: dict[Timer, int] = {}
        self._listened_ms: dict[Timer, int] = {}
        self._turns_left = 0
        self._actions = actions
        self._call_later = _loop_call_later if call_later is None else call_later
        self._sleep: asyncio.Future[None] | None = None
        for timer in timers:
            self.add(timer)

    def add(self, timer: Timer, *, listens: bool = False) -> None:
        """Run the deadlines of this timer too.

        Args:
            listens: whether the event loop first reads the bytes that arrived before a deadline: for deadlines by which
                clients must have sent something. While the loop is slow, they may have sent it in time.
        """
        self._timers.append(timer)
        if listens:
            self._heard_ms[timer] = timer.passed_ms()
        timer.on_earlier = self.wake
        self.wake()

    def wake(self) -> None:
        """Look at the timers again: an earlier deadline has appeared, or a clock without `call_later` was moved."""
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)

    async def run(self) -> None:
        """Run deadlines until cancelled. Run it as a task of the owner's `TaskGroup`, one at a time."""
        if self._actions is not None:
            self._actions.on_backlog = self.wake
        try:
            while True:
                if self._work():
                    await asyncio.sleep(0)  # one turn of the loop, with its I/O, between two slices
                else:
                    await self._rest()
        finally:
            if self._actions is not None:
                self._actions.on_backlog = None

    def _work(self) -> bool:
        """Work for one slice; True if there is more to do."""
        actions = self._actions
        if actions is not None:
            actions.drain()
        started_ms = self._now_ms()
        listening = bool(self._heard_ms) and self._listen()
        due, heard_ms = self._timers, self._heard_ms
        handled = 0
        while due:
            handled += STEP * len(due)
            due = [
                timer
                for timer in due
                if timer.advance(heard_ms[timer] if timer in heard_ms else timer.passed_ms(), STEP) >= STEP
            ]
            if due and (self._now_ms() - started_ms >= SLICE_MS or handled >= SLICE_ENTRIES):
                return True
        if listening:
            return True
        ahead = [timer.advance_ahead(AHEAD_ENTRIES) == AHEAD_ENTRIES for timer in self._timers]
        return any(ahead) or (actions is not None and len(actions) > 0)

    def _listen(self) -> bool:
        """Have the loop read what arrived before a deadline that is due; True until it has made enough turns."""
        if self._turns_left:
            self._turns_left -= 1
            if not self._turns_left:
                self._heard_ms.update(self._listened_ms)
        if not self._turns_left:
            if not any(_is_due(timer, heard_ms) for timer, heard_ms in self._heard_ms.items()):
                return False
            self._listened_ms = {timer: timer.passed_ms() for timer in self._heard_ms}
            self._turns_left = LISTENING_TURNS
        return True

    async def _rest(self) -> None:
        """Sleep until the earliest bucket begins, or `wake`."""
        delays_ms = [ms - timer.passed_ms() for timer in self._timers if (ms := timer.next_expiration_ms) is not None]
        self._sleep = sleep = asyncio.get_running_loop().create_future()
        alarm = None
        if delays_ms:
            # At least 1 ms, since the clock may stand still or the loop's may be ahead: never a busy loop.
            alarm = self._call_later(max(1, min(delays_ms)), self.wake)
        try:
            await sleep
        finally:
            self._sleep = None
            if alarm is not None:
                alarm.cancel()


def _is_due(timer: Timer, heard_ms: int) -> bool:
    """Return whether a timer has a deadline that is due, and is later than what was heard."""
    due_ms = timer.next_expiration_ms
    return due_ms is not None and heard_ms < due_ms <= timer.passed_ms()


def _loop_call_later(delay_ms: float, callback: Callable[[], None]) -> Alarm:
    return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)
