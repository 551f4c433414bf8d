"""Long work: what each step costs decides how many are taken in a turn, and whose."""

from __future__ import annotations

import asyncio

import pytest

from purgatorio.broker.time import long_work
from purgatorio.broker.time.event_loop import call_soon
from purgatorio.broker.time.long_work import SLICE, TURN, LongWork, OwnWork, Steps
from purgatorio.purgatory.clock import ManualClock
from tests.broker.conftest import Turns
from tests.broker.time.by_hand import HandWork

HALF = SLICE // 2


def steps(name: str, costs: list[int], done: list[str]) -> Steps:
    for cost in costs:
        done.append(name)
        yield cost
    done.append(f"{name}!")


def test_a_work_takes_a_slice_in_each_turn() -> None:
    done: list[str] = []
    hand = HandWork()
    hand.own.later(steps("a", [HALF] * 5, done))
    assert done == []
    assert [(hand.turn(), len(done)) for _ in range(3)] == [(True, 2), (True, 4), (False, 6)]


def test_a_short_work_is_done_at_once_and_others_begin_at_once() -> None:
    done: list[str] = []
    hand = HandWork()
    hand.own.begin(steps("a", [1] * 5, done))
    assert done[-1] == "a!"
    hand.own.begin(steps("b", [HALF] * 3, done))
    assert done[6:] == ["b", "b"]
    assert not hand.turn()
    assert done[8:] == ["b", "b!"]


def test_a_step_that_costs_nothing_ends_the_turn_of_its_work() -> None:
    done: list[str] = []
    hand = HandWork()
    hand.own.begin(steps("a", [1, 0, 1, 0, 0], done))
    assert [len(done), *(hand.turn() and len(done) for _ in range(3))] == [2, 4, 5, False]


def test_works_share_a_turn_and_those_that_had_none_go_first_in_the_next() -> None:
    done: list[str] = []
    hand = HandWork()
    for name in "abcd":
        hand.own.later(steps(name, [SLICE] * 2, done))
    turns = []
    for _ in hand.turns():
        turns.append("".join(done))
        done.clear()
    assert TURN < 3 * SLICE, "three works fill a turn"
    assert turns == ["abc", "dab", "cda!b!", "c!d!"]


def test_the_works_of_all_owners_share_a_turn() -> None:
    done: list[str] = []
    hand = HandWork()
    for name in "abcd":
        hand.of_owner().later(steps(name, [SLICE] * 2, done))
    hand.turn()
    assert done == ["a", "b", "c"]


def test_an_owner_that_has_ended_takes_no_step_and_others_go_on() -> None:
    done: list[str] = []
    hand = HandWork()
    other = hand.of_owner()
    hand.own.later(steps("a", [0] * 3, done))
    other.later(steps("b", [0] * 3, done))
    hand.turn()
    hand.own.end()
    assert sum(1 for _ in hand.turns()) == 3
    assert done == ["a", "b", "b", "b", "b!"]
    hand.own.later(steps("late", [0], done))
    hand.own.begin(steps("late", [0] * 2, done))
    assert not hand.turn()
    assert done[5:] == ["late"], "but for the first slice of what begins at once"


def test_a_step_may_end_its_owner() -> None:
    done: list[str] = []
    hand = HandWork()

    def ends() -> Steps:
        hand.own.end()
        yield 0
        done.append("more")

    hand.own.later(ends())
    hand.own.later(steps("b", [0], done))
    assert not hand.turn()
    assert done == []


def test_many_that_begin_in_one_turn_share_it() -> None:
    done: list[str] = []
    hand = HandWork()
    for name in "abcd":
        hand.own.begin_in_time(steps(name, [SLICE], done))
    assert done == ["a", "b", "c"]
    hand.turn()
    assert done[3:] == ["a!", "b!", "c!", "d"]
    hand.turn()
    hand.own.begin_in_time(steps("e", [SLICE - 1], done))
    assert done[-1] == "e!", "another turn has its whole time"


