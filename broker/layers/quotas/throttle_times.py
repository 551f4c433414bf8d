"""The throttle times that one broker told its clients, by API: Kafka's request metric ThrottleTimeMs."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

BUCKETS_MS: Final = (1, 10, 100, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000)
"""The upper bounds of the histogram; the last bucket, beyond them, has none."""


class ThrottleTime:
    """The throttle times of one API.

    Attributes:
        counts: by bucket.
    """

    __slots__ = ("counts", "total_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_MS) + 1)
        self.total_ms = 0


class ThrottleTimes:
    """The throttle times of all APIs.

    Attributes:
        by_api: by API key; only APIs that were throttled.
    """

    __slots__ = ("by_api",)

    def __init__(self) -> None:
        self.by_api: dict[int, ThrottleTime] = {}

    def told(self, api_key: int, throttle_ms: int) -> None:
        """Count a throttle time."""
        times = self.by_api.get(api_key)
        if times is None:
            times = self.by_api[api_key] = ThrottleTime()
        times.counts[bisect_left(BUCKETS_MS, throttle_ms)] += 1
        times.total_ms += throttle_ms
