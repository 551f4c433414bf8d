"""Tests of limits of bytes per second."""

from __future__ import annotations

from purgatorio.broker.time.byte_quota import ByteQuota
from purgatorio.purgatory.clock import ManualClock


def test_a_limit_is_exceeded_until_the_samples_are_old() -> None:
    clock = ManualClock()
    quota = ByteQuota(clock)
    quota.record(1_000)
    assert not quota.is_over(), "there is no limit"
    quota.limit = 100
    assert (quota.is_over(), quota.per_second() > 100) == (True, True)
    clock.advance_ms(20_000)
    assert (quota.is_over(), quota.per_second()) == (False, 0)


def test_no_bytes_a_second_stop() -> None:
    quota = ByteQuota(ManualClock())
    quota.limit = 0
    assert quota.is_over()