def test_a_turn_is_asked_for_once_while_there_is_work(turns: Turns) -> None:
    done: list[str] = []
    work = LongWork(turns.call_soon).of_owner()
    for name in "ab":
        work.later(steps(name, [0], done))
    turns.turn()
    assert done == ["a", "b"]
    turns.run()
    assert done[2:] == ["a!", "b!"]


def test_steps_are_taken_when_woken_and_once_more_if_that_was_meanwhile(turns: Turns) -> None:
    done: list[str] = []
    wake = LongWork(turns.call_soon).of_owner().whenever_woken(lambda: steps("a", [0], done))
    wake()
    wake()
    assert done == []
    turns.turn()
    wake()
    turns.run()
    assert done == ["a", "a!", "a", "a!"]
    wake()
    turns.run()
    assert done[4:] == ["a", "a!"]


def broken() -> Steps:
    yield 0
    raise ValueError("broken")


def test_an_error_reaches_the_loop_and_other_works_go_on(turns: Turns) -> None:
    done: list[str] = []
    work = LongWork(turns.call_soon).of_owner()
    wake = work.whenever_woken(broken)
    wake()
    work.later(steps("b", [0], done))
    turns.turn()
    with pytest.raises(ValueError, match="broken"):
        turns.turn()
    turns.run()
    assert done == ["b", "b!"]
    wake()
    with pytest.raises(ValueError, match="broken"):
        turns.run()


def running() -> OwnWork:
    return LongWork(call_soon).of_owner()


async def test_a_task_waits_for_the_last_step() -> None:
    done: list[str] = []
    await running().take(steps("a", [SLICE] * 3, done))
    assert done[-1] == "a!"


async def test_an_error_reaches_the_task_that_waits() -> None:
    work = running()
    owner = asyncio.create_task(work.run())
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="broken"):
        await work.take(broken())
    assert not owner.done()
    owner.cancel()


async def test_a_task_that_is_cancelled_takes_no_further_step() -> None:
    done: list[str] = []
    waiting = asyncio.create_task(running().take(steps("a", [0] * 1_000, done)))
    for _ in range(5):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    count = len(done)
    for _ in range(5):
        await asyncio.sleep(0)
    assert 0 < count == len(done)


async def test_the_end_of_an_owner_cancels_the_tasks_that_wait() -> None:
    work = running()
    waiting = asyncio.create_task(work.take(steps("a", [0] * 1_000, [])))
    await asyncio.sleep(0)
    work.end()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(asyncio.CancelledError):
        await work.take(steps("a", [], []))


async def test_an_owner_fails_with_a_work_that_no_task_waits_for() -> None:
    work = running()
    owner = asyncio.create_task(work.run())
    await asyncio.sleep(0)
    for _ in range(2):
        work.later(broken())
    with pytest.raises(ValueError, match="broken"):
        await owner
    assert work.has_ended


async def test_an_owner_that_is_cancelled_ends_its_works() -> None:
    done: list[str] = []
    work = running()
    owner = asyncio.create_task(work.run())
    work.later(steps("a", [0] * 1_000, done))
    await asyncio.sleep(0)
    owner.cancel()
    await asyncio.wait([owner])
    count = len(done)
    await asyncio.sleep(0)
    assert (len(done), work.has_ended) == (count, True)


async def test_steps_are_repeated_after_an_interval() -> None:
    clock, done = ManualClock(), list[str]()
    intervals_ms = iter([10, 20, 30])
    task = asyncio.create_task(running().repeat(clock, lambda: next(intervals_ms), lambda: steps("a", [0], done)))
    for advanced_ms, expected in ((0, 0), (10, 1), (19, 1), (1, 2)):
        clock.advance_ms(advanced_ms)
        for _ in range(5):
            await asyncio.sleep(0)
        assert done.count("a!") == expected
    task.cancel()


def test_no_clock_decides() -> None:
    """A simulation takes the same steps in the same order."""
    assert not {"time", "monotonic", "now_ms", "now_seconds"} & vars(long_work).keys()
