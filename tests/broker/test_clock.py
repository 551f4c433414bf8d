"""Time that is passed in."""

from __future__ import annotations

import pytest

from purgatorio.broker.clock import ManualClock, SystemClock


def test_the_system_clock_is_monotonic_and_its_two_resolutions_agree() -> None:
    clock = SystemClock()
    before_ms, seconds, after_ms = clock.now_ms(), clock.now_seconds(), clock.now_ms()
    assert before_ms <= seconds * 1000 <= after_ms + 1


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(now_ms=5, wall_ms=100)
    clock.advance_ms(7)
    assert (clock.now_ms(), clock.now_seconds(), clock.wall_ms()) == (12, 0.012, 107)


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        ManualClock().advance_ms(-1)
