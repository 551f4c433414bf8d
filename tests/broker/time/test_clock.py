"""Time that is passed in."""

from __future__ import annotations

import asyncio
import gc

import pytest

from purgatorio.broker.time.running_clock import RunningClock
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.purgatory.clock import Clock, ManualClock, time_limit

HEARTBEAT_TURNS = 3
"""One sends it, one carries it to the store, one carries the answer."""


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


def test_calls_are_made_at_their_moments_in_order_and_a_cancelled_one_is_not() -> None:
    clock = ManualClock()
    made: list[tuple[str, int]] = []

    def call(name: str, delay_ms: float) -> None:
        clock.call_later(delay_ms, lambda: made.append((name, clock.now_ms())))

    call("late", 20)
    call("early", 10)
    call("early too", 10)
    call("never yet", 31)
    cancelled = clock.call_later(15, lambda: made.append(("cancelled", 0)))
    clock.call_later(5, call, "from within", 7)
    cancelled.cancel()
    clock.advance_ms(30)
    assert made == [("early", 10), ("early too", 10), ("from within", 12), ("late", 20)]
    assert (clock.now_ms(), clock.next_alarm_ms) == (30, 31)


def test_cancelled_alarms_of_a_clock_that_stands_still_are_forgotten() -> None:
    clock = ManualClock()
    clock.call_later(1, print)
    for _ in range(10_000):
        clock.call_later(1_000, print).cancel()
    assert len(clock._alarms) <= 2_000
    assert clock.next_alarm_ms == 1


async def test_tasks_sleep_until_the_clock_is_moved_and_go_on_between_two_steps() -> None:
    clock = ManualClock()
    woken: list[int] = []

    async def tick() -> None:
        while True:
            await clock.sleep(100)
            woken.append(clock.now_ms())

    task = asyncio.create_task(tick())
    await clock.run_for(350)
    assert woken == [100, 200, 300]
    assert clock.now_ms() == 350
    task.cancel()
    await asyncio.wait([task])
    assert clock.next_alarm_ms is None


@pytest.mark.parametrize("clock", [ManualClock(), SystemClock()], ids=["manual", "system"])
async def test_a_body_that_takes_too_long_is_cancelled_on_that_clock(clock: Clock) -> None:
    async def wait() -> None:
        async with time_limit(clock, 5):
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(wait())
    if isinstance(clock, ManualClock):
        await clock.run_for(4)
        assert not task.done()
        await clock.run_for(1)
        assert task.done()
    with pytest.raises(TimeoutError):
        await task


async def test_a_body_that_is_quick_enough_leaves_no_alarm() -> None:
    clock = ManualClock()
    async with time_limit(clock, 5):
        await asyncio.sleep(0)
    assert clock.next_alarm_ms is None


async def test_a_running_clock_leaves_out_what_no_task_could_use() -> None:
    """The process is stopped for 30 s: the event loop sees one long gap between two turns."""
    clock = ManualClock()
    running = RunningClock(clock)
    beating = asyncio.create_task(running.run())
    await clock.run_for(1_000)
    assert (running.now_ms(), running.stood_still_ms) == (1_000, 0)
    clock.advance_ms(30_000)
    assert running.now_ms() == 1_000 + RunningClock.MAX_GAP_MS, "whoever asks before the next beat"
    await clock.run_for(0)
    assert running.now_ms() == 1_000 + RunningClock.MAX_GAP_MS
    await clock.run_for(1_000)
    assert running.now_ms() == 2_000 + RunningClock.MAX_GAP_MS
    assert running.stood_still_ms == 30_000 - RunningClock.MAX_GAP_MS
    beating.cancel()
    await asyncio.wait([beating])


async def test_the_clock_of_clients_leaves_out_standstills_and_no_slow_turns() -> None:
    clock = ManualClock()
    leases, sessions = RunningClock(clock), RunningClock(clock, RunningClock.MAX_GAP_OF_CLIENTS_MS)
    beating = asyncio.create_task(leases.run(sessions))
    await asyncio.sleep(0)
    for _ in range(50):
        clock.advance_ms(100)
        await asyncio.sleep(0)
    assert sessions.now_ms() == 5_000
    assert leases.now_ms() < 1_500
    clock.advance_ms(60_000)
    await clock.run_for(0)
    assert 5_000 < sessions.now_ms() <= 6_000
    beating.cancel()
    await asyncio.wait([beating])


def test_a_running_clock_never_goes_back() -> None:
    clock = ManualClock()
    running = RunningClock(clock)
    times = []
    for gap_ms in (10, 99, 100, 101, 5_000, 1, 0):
        clock.advance_ms(gap_ms)
        times.append(running.now_ms())
        running.beat()
        times.append(running.now_ms())
    assert times == sorted(times)


async def test_a_time_limit_leaves_nothing_for_the_collector() -> None:
    clock = ManualClock()
    async with time_limit(clock, 5):
        pass
    gc.collect()
    gc.disable()
    try:
        async with time_limit(clock, 5):
            pass
        assert gc.collect() == 0
    finally:
        gc.enable()


async def test_a_time_limit_on_a_running_clock_leaves_standstills_out() -> None:
    clock = ManualClock()
    running = RunningClock(clock)
    beating = asyncio.create_task(running.run())

    async def limited() -> None:
        async with time_limit(running, 1_000):
            await asyncio.Event().wait()

    waiting = asyncio.create_task(limited())
    await clock.run_for(500)
    clock.advance_ms(60_000)
    await clock.run_for(300)
    assert not waiting.done()
    await clock.run_for(200)
    with pytest.raises(TimeoutError):
        await waiting
    beating.cancel()
    await asyncio.wait([beating])


async def test_a_running_clock_advances_by_one_gap_in_as_many_turns_as_a_heartbeat_needs() -> None:
    clock = ManualClock()
    running = RunningClock(clock)
    beating = asyncio.create_task(running.run())
    turns = 0
    while running.now_ms() < 10 * RunningClock.MAX_GAP_MS:
        clock.advance_ms(200)
        await asyncio.sleep(0)
        turns += 1
    assert turns > 9 * (HEARTBEAT_TURNS + 1)
    beating.cancel()
    await asyncio.wait([beating])
