"""Tests of the measure of the event loop's lag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from purgatorio.broker.metrics.loop_lag import (
    BUCKETS_MS,
    IDLE_INTERVAL_MS,
    LONGEST_MS,
    SLOT_MS,
    LoopLag,
)
from purgatorio.purgatory.clock import Alarm, ManualClock


class HeldLoop(ManualClock):
    """A loop that serves one timer, late on demand, and the CPU time of its thread."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[float, Callable[..., object]]] = []
        self.used_seconds = 0.0

    def call_later(self, delay_ms: float, callback: Callable[..., object], *args: Any) -> Alarm:
        self.waiting.append((delay_ms, callback))
        return super().call_later(delay_ms, lambda: None)

    def turn(self, *, late_ms: float = 0, used_ms: float = 0) -> float:
        """Serve the timer so much after it was due; returns the interval for which it had been set."""
        ((delay_ms, callback),) = self.waiting
        self.waiting.clear()
        self.advance_ms(delay_ms + late_ms)
        self.used_seconds += used_ms / 1000
        callback()
        return delay_ms


@pytest.fixture
def loop() -> HeldLoop:
    return HeldLoop()


@pytest.fixture
def lag(loop: HeldLoop) -> LoopLag:
    lag = LoopLag(loop, lambda: loop.used_seconds)
    lag.start()
    return lag


def entries(lag: LoopLag) -> dict[float, int]:
    bounds = (*BUCKETS_MS, float("inf"))
    return {bound: count for bound, count in zip(bounds, lag.buckets, strict=True) if count}


def test_a_loop_in_order_has_an_entry_without_lag_for_each_slot(loop: HeldLoop, lag: LoopLag) -> None:
    assert [loop.turn() for _ in range(3)] == [SLOT_MS, IDLE_INTERVAL_MS, IDLE_INTERVAL_MS]
    assert entries(lag) == {1: 1 + 2 * IDLE_INTERVAL_MS // SLOT_MS}
    assert (lag.total_ms, lag.longest_ms) == (0, 0)


def test_a_busy_loop_is_looked_at_more_often(loop: HeldLoop, lag: LoopLag) -> None:
    loop.turn()
    loop.turn(used_ms=3)
    assert loop.turn() == SLOT_MS
    assert loop.turn() == IDLE_INTERVAL_MS


def test_a_hold_counts_for_each_moment_at_which_a_request_could_have_come(loop: HeldLoop, lag: LoopLag) -> None:
    loop.turn(late_ms=22)  # as requests that came 0, 5, 10, 15 and 20 ms after the hold began
    assert entries(lag) == {1: 1, 2: 1, 10: 1, 20: 2, 50: 1}
    assert lag.total_ms == 22 + 17 + 12 + 7 + 2
    assert lag.longest_ms == 22


def test_a_suspended_process_counts_as_the_longest_lag(loop: HeldLoop, lag: LoopLag) -> None:
    loop.turn(late_ms=3_600_000)
    assert lag.longest_ms == LONGEST_MS
    assert sum(lag.buckets) == 1 + LONGEST_MS // SLOT_MS


def test_after_stop_no_timer_is_left(loop: HeldLoop, lag: LoopLag) -> None:
    loop.turn()
    lag.stop()
    lag.stop()
    assert loop.next_alarm_ms is None
