"""Tests of rates and of the token bucket."""

from __future__ import annotations

import pytest

from purgatorio.broker.time.rates import MAX_THROTTLE_MS, Rate, RateWindow, SimpleRate, TokenBucket

MB = 1_000_000
WINDOW = RateWindow()


@pytest.mark.parametrize(
    ("records", "throttle_ms"),
    [
        ([(0, 10 * MB)], 0),
        ([(0, 12 * MB)], 2_000),
        ([(0, 6 * MB), (500, 6 * MB)], 1_500),
        ([(0, 12 * MB), (2_000, MB)], 3_000),
        ([(0, 12 * MB), (11_000, 10 * MB)], 0),
        ([(0, 12 * MB), (10_999, 10 * MB)], 11_001),
    ],
)
def test_throttle_times_are_those_of_kafkas_formula(records: list[tuple[int, int]], throttle_ms: int) -> None:
    """At 1 MB/s; padding does not shrink, and a sample leaves as a whole."""
    rate = Rate(WINDOW)
    for at_ms, amount in records:
        rate.record(amount, at_ms)
    assert rate.throttle_ms(MB, records[-1][0]) == throttle_ms


def test_ten_seconds_within_the_limit_count_when_more_comes() -> None:
    """The case of Kafka's own test: 500 B/s."""
    rate = Rate(WINDOW)
    for second in range(10):
        rate.record(400, second * 1_000)
        assert rate.throttle_ms(500, second * 1_000) == 0
    rate.record(2_300, 10_500)
    assert rate.per_second(10_500) == 600
    assert rate.throttle_ms(500, 10_500) == 2_100


def test_an_amount_can_be_taken_back() -> None:
    rate = Rate(WINDOW)
    rate.record(12 * MB, 0)
    rate.record(-12 * MB, 0)
    assert rate.total(0) == 0
    assert rate.throttle_ms(MB, 0) == 0


def test_an_unused_rate_is_zero() -> None:
    assert Rate(WINDOW).per_second(5_000) == 0
    assert SimpleRate(WINDOW).per_second(5_000) == 0


def test_a_throttle_time_fits_into_an_answer() -> None:
    rate = Rate(WINDOW)
    rate.record(2**63, 0)
    assert rate.throttle_ms(1e-300, 0) == MAX_THROTTLE_MS


def test_a_rate_keeps_few_samples() -> None:
    rate = Rate(WINDOW)
    for at_ms in range(0, 60_000, 10):
        rate.record(1, at_ms)
        assert len(rate._samples) <= WINDOW.samples + 1


def test_windows_may_be_single() -> None:
    """With one sample that counts, a rate is over that sample."""
    rate = Rate(RateWindow(samples=1, sample_ms=2_000))
    rate.record(4_000, 0)
    assert rate.per_second(0) == 2_000


def test_a_replication_rate_is_not_padded() -> None:
    rate = SimpleRate(WINDOW)
    rate.record(3 * MB, 0)
    assert rate.per_second(0) == 3 * MB
    assert rate.per_second(500) == 3 * MB
    assert rate.per_second(3_000) == MB
    assert rate.per_second(11_000) == 0


def test_a_bucket_starts_full_and_may_be_overdrawn() -> None:
    bucket = TokenBucket(WINDOW, 10, 0)
    assert bucket.tokens(10, 0) == 110
    bucket.take(150, 10, 0)
    assert bucket.throttle_ms(10, 0) == 4_000
    assert bucket.throttle_ms(10, 3_000) == 1_000
    assert bucket.throttle_ms(10, 4_000) == 0


def test_a_bucket_never_holds_more_than_a_window() -> None:
    bucket = TokenBucket(WINDOW, 10, 0)
    assert bucket.tokens(10, 100_000) == 110
    bucket.take(-5, 10, 100_000)
    assert bucket.tokens(10, 100_000) == 110


def test_a_live_bucket_follows_a_changed_limit() -> None:
    """KAFKA-10458."""
    bucket = TokenBucket(WINDOW, 10, 0)
    assert bucket.tokens(1, 0) == 11
    bucket.take(12, 1, 0)
    assert bucket.throttle_ms(1, 0) == 1_000
    assert bucket.throttle_ms(4, 0) == 250
