"""A timer on a timing wheel: it runs what is due, and no more of it at a time than it is told to."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from purgatorio.broker.purgatory.timing_wheel import LevelSnapshot, TimerEntry, TimingWheel

_log = logging.getLogger(__name__)

MOVES_PER_RUN = 16
"""Entries that are moved to a finer wheel in about the time in which one is run."""


class Timer:
    """Deadlines on an injected clock. It has no thread and no task: somebody calls `advance` (see `Reaper`).

    An entry is run at its deadline or later, never earlier, on the clock that is injected; once the timer is advanced
    past the deadline, at most one tick late. Entries due at the same tick run in the order in which they were added,
    unless they came through different levels of the wheel.

    Args:
        now_ms: the clock, monotonic. Not the wall clock, which jumps.
        tick_ms: the resolution.
        wheel_size: buckets per level of the wheel.
    """

    __slots__ = ("_tick_ms", "_wheel", "now_ms")

    now_ms: Callable[[], int]
    """The clock that was injected."""

    def __init__(self, now_ms: Callable[[], int], *, tick_ms: int = 1, wheel_size: int = 20) -> None:
        self.now_ms = now_ms
        self._tick_ms = tick_ms
        self._wheel = TimingWheel(now_ms(), tick_ms=tick_ms, wheel_size=wheel_size)

    @property
    def size(self) -> int:
        """How many entries wait, exactly: what is cancelled or has run is not counted."""
        return len(self._wheel)

    @property
    def next_expiration_ms(self) -> int | None:
        """When there is something to do next (run entries, or move them to a finer wheel); None if nothing waits."""
        return self._wheel.next_expiration_ms()

    @property
    def on_earlier(self) -> Callable[[], None] | None:
        """Called when `next_expiration_ms` has become earlier; set by whoever sleeps until then."""
        return self._wheel.on_earlier

    @on_earlier.setter
    def on_earlier(self, callback: Callable[[], None] | None) -> None:
        self._wheel.on_earlier = callback

    def add(self, entry: TimerEntry) -> None:
        """Wait for the entry's `deadline_ms`. One whose deadline has passed is run at once, before this returns.

        An entry that already waits is moved to its (new) deadline.
        """
        if entry.bucket is not None:
            entry.cancel()
        tick_ms = self._tick_ms
        if tick_ms != 1:
            entry.deadline_ms = -(-entry.deadline_ms // tick_ms) * tick_ms
        if not self._wheel.add(entry):
            self._run(entry)

    def call_later(self, delay_ms: int, callback: Callable[..., object], *args: Any) -> TimerEntry:
        """Call `callback(*args)` in `delay_ms`, at once if that is not positive. The entry can be cancelled."""
        entry = _Call(self.now_ms() + delay_ms, callback, args)
        self.add(entry)
        return entry

    def advance(self, now_ms: int, limit: int = sys.maxsize) -> int:
        """Run what is due at `now_ms`, handling at most `limit` entries.

        To handle an entry is to run it; to move `MOVES_PER_RUN` entries to a finer wheel on their way counts as much.

        Returns:
            How many entries were handled. Fewer than `limit` means that nothing due is left.
        """
        wheel = self._wheel
        handled = 0
        while handled < limit:
            bucket = wheel.due_bucket(now_ms)
            if bucket is None:
                break
            while bucket.count and handled < limit:
                entry = bucket.next
                if entry.deadline_ms > wheel.current_ms:
                    moved = wheel.spill(bucket, (limit - handled) * MOVES_PER_RUN)
                    handled += -(-moved // MOVES_PER_RUN)
                else:
                    entry.cancel()
                    handled += 1
                    self._run(entry)
        return handled

    def advance_ahead(self, limit: int) -> int:
        """Move up to `limit` entries to finer wheels before it is their time, so that none of them is late for it.

        For when nothing is due.

        Returns:
            How many were moved. Fewer than `limit` means that there is nothing more to prepare now.
        """
        return self._wheel.spill_ahead(limit)

    def snapshot(self) -> list[LevelSnapshot]:
        """The wheel for a page: every level with its tick, clock, and the count of each bucket that is not empty."""
        return self._wheel.snapshot()

    def _run(self, entry: TimerEntry) -> None:
        try:
            entry.run()
        except Exception:  # whatever an entry does wrong, the others must get their deadline
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
