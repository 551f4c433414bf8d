"""The timing wheel and its timer, against a plain model."""

from __future__ import annotations

import random

import pytest

from purgatorio.purgatory import Timer, TimerEntry
from purgatorio.purgatory.timing_wheel import TimingWheel
from tests.error_log import ErrorLog
from tests.histories import seeds


class Clock:
    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


class Noted(TimerEntry):
    """Says that it ran."""

    __slots__ = ("name", "ran")

    def __init__(self, name: int, deadline_ms: int, ran: list[int]) -> None:
        super().__init__(deadline_ms)
        self.name = name
        self.ran = ran

    def run(self) -> None:
        self.ran.append(self.name)


SPANS_MS = (0, 1, 5, 19, 20, 21, 399, 400, 401, 10_000)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("limit", [1, 7, 10**9])
@pytest.mark.parametrize("seed", seeds(30, quick=3))
def test_every_timer_runs_once_never_early_and_as_soon_as_it_is_advanced_to(seed: int, limit: int, ahead: bool) -> None:
    rng = random.Random(seed)
    clock = Clock(rng.randrange(1000))
    ran: list[int] = []
    timer = Timer(clock, wheel_size=rng.choice([2, 3, 20]))
    waiting: dict[int, Noted] = {}
    for step in range(300):
        for number in range(rng.randrange(4)):
            entry = Noted(4 * step + number, clock() + rng.choice(SPANS_MS), ran)
            waiting[entry.name] = entry
            timer.add(entry)
        still_waiting = [name for name in waiting if name not in ran]
        if still_waiting and rng.random() < 0.3:
            cancelled = waiting.pop(rng.choice(still_waiting))
            assert cancelled.cancel()
            assert not cancelled.cancel()
        clock.now_ms += rng.choice((0, 1, 2, 18, 20, 333))
        while timer.advance(clock(), limit) >= limit:
            pass
        if ahead:
            timer.advance_ahead(rng.choice((1, 5, 10**9)))
        due = sorted(name for name, entry in waiting.items() if entry.deadline_ms <= clock())
        assert sorted(ran) == due
        for name in due:
            del waiting[name]
        ran.clear()
        assert timer.size == len(waiting)


def test_a_thousand_timers_of_one_coarse_bucket_move_in_portions_and_keep_their_order() -> None:
    clock = Clock()
    ran: list[int] = []
    timer = Timer(clock)
    for name in range(1000):
        timer.add(Noted(name, 8000 + name % 2, ran))
    clock.now_ms = 8000
    while timer.advance(clock(), 16) >= 16:
        assert timer.size + len(ran) == 1000
    assert ran == list(range(0, 1000, 2))
    clock.now_ms = 8001
    timer.advance(clock())
    assert ran[500:] == list(range(1, 1000, 2))


def test_the_next_bucket_of_a_coarse_level_is_moved_ahead_of_its_time_so_that_it_is_not_late() -> None:
    clock = Clock()
    ran: list[int] = []
    timer = Timer(clock)
    for name in range(1000):
        timer.add(Noted(name, 2000 + name % 400, ran))
    clock.now_ms = 1599
    assert timer.advance(clock()) == 0
    assert timer.advance_ahead(10_000) == 0, "it is not the next bucket yet"
    clock.now_ms = 1600
    timer.advance(clock())
    assert timer.advance_ahead(600) == 600
    assert timer.advance_ahead(600) == 400
    assert timer.size == 1000
    clock.now_ms = 2000
    assert timer.advance(clock(), 16) < 16
    assert len(ran) == 3
    clock.now_ms = 2399
    timer.advance(clock())
    assert sorted(ran) == list(range(1000))


def test_a_wheel_has_no_buckets_before_its_first_entry() -> None:
    """Most wheels of a broker that a test starts never have one."""
    wheel = TimingWheel(0)
    assert wheel.due_bucket(1_000_000) is None
    assert (wheel.levels[0].buckets, len(wheel), wheel.next_expiration_ms()) == ([], 0, None)
    assert wheel.add(TimerEntry(1_000_005))
    assert (len(wheel.levels[0].buckets), len(wheel), wheel.next_expiration_ms()) == (40, 1, 1_000_005)


