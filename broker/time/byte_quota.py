"""A limit of bytes per second, as Kafka judges those of replication and of the tier: by a rate over samples."""

from __future__ import annotations

from purgatorio.broker.time.rates import RateWindow, SimpleRate
from purgatorio.purgatory.clock import Clock


class ByteQuota:
    """One limit, and what was used of it lately.

    Args:
        clock: times the rate.
        window: over which the rate is measured.

    Attributes:
        limit: bytes per second; 0 stops, None is no limit.
    """

    def __init__(self, clock: Clock, window: RateWindow | None = None) -> None:
        self._clock = clock
        self._rate = SimpleRate(window or RateWindow())
        self.limit: int | None = None

    def is_over(self) -> bool:
        """Return whether the limit is exceeded; equal is not."""
        limit = self.limit
        return limit is not None and (limit == 0 or self.per_second() > limit)

    def record(self, size_bytes: int) -> None:
        """Count bytes."""
        self._rate.record(size_bytes, self._clock.now_ms())

    def per_second(self) -> float:
        """Return the rate."""
        return self._rate.per_second(self._clock.now_ms())
