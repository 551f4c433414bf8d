"""The lag of the event loop: how late it serves due work, and so how long an arriving request may wait.

Event loops have no hook for the length of a turn, so a timer measures how late it fires. Its interval is
5 ms while the loop is busy, so that it sees every hold that is much longer; 20 ms while it is idle, as each firing then
wakes the process: that takes 0.2 % of a core. A firing of a busy loop takes 2 µs, so 0.04 %.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from purgatorio.purgatory.clock import Alarm, Clock, thread_cpu_seconds

BUCKETS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Upper bounds, inclusive, of the histogram; one more bucket counts longer lags."""
SLOT_MS: Final = 5
"""The time that each entry of the histogram stands for."""
IDLE_INTERVAL_MS: Final = 20
BUSY_SHARE: Final = 0.1
"""The share of the time that the loop's thread computes, above which the loop is busy."""
RESOLUTION_MS: Final = 1
"""A timer is that late without any hold: uvloop counts in whole milliseconds."""
LONGEST_MS: Final = 10_000
"""A longer lag counts as this one: then the process was suspended, and no client waited for it."""


class LoopLag:
    """A histogram of the lag of one event loop.

    It has an entry for each 5 ms: the lag that a request would have had that arrived then. A hold of 100 ms makes
    twenty entries, 100, 95, 90 ms and so on: percentiles are those of arrivals at any time, and not of firings.

    Args:
        clock: the machine's; a clock that a user moves has no lag.
        cpu_seconds: the CPU time of the loop's thread.

    Attributes:
        buckets: entries per bucket of `BUCKETS_MS`; the last bucket is for all longer lags.
        total_ms: the sum of the lags.
        longest_ms: the longest lag since the start: the longest hold, less the interval at most.
    """

    def __init__(self, clock: Clock, cpu_seconds: Callable[[], float] = thread_cpu_seconds) -> None:
        self._clock = clock
        self._cpu_seconds = cpu_seconds
        self._alarm: Alarm | None = None
        self._interval_ms = SLOT_MS
        self._due_seconds = 0.0
        self._used_seconds = 0.0
        self.buckets = [0] * (len(BUCKETS_MS) + 1)
        self.total_ms = 0.0
        self.longest_ms = 0.0

    def start(self) -> None:
        """Measure the running event loop until `stop`."""
        self._used_seconds = self._cpu_seconds()
        self._set_alarm(self._clock.now_seconds())

    def stop(self) -> None:
        """Measure no more; the histogram stays."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _set_alarm(self, now_seconds: float) -> None:
        self._due_seconds = now_seconds + self._interval_ms / 1000
        self._alarm = self._clock.call_later(self._interval_ms, self._fire)

    def _fire(self) -> None:
        now_seconds, used_seconds = self._clock.now_seconds(), self._cpu_seconds()
        self._count((now_seconds - self._due_seconds) * 1000)
        is_busy = used_seconds - self._used_seconds > BUSY_SHARE * self._interval_ms / 1000
        self._used_seconds = used_seconds
        self._interval_ms = SLOT_MS if is_busy else IDLE_INTERVAL_MS
        self._set_alarm(now_seconds)

    def _count(self, late_ms: float) -> None:
        """Count the interval, in which nothing was late, and the time by which it was exceeded."""
        self.buckets[0] += self._interval_ms // SLOT_MS
        if late_ms <= RESOLUTION_MS:
            return
        late_ms = min(late_ms, LONGEST_MS)
        self.longest_ms = max(self.longest_ms, late_ms)
        while late_ms > 0:
            self.buckets[bisect_left(BUCKETS_MS, late_ms)] += 1
            self.total_ms += late_ms
            late_ms -= SLOT_MS
