"""Time, passed in: every part of the broker that needs it is given a `Clock`, which tests and users can move."""

from __future__ import annotations

import time
from typing import Protocol


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


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def now_seconds(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved: both its faces move together.

    Args:
        now_ms: where the monotonic face starts.
        wall_ms: where the wall face starts.
    """

    def __init__(self, now_ms: int = 0, wall_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._wall_ms = wall_ms

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return self._now_ms

    def now_seconds(self) -> float:
        """Monotonic seconds."""
        return self._now_ms / 1000

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return self._wall_ms

    def advance_ms(self, delta_ms: int) -> None:
        """Move both faces forward.

        Raises:
            ValueError: if `delta_ms` is negative; time does not go back.
        """
        if delta_ms < 0:
            raise ValueError(f"time does not go back: {delta_ms} ms")
        self._now_ms += delta_ms
        self._wall_ms += delta_ms
