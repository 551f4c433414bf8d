"""A timer on a timing wheel: it runs the entries that are due, at most as many per call as the caller allows."""

# compiled: docs/compiled.md

from __future__ import annotations

import logging
import operator
import sys
from collections.abc import Callable
from typing import Any, Final, SupportsIndex

from .timing_wheel import LevelSnapshot, TimerEntry, TimingWheel

_log = logging.getLogger(__name__)

MAX_DELAY_MS: Final = 2**62
"""The longest delay. A clock that is below this keeps the deadline below `MAX_DEADLINE_MS` of the wheel."""
MOVES_PER_RUN = 16
"""Entries that can be moved to a finer level of the wheel in about the time that one takes to run."""


def whole_ms(delay_ms: SupportsIndex) -> int:
    """Check a delay, and return it as an int. Negative delays are allowed; their deadline has passed already.

    Raises:
        TypeError: `delay_ms` is no integer (a float, also a whole one or NaN), or is a bool.
        ValueError: `delay_ms` is longer than `MAX_DELAY_MS`.
    """
    try:
        checked_ms = operator.index(delay_ms)
    except TypeError:
        raise TypeError(f"delay_ms must be an int, in milliseconds, not {delay_ms!r}") from None
    if isinstance(delay_ms, bool):
        raise TypeError(f"delay_ms must be an int, in milliseconds, not {delay_ms!r}")
    if checked_ms > MAX_DELAY_MS:
        raise ValueError(f"delay_ms is longer than the longest delay, {MAX_DELAY_MS} ms: {checked_ms}")
    return checked_ms


class Timer:
    """Deadlines on an injected clock. It has no thread and no task: its owner calls `advance`, as `Reaper` does.

    The timer never runs an entry before its deadline on the injected clock. When it is advanced to the deadline plus
    one tick, the entry has run. Entries due at the same tick run in the order in which they were added, unless they
    came through different levels of the wheel.

    Args:
        now_ms: the clock: monotonic, whole milliseconds. Not the wall clock, which jumps.
        passed_ms: the same clock, for one that is finer than milliseconds: `now_ms` rounds it up, from which deadlines
            are counted, and this rounds it down. So none is early by a part of a millisecond. The default is `now_ms`.
        tick_ms: the resolution.
        wheel_size: buckets per level of the wheel.

    Raises:
        TypeError: `now_ms` returns something else than an int. (`time.monotonic` returns seconds, and a float.)
    """

    __slots__ = ("_tick_ms", "_wheel", "now_ms", "passed_ms")

    now_ms: Callable[[], int]
    """The clock that was injected, from which deadlines are counted."""
    passed_ms: Callable[[], int]
    """Returns the time up to which deadlines have passed, which `advance` should be given."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        *,
        passed_ms: Callable[[], int] | None = None,
        tick_ms: int = 1,
        wheel_size: int = 20,
    ) -> None:
        start_ms = now_ms()
        if not isinstance(start_ms, int):
            raise TypeError(f"now_ms must return an int, in milliseconds, not {start_ms!r}")
        self.now_ms = now_ms
        self.passed_ms = now_ms if passed_ms is None else passed_ms
        self._tick_ms = tick_ms
        self._wheel = TimingWheel(start_ms, tick_ms=tick_ms, wheel_size=wheel_size)

    @property
    def size(self) -> int:
        """The exact number of entries that wait, without those that were cancelled or have run."""
        return len(self._wheel)

    @property
    def next_expiration_ms(self) -> int | None:
        """The time at which entries must next be run, or moved to a finer level; None if no entry waits."""
        return self._wheel.next_expiration_ms()

    @property
    def on_earlier(self) -> Callable[[], None] | None:
        """Called when `next_expiration_ms` has become earlier, for an owner that sleeps until then."""
        return self._wheel.on_earlier

    @on_earlier.setter
    def on_earlier(self, callback: Callable[[], None] | None) -> None:
        self._wheel.on_earlier = callback

    def add(self, entry: TimerEntry) -> None:
        """Put an entry in the wheel until its `deadline_ms`. If `advance` has passed that, run it before this returns.

        An entry that already waits is moved to its (new) deadline.

        Raises:
            TypeError: the deadline is not an int; the entry is not in the wheel then.
            ValueError: the deadline is later than `MAX_DEADLINE_MS`; the entry is not in the wheel then.
        """
        if entry.bucket is not None:
            entry.cancel()
        tick_ms = self._tick_ms
        if tick_ms != 1:
            entry.deadline_ms = -(-entry.deadline_ms // tick_ms) * tick_ms
        if not self._wheel.add(entry):
            self._run(entry)

    def call_later(self, delay_ms: int, callback: Callable[..., object], *args: Any) -> TimerEntry:
        """Call `callback(*args)` in `delay_ms`; at 0 or below, before this returns.

        Returns:
            The entry, whose `cancel` prevents the call.

        Raises:
            TypeError: `delay_ms` is no integer, or a bool.
            ValueError: `delay_ms` is longer than `MAX_DELAY_MS`.
        """
        entry = _Call(self.now_ms() + whole_ms(delay_ms), callback, args)
        if delay_ms > 0:
            self.add(entry)
        else:
            self.run_now(entry)
        return entry

    def run_now(self, entry: TimerEntry) -> None:
        """Run an entry before this returns, whatever its deadline; if it waits, it waits no more."""
        if entry.bucket is not None:
            entry.cancel()
        self._run(entry)

    def advance(self, now_ms: int, limit: int = sys.maxsize) -> int:
        """Run the entries that are due at `now_ms`, and handle at most `limit` entries in total.

        An entry that is run counts as its weight, mostly one; the last one may exceed the limit. `MOVES_PER_RUN`
        entries that are moved to a finer level also count as one.
        An entry may call this when it runs: what is due then runs before the call returns.

        Returns:
            The number of entries handled. If it is less than `limit`, no entry is due any more.
        """
        wheel = self._wheel
        handled = 0
        while handled < limit:
            bucket = wheel.due_bucket(now_ms)
            if bucket is None:
                break
            clock_ms = wheel.current_ms
            # An entry that advances the timer moves the clock: the bucket's turn is over, and it may be in use again.
            while bucket.count and handled < limit and wheel.current_ms == clock_ms:
                entry = bucket.next
                if entry.deadline_ms > clock_ms:
                    moved = wheel.spill(bucket, (limit - handled) * MOVES_PER_RUN)
                    handled += -(-moved // MOVES_PER_RUN)
                else:
                    handled += entry.weight()
                    entry.cancel()
                    self._run(entry)
        return handled

    def advance_ahead(self, limit: int) -> int:
        """Move up to `limit` entries to finer levels ahead of time, so that they are not late when their time comes.

        Call it while no entry is due.

        Returns:
            The number of entries moved. If it is less than `limit`, there are no more to move now.
        """
        return self._wheel.spill_ahead(limit)

    def snapshot(self) -> list[LevelSnapshot]:
        """The wheel, for a page: every level with its tick, its clock, and the count of each non-empty bucket."""
        return self._wheel.snapshot()

    def _run(self, entry: TimerEntry) -> None:
        try:
            entry.run()
        except Exception:  # an entry is the user's code; a failure must not keep the others from their deadlines
            _log.exception("a timer entry failed: %r", entry)


class _Call(TimerEntry):
    """A function call at a deadline."""

    __slots__ = ("_args", "_callback")

    def __init__(self, deadline_ms: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        super().__init__(deadline_ms)
        self._callback = callback
        self._args = args

    def run(self) -> None:
        self._callback(*self._args)
