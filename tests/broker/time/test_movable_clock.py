"""A clock that goes as the machine's does, and jumps forward when it is told to."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from purgatorio.broker.time.movable_clock import EARLY_MS, STEP_MS, MemberClock, MovableClock
from purgatorio.purgatory.clock import Clock, time_limit

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


async def test_it_goes_as_the_machines_clock_until_it_is_moved(clock: Clock) -> None:
    assert abs(clock.now_ms() - time.monotonic() * 1000) < 1000
    assert abs(clock.now_seconds() - time.monotonic()) < 1
    assert abs(clock.wall_ms() - time.time() * 1000) < 1000


async def test_a_jump_moves_all_faces_and_makes_the_calls_that_are_due_in_order(clock: MovableClock) -> None:
    clock.freeze()
    before = (clock.now_ms(), clock.now_seconds(), clock.wall_ms())
    made: list[str] = []
    clock.call_later(DAY_MS, made.append, "late")
    clock.call_later(5, made.append, "early")
    clock.call_later(DAY_MS + 10, made.append, "not yet")
    clock.call_later(7, made.append, "cancelled").cancel()
    clock.jump(DAY_MS + 1)
    assert made == ["early", "late"]
    moved = (clock.now_ms() - before[0], round(clock.now_seconds() - before[1], 3), clock.wall_ms() - before[2])
    assert moved == (DAY_MS + 1, (DAY_MS + 1) / 1000, DAY_MS + 1)


async def test_the_wall_face_can_be_set_right_and_the_other_never_goes_back(clock: MovableClock) -> None:
    clock.jump(DAY_MS)
    clock.freeze()
    before_ms = clock.now_ms()
    clock.set_wall()
    assert abs(clock.wall_ms() - time.time() * 1000) < 1000
    assert before_ms <= clock.now_ms() < before_ms + 1000
    clock.jump(DAY_MS)
    assert abs(clock.wall_ms() - time.time() * 1000 - DAY_MS) < 1000


async def test_calls_come_by_themselves_in_real_time(clock: MovableClock) -> None:
    begun = time.monotonic()
    async with asyncio.timeout(5):
        await clock.sleep(20)
        with pytest.raises(TimeoutError):
            async with time_limit(clock, 5):
                await asyncio.Event().wait()
    assert time.monotonic() - begun >= (25 - 2 * EARLY_MS) / 1000


async def test_an_earlier_call_comes_before_one_that_waits_already(clock: MovableClock) -> None:
    made: list[str] = []
    over = asyncio.Event()
    clock.call_later(20, over.set)
    clock.call_later(10, made.append, "later")
    clock.call_later(1, made.append, "earlier")
    await over.wait()
    assert made == ["earlier", "later"]


async def test_a_jump_wakes_what_sleeps(clock: MovableClock) -> None:
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        tasks.create_task(clock.sleep(60_000))
        await asyncio.sleep(0)
        clock.jump(60_000)


async def test_time_does_not_go_back(clock: MovableClock) -> None:
    with pytest.raises(ValueError, match="does not go back"):
        clock.jump(-1)
    with pytest.raises(ValueError, match="does not go back"):
        await clock.run_for(-1)


async def test_a_frozen_clock_stands_still_and_goes_on_from_where_it_stood(clock: MovableClock) -> None:
    clock.freeze()
    clock.freeze()
    before, wall = clock.now_ms(), clock.wall_ms()
    made: list[str] = []
    clock.call_later(1, made.append, "late")
    await asyncio.sleep(0.02)
    assert (clock.now_ms(), clock.wall_ms(), made, clock.is_frozen) == (before, wall, [], True)
    clock.unfreeze()
    clock.unfreeze()
    assert clock.now_ms() - before < 20
    async with asyncio.timeout(5):
        while not made:  # noqa: ASYNC110 - it comes in real time
            await asyncio.sleep(0)


async def test_in_each_step_tasks_go_on(clock: MovableClock) -> None:
    clock.freeze()
    woken: list[int] = []
    start_ms = clock.now_ms()

    async def beat() -> None:
        while True:
            await clock.sleep(STEP_MS)
            woken.append(clock.now_ms() - start_ms)

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0)
    steps: list[int] = []
    await clock.run_for(10 * STEP_MS + 1, moving=steps.append)
    assert woken == [STEP_MS * nth for nth in range(1, 11)]
    assert steps == [STEP_MS] * 10 + [1]
    beating.cancel()


async def test_a_call_that_fails_is_reported_and_keeps_no_other_from_its_time(clock: MovableClock) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    made: list[str] = []
    clock.call_later(1, lambda: 1 / 0)
    clock.call_later(2, made.append, "next")
    clock.jump(5)
    assert made == ["next"]
    assert isinstance(reported[0]["exception"], ZeroDivisionError)


async def test_a_call_that_another_one_cancels_at_the_same_moment_is_not_made(clock: MovableClock) -> None:
    made: list[str] = []
    clock.call_later(1, lambda: second.cancel())
    second = clock.call_later(1, made.append, "second")
    clock.jump(5)
    assert made == []


async def test_without_alarms_nothing_is_left_in_the_event_loop(clock: MovableClock) -> None:
    alarms = [clock.call_later(60_000, print) for _ in range(3)]
    for alarm in alarms:
        alarm.cancel()
        alarm.cancel()
    assert (clock._timer, clock._alarms) == (None, [])


async def test_cancelled_alarms_are_forgotten_before_their_time(clock: MovableClock) -> None:
    kept = clock.call_later(1_000, print)
    for _ in range(10_000):
        clock.call_later(1_000, print).cancel()
    assert len(clock._alarms) <= 2_000
    kept.cancel()


async def test_the_clock_of_members_stands_still_while_it_is_told_to(clock: MovableClock) -> None:
    clock.freeze()
    members = MemberClock(clock)
    before = members.now_ms()
    await clock.run_for(1_000, moving=members.leave_out)
    assert members.now_ms() == before
    await clock.run_for(1_000)
    assert members.now_ms() == before + 1_000
