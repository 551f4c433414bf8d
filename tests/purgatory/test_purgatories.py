"""`PurgatoryGroup`: what ``async with`` starts, it ends, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from purgatorio.purgatory import Purgatory, PurgatoryGroup, WaitAborted
from purgatorio.purgatory.clock import ManualClock


def tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks()


def assert_empty(*purgatories: Purgatory[Any]) -> None:
    for purgatory in purgatories:
        assert (purgatory.num_delayed, purgatory.watched, purgatory.wheel()[0].buckets) == (0, 0, ())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def group(clock: ManualClock) -> PurgatoryGroup:
    return PurgatoryGroup(now_ms=clock.now_ms, call_later=clock.call_later)


async def test_a_wait_is_ended_by_an_event_on_the_machines_clock() -> None:
    async with PurgatoryGroup() as group:
        polls = group.purgatory("polls")
        asyncio.get_running_loop().call_soon(polls.check_and_complete, "a")
        await polls.wait("a", timeout_ms=60_000)
        with pytest.raises(TimeoutError):
            await polls.wait("a", timeout_ms=1)


async def test_its_deadlines_follow_a_clock_that_the_user_moves(group: PurgatoryGroup, clock: ManualClock) -> None:
    async with group:
        task = asyncio.create_task(group.purgatory("polls").wait("a", timeout_ms=3_600_000))
        await clock.run_for(3_599_999)
        assert not task.done()
        await clock.run_for(1)
        with pytest.raises(TimeoutError):
            await task


async def test_a_wait_is_not_early_beside_one_that_began_within_the_same_millisecond(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's clock is finer than the milliseconds of deadlines: a neighbour's may wake the reaper early."""
    monkeypatch.setattr(time, "monotonic_ns", lambda: round(clock.now_seconds() * 1e9))
    began_ms, ended_ms = [0.05, 0.92], [0.0, 0.0]

    async def wait(number: int) -> None:
        with pytest.raises(TimeoutError):
            await group.purgatory("polls").wait("a", timeout_ms=10)
        ended_ms[number] = clock.now_seconds() * 1000

    async with PurgatoryGroup(call_later=clock.call_later) as group, asyncio.TaskGroup() as tasks:
        for number in range(2):
            await clock.run_for(began_ms[number] - clock.now_seconds() * 1000)
            tasks.create_task(wait(number))
        await clock.run_for(15)
    late_ms = [ended - began - 10 for began, ended in zip(began_ms, ended_ms, strict=True)]
    assert min(late_ms) >= 0
    assert max(late_ms) < 2


async def test_an_operation_without_delay_expires_at_once_where_the_clock_has_moved_on(
    group: PurgatoryGroup, clock: ManualClock, waiting: Any
) -> None:
    async with group:
        polls = group.purgatory("polls")
        for delay_ms in (0, -5):
            operation, later = waiting(delay_ms), waiting(100)
            clock.advance_ms(50)
            assert polls.try_complete_else_watch(operation, ["a"])
            assert not polls.try_complete_else_watch(later, ["a"])
            clock.advance_ms(50)
            assert polls.postpone(later, delay_ms)
            assert operation.history == later.history == ["answered", "expired"]
        called: list[int] = []
        clock.advance_ms(50)
        group.timer.call_later(0, called.append, 1)
        assert called == [1]
        assert_empty(polls)


async def test_leaving_answers_everything_and_leaves_no_task(group: PurgatoryGroup, waiting: Any) -> None:
    before = tasks()
    operations = [waiting(60_000) for _ in range(3)]
    async with group:
        first, second = group.purgatory("first"), group.purgatory("second")
        first.try_complete_else_watch(operations[0], ["a", "b"])
        second.try_complete_else_watch(operations[1], ["a"])
        wait = asyncio.create_task(second.wait("b", timeout_ms=60_000))
        await asyncio.sleep(0)
        assert len(tasks() - before) == 2, "the wait and the reaper"
    with pytest.raises(WaitAborted):
        await wait
    assert tasks() == before
    assert_empty(first, second)
    assert second.try_complete_else_watch(operations[2], ["a"]), "it is answered, not parked"
    assert [operation.history for operation in operations] == [["shut down"]] * 3
    assert group.purgatories == (first, second)


async def test_an_exception_of_the_block_propagates_as_it_is(group: PurgatoryGroup) -> None:
    before = tasks()
    with pytest.raises(KeyError, match="mine"):
        async with group:
            raise KeyError("mine")
    assert tasks() == before


async def test_a_cancellation_of_the_block_propagates_and_leaves_nothing(group: PurgatoryGroup) -> None:
    before = tasks()
    polls = group.purgatory("made before the block")

    async def block() -> None:
        async with group:
            await polls.wait("a", timeout_ms=60_000)

    task = asyncio.create_task(block())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert polls.num_delayed == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tasks() == before
    assert_empty(polls)


async def test_a_clock_that_fails_ends_the_block_and_is_reported() -> None:
    before = tasks()
    broken: list[bool] = []

    def now_ms() -> int:
        if broken:
            raise OSError("the clock is broken")
        return 0

    group = PurgatoryGroup(now_ms=now_ms)
    polls = group.purgatory("polls")

    async def block() -> None:
        async with group:
            asyncio.get_running_loop().call_soon(broken.append, True)
            await polls.wait("a", timeout_ms=1)
            pytest.fail("a clock that stands still ends no wait")

    with pytest.raises(ExceptionGroup) as raised:
        await block()
    assert [str(error) for error in raised.value.exceptions] == ["the clock is broken"]
    assert tasks() == before
    assert_empty(polls)


async def test_purgatories_of_a_group_share_its_action_queue(group: PurgatoryGroup, waiting: Any) -> None:
    """A completion in one raises an event in the other, which is handled when the first has returned."""
    async with group:
        first, second = group.purgatory("first"), group.purgatory("second")
        cause, effect = waiting(), waiting()
        first.try_complete_else_watch(cause, ["a"])
        second.try_complete_else_watch(effect, ["a"])
        cause.ready = effect.ready = True
        cause.during_complete = lambda: cause.note(f"queued {second.check_and_complete('a') == 0}")
        first.check_and_complete("a")
        assert (cause.history, effect.history) == (["answered", "queued True"], ["answered"])


async def test_a_group_is_entered_once_and_makes_no_purgatory_after_its_end(group: PurgatoryGroup) -> None:
    async with group:
        with pytest.raises(RuntimeError, match="entered"):
            await group.__aenter__()
    with pytest.raises(RuntimeError, match="'late'"):
        group.purgatory("late")
    with pytest.raises(RuntimeError, match="entered"):
        await group.__aenter__()


async def test_actions_that_queue_each_other_without_end_do_not_keep_a_group_from_ending(
    group: PurgatoryGroup, caplog: pytest.LogCaptureFixture
) -> None:
    def again() -> None:
        group.actions.add(again)

    async with group:
        with group.actions:
            again()
    assert "1 actions were left" in caplog.text
