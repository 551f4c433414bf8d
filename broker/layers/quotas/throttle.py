"""The decision of quotas about one request: for how long its connection is muted, and why."""

from __future__ import annotations

import enum
from bisect import bisect_left
from typing import Final, NamedTuple

from purgatorio.broker.layers.quotas.entities import Limit


class QuotaKind(enum.StrEnum):
    """The kinds of quotas, with the names of Kafka's MBeans."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


class Throttle(NamedTuple):
    """A client is over a limit.

    Attributes:
        delay_ms: for how long its connection is muted.
        used: the rate, in the limit's unit; of controller mutations the tokens that are overdrawn.
    """

    kind: QuotaKind
    delay_ms: int
    limit: Limit
    used: float


def larger(one: Throttle | None, other: Throttle | None) -> Throttle | None:
    """Return the throttle that takes longer: two are not added. `other` wins a tie."""
    if one is None or other is None:
        return one or other
    return one if one.delay_ms > other.delay_ms else other


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

    def count(self, api_key: int, throttle_ms: int) -> None:
        """Count a throttle time."""
        times = self.by_api.get(api_key)
        if times is None:
            times = self.by_api[api_key] = ThrottleTime()
        times.counts[bisect_left(BUCKETS_MS, throttle_ms)] += 1
        times.total_ms += throttle_ms
