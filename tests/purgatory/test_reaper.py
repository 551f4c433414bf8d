"""The reaper: sleeps until something is due, is woken for what is due earlier, and leaves the loop room."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from purgatorio.purgatory import ActionQueue, Reaper, Timer, TimerEntry
from purgatorio.purgatory.clock import ManualClock

PATIENCE_SECONDS = 10


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Time stands still while anything can run, and jumps to the next timer when nothing can."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_seconds = 0.0

    def time(self) -> float:
        return self._virtual_seconds

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self._virtual_seconds = max(self._virtual_seconds, self._scheduled[0].when())
        super()._run_once()


def run(scenario: Callable[[Callable[[], int]], Any]) -> None:
    """Run a scenario in virtual time; it is given the clock, in milliseconds."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        loop = runner.get_loop()
        runner.run(scenario(lambda: int(loop.time() * 1000)))


def test_deadlines_run_when_they_are_due_over_several_timers() -> None:
    async def scenario(now_ms: Callable[[], int]) -> None:
        ran: list[tuple[str, int]] = []
        timers = [Timer(now_ms), Timer(now_ms)]
        async with asyncio.TaskGroup() as tasks:
            reaper = tasks.create_task(Reaper(now_ms, timers).run())
            for timer, name, delay_ms in ((timers[0], "a", 30), (timers[1], "b", 10), (timers[0], "c", 5_000)):
                timer.call_later(delay_ms, lambda n=name: ran.append((n, now_ms())))
            await asyncio.sleep(6)
            reaper.cancel()
        assert [name for name, _ in ran] == ["b", "a", "c"]
        for (_, at_ms), due_ms in zip(ran, (10, 30, 5_000), strict=True):
            assert due_ms <= at_ms <= due_ms + 1

    run(scenario)


def test_it_is_woken_by_a_deadline_that_is_earlier_than_the_one_it_sleeps_for() -> None:
    async def scenario(now_ms: Callable[[], int]) -> None:
        ran: list[int] = []
        timer = Timer(now_ms)
        timer.call_later(60_000, ran.append, 0)
        async with asyncio.TaskGroup() as tasks:
            reaper = tasks.create_task(Reaper(now_ms, [timer]).run())
            await asyncio.sleep(1)
            timer.call_later(10, lambda: ran.append(now_ms()))
            await asyncio.sleep(1)
            reaper.cancel()
        assert len(ran) == 1
        assert 1010 <= ran[0] <= 1011

    run(scenario)


def test_ten_thousand_deadlines_in_one_tick_leave_the_loop_its_turns() -> None:
    async def scenario(now_ms: Callable[[], int]) -> None:
        ran: list[int] = []
        turns: list[int] = []
        timer = Timer(now_ms)
        for number in range(10_000):
            timer.call_later(10, ran.append, number)
        async with asyncio.TaskGroup() as tasks:
            reaper = tasks.create_task(Reaper(now_ms, [timer]).run())
            await asyncio.sleep(0.01)
            while len(ran) < 10_000:
                turns.append(len(ran))
                await asyncio.sleep(0)
            reaper.cancel()
        assert ran == list(range(10_000))
        assert len({*turns}) > 2, "others had turns in between"

    run(scenario)


