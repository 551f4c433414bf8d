"""How much was used lately: the rates and the token bucket by which Kafka judges quotas. Knows no clock.

A rate is the sum of samples over a window of time. A sample opens at its first record, takes what comes within
`sample_ms`, and leaves as a whole `samples` × `sample_ms` after its last record.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

MAX_THROTTLE_MS: Final = 2**31 - 1
"""The longest throttle time that fits into an answer; Kafka bounds those of bytes by nothing else."""


class RateWindow(NamedTuple):
    """Over which time rates are measured.

    Attributes:
        samples: the samples that count (quota.window.num).
        sample_ms: how long each takes records (quota.window.size.seconds).
    """

    samples: int = 11
    sample_ms: int = 1_000

    @property
    def expiry_ms(self) -> int:
        """How long after its last record a sample counts."""
        return self.samples * self.sample_ms

    @property
    def full_ms(self) -> int:
        """The shortest time over which a `Rate` divides; what a fetch may take at most at a time (KAFKA-9677)."""
        return max(1, self.samples - 1) * self.sample_ms


class _Sample:
    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.total = 0.0


class _Samples:
    """The samples of one rate. There are at most `samples` + 1: each begins after the one before is full.

    Attributes:
        last_ms: the time of the last record.
    """

    __slots__ = ("_samples", "_window", "last_ms")

    def __init__(self, window: RateWindow) -> None:
        self._window = window
        self._samples: deque[_Sample] = deque()
        self.last_ms = 0

    def record(self, amount: float, now_ms: int) -> None:
        """Count an amount; a negative one takes back what was counted."""
        samples = self._samples
        self._purge(now_ms)
        if not samples or now_ms - samples[-1].start_ms >= self._window.sample_ms:
            samples.append(_Sample(now_ms))
        sample = samples[-1]
        sample.total += amount
        sample.last_ms = self.last_ms = now_ms

    def total(self, now_ms: int) -> float:
        """Return the sum of the samples that count."""
        self._purge(now_ms)
        return sum(sample.total for sample in self._samples)

    def per_second(self, now_ms: int) -> float:
        """Return the rate."""
        total = self.total(now_ms)
        return total / self.window_ms(now_ms) * 1_000

    def window_ms(self, now_ms: int) -> int:
        """Return the time over which the rate is measured now; after `total` at the same time."""
        raise NotImplementedError

    def _elapsed_ms(self, now_ms: int) -> int:
        return now_ms - self._samples[0].start_ms if self._samples else 0

    def _purge(self, now_ms: int) -> None:
        samples, expiry_ms = self._samples, self._window.expiry_ms
        while samples and now_ms - samples[0].last_ms >= expiry_ms:
            samples.popleft()


class Rate(_Samples):
    """The rate of client quotas: early on it counts windows as full that have not been yet (Kafka: `Rate`)."""

    __slots__ = ()

    def window_ms(self, now_ms: int) -> int:
        """Return the time since the oldest sample's start, plus a whole window for each that is still missing."""
        elapsed_ms = self._elapsed_ms(now_ms)
        window = self._window
        missing = window.samples - 1 - elapsed_ms // window.sample_ms
        if missing > 0:
            elapsed_ms += missing * window.sample_ms
        return elapsed_ms or window.sample_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return for how long to wait until the rate would be the limit if nothing left the window; 0 within it."""
        rate = self.per_second(now_ms)
        if rate <= limit:
            return 0
        return _whole_ms((rate - limit) / limit * self.window_ms(now_ms))


class SimpleRate(_Samples):
    """The rate of replication quotas: over the time since the oldest sample's start (Kafka: `SimpleRate`)."""

    __slots__ = ()

    def window_ms(self, now_ms: int) -> int:
        """Return the time since the oldest sample's start, but at least that of one sample."""
        return max(self._elapsed_ms(now_ms), self._window.sample_ms)


class TokenBucket:
    """A bucket that refills steadily, and may be overdrawn (KIP-599). It starts full.

    Attributes:
        last_ms: the time of the last record.
    """

    __slots__ = ("_rate", "_refilled_ms", "_tokens", "_window", "last_ms")

    def __init__(self, window: RateWindow, limit: float, now_ms: int) -> None:
        self._window = window
        self._tokens = self._capacity(limit)
        self._rate = Rate(window)
        self._refilled_ms = self.last_ms = now_ms

    def tokens(self, limit: float, now_ms: int) -> float:
        """Return what is in the bucket, negative if it is overdrawn.

        Args:
            limit: the tokens that it gets per second; it holds those of a whole window.
        """
        refill = limit * (now_ms - self._refilled_ms) / 1_000
        self._tokens = min(self._capacity(limit), self._tokens + refill)
        self._refilled_ms = now_ms
        return self._tokens

    def take(self, amount: float, limit: float, now_ms: int) -> None:
        """Take tokens, even if there are fewer; a negative amount puts some back."""
        self._tokens = min(self._capacity(limit), self.tokens(limit, now_ms) - amount)
        self._rate.record(amount, now_ms)
        self.last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        """Return the rate at which tokens are taken."""
        return self._rate.per_second(now_ms)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return for how long the bucket is overdrawn; 0 if it is not."""
        tokens = self.tokens(limit, now_ms)
        return 0 if tokens >= 0 else _whole_ms(-tokens / limit * 1_000)

    def _capacity(self, limit: float) -> float:
        return self._window.expiry_ms / 1_000 * limit


def _whole_ms(duration_ms: float) -> int:
    """Round as Java's `Math.round` does; at most the largest throttle time of an answer."""
    return MAX_THROTTLE_MS if duration_ms >= MAX_THROTTLE_MS else int(duration_ms + 0.5)


class Average:
    """The average of the values of a window of time, such as of throttle times; None without any."""

    __slots__ = ("_counts", "_sums")

    def __init__(self, window: RateWindow) -> None:
        self._sums = SimpleRate(window)
        self._counts = SimpleRate(window)

    def record(self, value: float, now_ms: int) -> None:
        """Count a value."""
        self._sums.record(value, now_ms)
        self._counts.record(1, now_ms)

    def value(self, now_ms: int) -> float | None:
        """Return the average of the values in the window; None without any."""
        count = self._counts.total(now_ms)
        return self._sums.total(now_ms) / count if count else None