def test_levels_are_made_when_they_are_needed_and_once() -> None:
    timer = Timer(Clock())
    assert [level.tick_ms for level in timer.snapshot()] == [1]
    for _ in range(3):
        timer.add(Noted(0, 7999, []))
    assert [level.tick_ms for level in timer.snapshot()] == [1, 20, 400]
    timer.add(Noted(0, 8000, []))
    assert [level.tick_ms for level in timer.snapshot()] == [1, 20, 400, 8000]


def test_a_timer_that_is_due_already_runs_before_add_returns() -> None:
    ran: list[int] = []
    timer = Timer(Clock(100))
    for deadline_ms in (99, 100):
        timer.add(Noted(deadline_ms, deadline_ms, ran))
    assert (ran, timer.size) == ([99, 100], 0)


def test_a_timer_that_is_added_again_moves_to_its_new_deadline() -> None:
    clock, ran = Clock(), []
    timer = Timer(clock)
    entry = Noted(0, 10, ran)
    timer.add(entry)
    entry.deadline_ms = 500
    timer.add(entry)
    assert timer.size == 1
    timer.advance(10)
    assert ran == []
    timer.advance(500)
    assert ran == [0]


def test_one_that_fails_does_not_keep_the_others_from_their_deadline(error_log: ErrorLog) -> None:
    ran: list[int] = []
    timer = Timer(Clock())
    timer.call_later(5, lambda: 1 // 0)
    timer.add(Noted(1, 5, ran))
    timer.advance(5)
    assert ran == [1]
    error_log.expect("a timer entry failed")


def test_on_earlier_is_called_for_an_earlier_bucket_only() -> None:
    told: list[int] = []
    timer = Timer(Clock())
    timer.on_earlier = lambda: told.append(timer.next_expiration_ms or -1)
    for deadline_ms in (15, 17, 12, 12):
        timer.add(Noted(0, deadline_ms, []))
    assert told == [15, 12]


class Advancing(Noted):
    """Advances its timer when it runs, as code does that moves a clock of its own."""

    __slots__ = ("by_ms", "limit", "timer")

    timer: Timer
    by_ms: int
    limit: int

    def run(self) -> None:
        super().run()
        clock = self.timer.now_ms
        assert isinstance(clock, Clock)
        clock.now_ms += self.by_ms
        self.timer.advance(clock.now_ms, self.limit)


@pytest.mark.timeout(20)  # it went on for ever
def test_an_entry_that_advances_its_timer_past_a_turn_of_the_wheel_loses_no_other_entry() -> None:
    clock = Clock()
    ran: list[int] = []
    timer = Timer(clock)

    def advance() -> None:
        """Move on by a turn of the wheel, and put an entry in the bucket that the outer call is at."""
        clock.now_ms = 40
        timer.advance(clock())
        timer.add(Noted(2, 45, ran))

    timer.call_later(5, advance)
    timer.add(Noted(1, 6, ran))
    clock.now_ms = 5
    timer.advance(clock())
    assert (ran, timer.size) == ([1], 1)
    timer.advance(44)
    assert ran == [1]
    timer.advance(45)
    assert (ran, timer.size) == ([1, 2], 0)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("seed", seeds(30, quick=3))
def test_entries_that_advance_their_timer_and_add_others_keep_every_deadline(seed: int) -> None:
    rng = random.Random(seed)
    clock = Clock(rng.randrange(1000))
    timer = Timer(clock, wheel_size=rng.choice([2, 3, 20]))
    ran: list[int] = []
    entries: list[Noted] = []
    for step in range(200):
        for _ in range(rng.randrange(4)):
            kind = Advancing if rng.random() < 0.4 else Noted
            entry = kind(len(entries), clock() + 1 + rng.choice(SPANS_MS), ran)
            if isinstance(entry, Advancing):
                entry.timer, entry.by_ms = timer, rng.choice((0, 1, 2, 20, 41, 333))
                entry.limit = rng.choice((1, 3, 10**9))
            entries.append(entry)
            timer.add(entry)
        clock.now_ms += rng.choice((0, 1, 18, 20, 333))
        while timer.advance(clock()):
            pass  # its entries have moved the clock on
        due = [entry.name for entry in entries if entry.deadline_ms <= clock()]
        assert (sorted(ran), timer.size) == (due, len(entries) - len(due)), f"at step {step}"
