"""The machine's time, and more when its user asks for it: the clock of a cluster on real sockets that tests move."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable
from typing import Any, Final

from purgatorio import unpatched
from purgatorio.purgatory.clock import Alarm, Clock, sleep_by_alarm

STEP_MS: Final = 80
"""The longest step of `MovableClock.run_for`. A `RunningClock` leaves out gaps above 100 ms; a broker, which sends a
heartbeat each 100 ms, sends at least two in its session of 400 ms."""
TURNS_PER_STEP: Final = 3
"""Turns of the event loop after each step: a heartbeat reaches the metadata store in one, its answer comes in the
next. A fetch of a follower takes about ten, which are four steps, 320 ms of the 30 s that it may lag."""
TURNS_AT_END: Final = 20
"""Turns after the last step: a request to another broker, its answer and what comes of it take about ten."""
EARLY_MS: Final = 1.0
"""The resolution of an event loop's own clock: it may make a call this much before its time, and so may this clock."""
_FIRST_SWEEP: Final = 1_000
"""Waiting and cancelled alarms at which the clock first looks for cancelled ones."""


class _Alarm:
    """A call at a moment of a `MovableClock`; `callback` is None once it was made or cancelled."""

    __slots__ = ("_clock", "args", "callback")

    def __init__(self, clock: MovableClock, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._clock = clock
        self.callback: Callable[..., object] | None = callback
        self.args = args

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback, self.args = None, ()
            self._clock._one_less()


class MovableClock:
    """A clock that goes as the machine's does, jumps forward on request, and can be frozen.

    All that waits on it waits in one heap, with one timer of the event loop for the earliest. It belongs to one event
    loop.

    Attributes:
        now_ms, now_seconds, wall_ms: see `Clock`; plain functions, as each request calls them several times.
    """

    now_ms: Callable[[], int]
    now_seconds: Callable[[], float]
    wall_ms: Callable[[], int]

    def __init__(self) -> None:
        self._alarms: list[tuple[float, int, _Alarm]] = []
        self._numbers = itertools.count()
        self._waiting = 0  # alarms that are neither made nor cancelled
        self._sweep_at = _FIRST_SWEEP
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = math.inf
        self._frozen = False
        self._make_faces()

    def _make_faces(self) -> None:
        """Make the functions that return the time; closures, since they cost half as much as methods."""
        monotonic, monotonic_ns, wall_ns = unpatched.monotonic, unpatched.monotonic_ns, unpatched.wall_ns
        offset_ms, offset_seconds, wall_offset_ms = 0, 0.0, 0

        def now_ms() -> int:
            return monotonic_ns() // 1_000_000 + offset_ms

        def now_seconds() -> float:
            return monotonic() + offset_seconds

        def wall_ms() -> int:
            return wall_ns() // 1_000_000 + wall_offset_ms

        def move(delta_ms: int) -> None:
            nonlocal offset_ms, offset_seconds, wall_offset_ms
            offset_ms += delta_ms
            wall_offset_ms += delta_ms
            offset_seconds = offset_ms / 1000

        def freeze() -> None:
            nonlocal monotonic, monotonic_ns, wall_ns
            at_ns, wall_at_ns = unpatched.monotonic_ns(), unpatched.wall_ns()
            monotonic, monotonic_ns, wall_ns = lambda: at_ns / 1e9, lambda: at_ns, lambda: wall_at_ns

        def unfreeze() -> None:
            nonlocal monotonic, monotonic_ns, wall_ns
            stood_ms = (unpatched.monotonic_ns() - monotonic_ns()) // 1_000_000
            monotonic, monotonic_ns, wall_ns = unpatched.monotonic, unpatched.monotonic_ns, unpatched.wall_ns
            move(-stood_ms)

        def set_wall() -> None:
            nonlocal wall_offset_ms
            wall_offset_ms = 0

        self.now_ms, self.now_seconds, self.wall_ms = now_ms, now_seconds, wall_ms
        self._move, self._stop, self._go_on, self._set_wall = move, freeze, unfreeze, set_wall

    # --- waiting ---

    async def sleep(self, delay_ms: float) -> None:
        await sleep_by_alarm(self, delay_ms)

    def call_later(self, delay_ms: float, callback: Callable[..., object], *args: Any) -> Alarm:
        """Report a call that fails to the event loop, as the loop's own calls are."""
        if len(self._alarms) >= self._sweep_at:
            self._sweep()
        due_ms = self._exact_ms() + max(0.0, delay_ms)
        alarm = _Alarm(self, callback, args)
        heapq.heappush(self._alarms, (due_ms, next(self._numbers), alarm))
        self._waiting += 1
        if due_ms < self._timer_due_ms:
            self._set_timer(due_ms)
        return alarm

    def _exact_ms(self) -> float:
        return self.now_seconds() * 1000

    def _one_less(self) -> None:
        """Note that an alarm was made or cancelled; after the last one, keep nothing in the event loop."""
        self._waiting -= 1
        if not self._waiting:
            self._alarms.clear()
            self._unset_timer()

    def _sweep(self) -> None:
        """Forget cancelled alarms, which would otherwise stay until their time."""
        self._alarms = [entry for entry in self._alarms if entry[2].callback is not None]
        heapq.heapify(self._alarms)
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._alarms))

    @property
    def _next_due_ms(self) -> float:
        """When the next call is due; infinity if none waits."""
        alarms = self._alarms
        while alarms and alarms[0][2].callback is None:
            heapq.heappop(alarms)
        return alarms[0][0] if alarms else math.inf

    def _set_timer(self, due_ms: float) -> None:
        """Have the event loop ring at this time; never while the clock is frozen."""
        self._unset_timer()
        if due_ms < math.inf and not self._frozen:
            delay_seconds = max(0.0, (due_ms - self._exact_ms()) / 1000)
            self._timer = asyncio.get_running_loop().call_later(delay_seconds, self._ring)
            self._timer_due_ms = due_ms

    def _unset_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_due_ms = None, math.inf

    def _ring(self) -> None:
        """Make the calls that are due, and have the event loop ring for the next one."""
        self._timer, self._timer_due_ms = None, math.inf
        self._make_calls(self._exact_ms() + EARLY_MS)
        if self._next_due_ms < self._timer_due_ms:
            self._set_timer(self._next_due_ms)

    def _make_calls(self, until_ms: float) -> None:
        """Make the calls that wait now and are due then; one that is added meanwhile waits for a later turn."""
        due = []
        while self._next_due_ms <= until_ms:
            due.append(heapq.heappop(self._alarms)[2])
        for alarm in due:
            callback, args = alarm.callback, alarm.args
            if callback is None:
                continue  # cancelled by one of the others
            alarm.cancel()
            try:
                callback(*args)
            except Exception as error:
                context = {"message": f"a call of the clock failed: {callback!r}", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)

    # --- moving ---

    @property
    def is_frozen(self) -> bool:
        """Whether the clock stands still."""
        return self._frozen

    def freeze(self) -> None:
        """Stand still until `unfreeze`, but for `jump` and `run_for`. Both faces stand, and nothing rings."""
        if not self._frozen:
            self._frozen = True
            self._stop()
            self._unset_timer()

    def unfreeze(self) -> None:
        """Go on from where the clock stood. The wall face stays behind the machine's by the time that it stood."""
        if self._frozen:
            self._frozen = False
            self._go_on()
            self._set_timer(self._next_due_ms)

    def set_wall(self) -> None:
        """Unfreeze, and set the wall face to the machine's; the other face, which only goes forward, stays ahead.

        For brokers whose logs are gone: to those of clients that stamp real time, records would be old already.
        """
        self.unfreeze()
        self._set_wall()

    def jump(self, delta_ms: int) -> None:
        """Move both faces forward at once, and make the calls that are due then, in order, before this returns.

        No task runs in between. To let brokers keep their leases meanwhile, use `run_for`.

        Raises:
            ValueError: `delta_ms` is negative; time does not go back.
        """
        if delta_ms < 0:
            raise ValueError(f"time does not go back: {delta_ms} ms")
        self._move(delta_ms)
        self._make_calls(self._exact_ms() + EARLY_MS)
        self._set_timer(self._next_due_ms)

    async def run_for(self, delta_ms: int, *, moving: Callable[[int], object] = lambda step_ms: None) -> None:
        """Move both faces forward in steps of at most `STEP_MS`, with turns of the event loop after each.

        In these, heartbeats, fetches and answers go on as they would while the time passes.

        Args:
            moving: called before each step with its length in milliseconds.

        Raises:
            ValueError: `delta_ms` is negative; time does not go back.
        """
        if delta_ms < 0:
            raise ValueError(f"time does not go back: {delta_ms} ms")
        left_ms = delta_ms
        while left_ms > 0:
            step_ms = min(STEP_MS, left_ms)
            left_ms -= step_ms
            moving(step_ms)
            self.jump(step_ms)
            for _ in range(TURNS_PER_STEP if left_ms else TURNS_AT_END):
                await asyncio.sleep(0)


class MemberClock:
    """The monotonic clock that judges members of groups: another, without times in which no member can heartbeat."""

    def __init__(self, clock: Clock) -> None:
        self._clock_now_ms = clock.now_ms
        self._left_out_ms = 0

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return self._clock_now_ms() - self._left_out_ms

    def leave_out(self, delta_ms: int) -> None:
        """Stand still while the other clock moves so far; call it before that."""
        self._left_out_ms += delta_ms