async def test_it_follows_a_clock_that_the_user_moves() -> None:
    """Neither the machine's time nor a call of `wake` is needed."""
    clock = ManualClock()
    ran: list[tuple[str, int]] = []
    timer = Timer(clock.now_ms)
    async with asyncio.TaskGroup() as tasks:
        reaper = tasks.create_task(Reaper(clock.now_ms, [timer], call_later=clock.call_later).run())
        for name, delay_ms in (("hour", 3_600_000), ("second", 1_000)):
            timer.call_later(delay_ms, lambda n=name: ran.append((n, clock.now_ms())))
        await clock.run_for(999)
        assert ran == []
        await clock.run_for(3_599_000)
        assert ran == [("second", 1_000)]
        clock.advance_ms(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ran == [("second", 1_000), ("hour", 3_600_000)]
        assert clock.next_alarm_ms is None, "nothing waits, so no alarm is set"
        reaper.cancel()


async def test_its_alarm_is_set_in_milliseconds_and_cancelled_when_it_is_woken_or_stopped() -> None:
    clock = ManualClock()
    timer = Timer(clock.now_ms)
    timer.call_later(15, int)
    async with asyncio.TaskGroup() as tasks:
        reaper = tasks.create_task(Reaper(clock.now_ms, [timer], call_later=clock.call_later).run())
        await asyncio.sleep(0)
        assert clock.next_alarm_ms == 15
        timer.call_later(5, int)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert clock.next_alarm_ms == 5
        reaper.cancel()
    assert clock.next_alarm_ms is None


def test_it_sleeps_without_an_alarm_while_nothing_waits() -> None:
    async def scenario(now_ms: Callable[[], int]) -> None:
        loop: Any = asyncio.get_running_loop()
        task = asyncio.create_task(Reaper(now_ms, [Timer(now_ms)]).run())
        await asyncio.sleep(0)
        assert loop._scheduled == []
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(scenario)


def test_it_drains_what_the_action_queue_leaves_over() -> None:
    async def scenario(now_ms: Callable[[], int]) -> None:
        actions = ActionQueue()
        done: list[int] = []

        def act(number: int) -> None:
            done.append(number)
            if number < 1_000:
                actions.add(lambda: act(number + 1))

        async with asyncio.TaskGroup() as tasks:
            reaper = tasks.create_task(Reaper(now_ms, actions=actions).run())
            await asyncio.sleep(0)
            with actions:
                act(0)
            assert len(done) < 1_000
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(done) <= 1_000:  # noqa: ASYNC110 - the queue has no event to wait for
                    await asyncio.sleep(0)
            reaper.cancel()
        assert actions.on_backlog is None

    run(scenario)


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_deadline_is_not_run_before_the_loop_has_read_what_arrived_in_time(kind: str) -> None:
    """A turn takes long; in it a client's heartbeat arrives, and then its deadline passes."""

    async def scenario() -> list[str]:
        clock, ran = ManualClock(), []
        timer, others = Timer(clock.now_ms), Timer(clock.now_ms)
        reaper = Reaper(clock.now_ms, call_later=clock.call_later)
        reaper.add(timer, listens=True)
        reaper.add(others)
        running = asyncio.create_task(reaper.run())
        session = timer.call_later(1_000, ran.append, "expired")
        timer.call_later(1_000, ran.append, "silent")
        others.call_later(1_000, ran.append, "other")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        asyncio.get_running_loop().add_reader(ours, lambda: (ours.recv(10), session.cancel(), ran.append("heard")))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(theirs.send, b"heartbeat")  # just before the reaper finds the deadline
        clock.advance_ms(1_000)
        while "silent" not in ran:  # noqa: ASYNC110 - each turn counts
            await asyncio.sleep(0)
        running.cancel()
        asyncio.get_running_loop().remove_reader(ours)
        ours.close()
        theirs.close()
        return ran

    loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.SelectorEventLoop
    if kind == "uvloop":
        loop_factory = pytest.importorskip("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        ran = runner.run(scenario())
    assert sorted(ran) == ["heard", "other", "silent"]
    assert ran[-1] == "silent"


def test_deadlines_that_wait_for_clients_run_one_after_another_and_end_in_rest() -> None:
    async def scenario(now_ms: Callable[[], int]) -> None:
        ran: list[int] = []
        timer = Timer(now_ms)
        reaper = Reaper(now_ms)
        reaper.add(timer, listens=True)
        for number in range(1_000):
            timer.call_later(10 + number // 100, ran.append, number)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(reaper.run())
            await asyncio.sleep(0.03)
            assert ran == list(range(1_000))
            running.cancel()

    run(scenario)  # virtual time passes only while nothing is ready: a reaper that does not rest would never end


class Heavy(TimerEntry):
    """An entry that takes as long as many others."""

    def __init__(self, deadline_ms: int, ran: list[str]) -> None:
        super().__init__(deadline_ms)
        self._ran = ran

    def weight(self) -> int:
        return 1_000

    def run(self) -> None:
        self._ran.append("heavy")


def test_a_timer_counts_entries_by_their_weight_so_that_heavy_ones_leave_the_loop_room() -> None:
    ran: list[str] = []
    timer = Timer(lambda: 0)
    timer.add(Heavy(10, ran))
    timer.add(Heavy(10, ran))
    timer.call_later(10, ran.append, "light")
    assert timer.advance(20, 16) == 1_000
    assert ran == ["heavy"]
    assert timer.advance(20, 16) == 1_000
    assert timer.advance(20, 16) == 1
    assert ran == ["heavy", "heavy", "light"]
