"""The purgatories of a broker: which clock their deadlines go by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from purgatorio.admin.operations.control.transaction_control import TransactionControl
from purgatorio.admin.operations.reading.state import read_purgatory
from purgatorio.broker.causes.kinds import ACQUISITION_LOCK, DEAD_LETTER, HEARTBEAT, KINDS, PERSISTER
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.group.delayed_heartbeat import DelayedHeartbeat, MemberKey
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.time.clocks import Clocks
from purgatorio.broker.time.running_clock import RunningClock
from purgatorio.purgatory import FinishedOperation
from purgatorio.purgatory.clock import ManualClock

SESSION_MS = 1_000
IMAGE = ClusterImage(0, "test", 1, {}, {})


class Process:
    """A process whose time the test sets: it runs, or stands still."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.running = RunningClock(self.clock)
        self.finished: list[FinishedOperation] = []
        clocks = Clocks(self.clock, self.clock, self.running, self.running)
        self.parked = Purgatories(clocks, self.finished.append)
        self.expired = 0
        self.session = DelayedHeartbeat(
            self.parked.of(HEARTBEAT), MemberKey("billing", "app-1"), SESSION_MS, expired=self._expired
        ).start()

    def _expired(self) -> None:
        self.expired += 1

    async def run_for(self, delta_ms: int) -> None:
        for _ in range(delta_ms // RunningClock.BEAT_MS):
            await self.stand_still_for(RunningClock.BEAT_MS)

    async def stand_still_for(self, delta_ms: int) -> None:
        self.clock.advance_ms(delta_ms)
        self.running.beat()
        for _ in range(4):
            await asyncio.sleep(0)


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    made = Process()
    reaper = asyncio.create_task(made.parked.reaper.run())
    await asyncio.sleep(0)
    yield made
    reaper.cancel()


async def test_a_member_outlives_a_standstill_of_the_process(process: Process) -> None:
    await process.stand_still_for(10 * SESSION_MS)
    assert process.expired == 0
    await process.run_for(SESSION_MS)
    assert process.expired == 1


async def test_a_member_that_is_silent_while_the_process_runs_is_expired_in_time(process: Process) -> None:
    await process.run_for(SESSION_MS - 100)
    assert process.expired == 0
    await process.run_for(200)
    assert process.expired == 1


async def test_a_member_whose_heartbeat_waits_unread_when_its_session_ends_is_not_expired(process: Process) -> None:
    """The event loop reads it in the turn after the one in which the time was over."""
    await process.run_for(SESSION_MS - 100)
    loop = asyncio.get_running_loop()
    process.clock.advance_ms(200)
    process.running.beat()
    loop.call_soon(loop.call_soon, process.session.end)
    for _ in range(10):
        await asyncio.sleep(0)
    await process.run_for(SESSION_MS)
    assert process.expired == 0


async def test_observers_see_all_times_on_the_brokers_clock(process: Process) -> None:
    await process.stand_still_for(5 * SESSION_MS)
    now_ms = process.clock.now_ms()
    no_transactions = TransactionControl(SimpleNamespace(clock=process.clock, brokers=()), lambda: IMAGE)
    (shown,) = read_purgatory(process.parked.of(HEARTBEAT), no_transactions, now_ms, 10)["operations"]
    assert shown["remaining_ms"] == SESSION_MS - RunningClock.MAX_GAP_MS
    await process.run_for(SESSION_MS)
    (ended,) = process.finished
    assert now_ms < ended.done_ms <= process.clock.now_ms()
    assert ended.deadline_ms - ended.parked_ms == SESSION_MS


async def test_members_are_judged_by_a_clock_of_their_own() -> None:
    """The others' time moves by an hour; that of members does not."""
    clock = ManualClock()
    parked = Purgatories(Clocks(clock, clock, clock, ManualClock()), lambda _: None)
    clock.advance_ms(3_600_000)
    names = {purgatory.name for purgatory in parked.all if purgatory.now_ms() == 0}
    assert names == {"Rebalance", "Heartbeat"}
    assert parked.timer.now_ms() == 0


async def test_acquisition_locks_go_by_the_clock_that_tests_move_and_outlive_a_standstill() -> None:
    clock = ManualClock()
    running = RunningClock(clock)
    parked = Purgatories(Clocks(clock, clock, running, running), lambda _: None)
    assert "AcquisitionLock" not in {purgatory.name for purgatory in parked.all}
    locks = parked.of(ACQUISITION_LOCK)
    assert parked.all[-1] is locks is parked.of(ACQUISITION_LOCK)
    before_ms = locks.now_ms()
    clock.advance_ms(3_600_000)
    running.beat()
    assert locks.now_ms() == before_ms + RunningClock.MAX_GAP_MS


async def test_calls_to_share_coordinators_have_a_purgatory_when_the_first_one_fails() -> None:
    parked = Purgatories(Clocks.alike(ManualClock()), lambda _: None)
    assert "Persister" not in {purgatory.name for purgatory in parked.all}
    calls = parked.of(PERSISTER)
    assert parked.all[-1] is calls is parked.of(PERSISTER)


async def test_a_broker_begins_with_the_purgatories_that_are_not_made_late() -> None:
    parked = Purgatories(Clocks.alike(ManualClock()), lambda _: None)
    assert [each.name for each in parked.all] == [each.purgatory for each in KINDS.values() if not each.is_late]
    late = [each for each in KINDS.values() if each.is_late]
    assert [parked.of(each).name for each in late] == [each.purgatory for each in late]


async def test_dead_letters_have_a_purgatory_when_the_first_ones_could_not_be_written() -> None:
    parked = Purgatories(Clocks.alike(ManualClock()), lambda _: None)
    assert "DeadLetter" not in {purgatory.name for purgatory in parked.all}
    letters = parked.of(DEAD_LETTER)
    assert parked.all[-1] is letters is parked.of(DEAD_LETTER)
