"""Time, passed in: every part of the broker that reads time or waits for it is given a `Clock`.

Nothing in `purgatorio.broker` reads the event loop's time or sleeps by `asyncio`; so a user who moves the clock moves
all of it, deadlines, leases, retries and upkeep together. Two things are not time and stay the loop's own: a turn
(``asyncio.sleep(0)``) and the arrival of bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final, Protocol

TURNS_PER_STEP: Final = 20
"""Turns of the event loop after each step of `ManualClock.run_for`. A request to another broker, its answer and what
comes of it take about ten."""
thread_cpu_seconds: Final = time.thread_time
"""The CPU time that the calling thread has used, in seconds: work, not time, so it is no clock's."""
_FIRST_SWEEP: Final = 1_000
"""Waiting and cancelled alarms of a `ManualClock` at which it first looks for cancelled ones."""


class Alarm(Protocol):
    """A call that a `Clock` will make."""

    def cancel(self) -> None:
        """Do not make it; does nothing if it was made or cancelled."""
        ...


class Clock(Protocol):
    """Where time comes from."""

    def now_ms(self) -> int:
        """Monotonic milliseconds from an arbitrary start: deadlines and durations."""
        ...

    def now_seconds(self) -> float:
        """The same, as fine as it can be had: durations in metrics."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC: record timestamps and retention, nothing else."""
        ...

    async def sleep(self, delay_ms: float) -> None:
        """Wait for this long, at least one turn of the event loop."""
        ...

    def call_later(self, delay_ms: float, callback: Callable[..., object], *args: Any) -> Alarm:
        """Call `callback(*args)` in a later turn of the event loop, `delay_ms` from now."""
        ...


@contextlib.asynccontextmanager
async def time_limit(clock: Clock, limit_ms: float) -> AsyncIterator[None]:
    """``async with time_limit(clock, 500):`` cancels its body after that time on that clock, and then raises.

    The time is that of `Clock.now_ms`: on a `RunningClock` the body is not cancelled for a standstill.

    Raises:
        TimeoutError: the body took longer.
    """
    due_ms = clock.now_ms() + limit_ms
    alarms: list[Alarm] = []  # the newest one
    rings: list[Callable[[], None]] = []  # `ring`: a function that refers to itself is a cycle, which `clear` ends

    def ring() -> None:
        left_ms = due_ms - clock.now_ms()
        if left_ms > 0:
            alarms[:] = [clock.call_later(left_ms, rings[0])]
        else:
            timeout.reschedule(0.0)  # a moment that has passed, on whichever clock the loop has: cancel now

    async with asyncio.timeout(None) as timeout:
        rings.append(ring)
        alarms.append(clock.call_later(limit_ms, ring))
        try:
            yield
        finally:
            alarms.pop().cancel()
            rings.clear()


async def sleep_by_alarm(clock: Clock, delay_ms: float) -> None:
    """`Clock.sleep` for clocks that have alarms of their own."""
    if delay_ms <= 0:
        await asyncio.sleep(0)
        return
    over = asyncio.get_running_loop().create_future()
    alarm = clock.call_later(delay_ms, lambda: None if over.done() else over.set_result(None))
    try:
        await over
    finally:
        alarm.cancel()


class _ManualAlarm:
    """A call at a moment of a `ManualClock`; `call` is None once it was made or cancelled."""

    __slots__ = ("call", "due_ms")

    def __init__(self, due_ms: float, call: Callable[[], object]) -> None:
        self.due_ms = due_ms
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None


class ManualClock:
    """A clock that stands still until it is moved: both its faces, and all that waits for it, move together.

    Args:
        now_ms: where the monotonic face starts.
        wall_ms: where the wall face starts.
    """

    def __init__(self, now_ms: int = 0, wall_ms: int = 1_700_000_000_000) -> None:
        self._now_ms: float = now_ms
        self._wall_offset_ms = wall_ms - now_ms
        self._alarms: list[tuple[float, int, _ManualAlarm]] = []
        self._numbers = itertools.count()
        self._sweep_at = _FIRST_SWEEP

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return int(self._now_ms)

    def now_seconds(self) -> float:
        """Monotonic seconds."""
        return self._now_ms / 1000

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return int(self._now_ms) + self._wall_offset_ms

    async def sleep(self, delay_ms: float) -> None:
        """Wait until the clock has been moved so far."""
        await sleep_by_alarm(self, delay_ms)

    def call_later(self, delay_ms: float, callback: Callable[..., object], *args: Any) -> Alarm:
        """Have `advance_ms` or `run_for` call a function."""
        if len(self._alarms) >= self._sweep_at:
            self._sweep()
        alarm = _ManualAlarm(self._now_ms + max(0.0, delay_ms), partial(callback, *args))
        heapq.heappush(self._alarms, (alarm.due_ms, next(self._numbers), alarm))
        return alarm

    def _sweep(self) -> None:
        """Forget cancelled alarms, which would otherwise stay until their time: a clock may stand still for long."""
        self._alarms = [entry for entry in self._alarms if entry[2].call is not None]
        heapq.heapify(self._alarms)
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._alarms))

    @property
    def next_alarm_ms(self) -> float | None:
        """When the next call is due, in the milliseconds of `now_ms`; None if none is waiting."""
        while self._alarms and self._alarms[0][2].call is None:
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None

    def advance_ms(self, delta_ms: float) -> None:
        """Move forward at once; each call that falls due is made at its moment, in order, before this returns.

        No task runs in between. To let brokers keep their leases meanwhile, use `run_for`.

        Raises:
            ValueError: if `delta_ms` is negative; time does not go back.
        """
        if delta_ms < 0:
            raise ValueError(f"time does not go back: {delta_ms} ms")
        end_ms = self._now_ms + delta_ms
        while (due_ms := self.next_alarm_ms) is not None and due_ms <= end_ms:
            alarm = heapq.heappop(self._alarms)[2]
            self._now_ms = max(self._now_ms, due_ms)
            call, alarm.call = alarm.call, None
            if call is not None:
                call()
        self._now_ms = end_ms

    async def run_for(self, delta_ms: float, *, turns: int = TURNS_PER_STEP) -> None:
        """Move forward as time passes on a machine that is fast enough: from one call to the next.

        After each the event loop makes some turns, in which tasks go on, messages arrive, and new waits begin.

        Args:
            turns: turns of the event loop after each step.

        Raises:
            ValueError: if `delta_ms` is negative; time does not go back.
        """
        if delta_ms < 0:
            raise ValueError(f"time does not go back: {delta_ms} ms")
        end_ms = self._now_ms + delta_ms
        while True:
            for _ in range(turns):
                await asyncio.sleep(0)
            due_ms = self.next_alarm_ms
            if due_ms is None or due_ms > end_ms:
                break
            self.advance_ms(max(0.0, due_ms - self._now_ms))
        self.advance_ms(end_ms - self._now_ms)
        for _ in range(turns):
            await asyncio.sleep(0)
