"""Tests of replication throttles."""

from __future__ import annotations

import pytest

from purgatorio.broker.replica.replication_throttle import ReplicationThrottle
from purgatorio.purgatory.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000)


@pytest.fixture
def throttle(clock: ManualClock) -> ReplicationThrottle:
    throttle = ReplicationThrottle(2, clock)
    throttle.limit = 1_000
    return throttle


def test_a_broker_keeps_its_own_entries(throttle: ReplicationThrottle) -> None:
    listed = ("0:1", "0:2", "3:1")
    assert [throttle.is_about(listed, partition) for partition in (0, 1, 3)] == [True, False, False]
    assert throttle.is_about(("*",), 7)
    assert not throttle.is_about((), 0)


def test_a_list_without_a_rate_does_nothing(throttle: ReplicationThrottle) -> None:
    throttle.limit = None
    throttle.record(10_000)
    assert not throttle.is_about(("*",), 0)
    assert not throttle.is_over()


def test_the_rate_is_over_above_the_limit_and_falls_with_time(
    throttle: ReplicationThrottle, clock: ManualClock
) -> None:
    throttle.record(1_000)
    assert not throttle.is_over()
    throttle.record(2_000)
    assert throttle.is_over()
    assert throttle.per_second() == 3_000
    clock.advance_ms(2_999)
    assert throttle.is_over()
    clock.advance_ms(1)
    assert not throttle.is_over()


def test_a_rate_of_zero_stops(throttle: ReplicationThrottle) -> None:
    throttle.limit = 0
    assert throttle.is_over()
