"""How connections share the turns of the event loop; time passes only while they work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from purgatorio.broker.server.turns import MAX_TURN_SECONDS, PAUSE_SECONDS, Turns


class Loop:
    """A loop that runs when told, and a clock that `Worker`s move."""

    def __init__(self) -> None:
        self.now_seconds = 1.0
        self.ready: deque[Callable[[], None]] = deque()
        self.turns = Turns(self.ready.append, lambda: self.now_seconds)

    def run_once(self) -> None:
        for _ in range(len(self.ready)):
            self.ready.popleft()()


class Worker:
    """A connection that works for a time, so often."""

    def __init__(self, loop: Loop, name: str, log: list[str], *, seconds: float, times: int = 1) -> None:
        self._loop = loop
        self._name = name
        self._log = log
        self._seconds = seconds
        self._times = times

    def take_turn(self, now_seconds: float) -> None:
        assert now_seconds == self._loop.now_seconds
        self._log.append(self._name)
        self._loop.now_seconds += self._seconds
        self._loop.turns.busy_until_seconds = self._loop.now_seconds
        self._times -= 1
        if self._times:
            self._loop.turns.wait(self, goes_first=False)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_a_crowd_works_for_one_share_of_a_turn_and_goes_on_in_its_order(loop: Loop) -> None:
    log: list[str] = []
    for number in range(10):
        loop.turns.wait(Worker(loop, str(number), log, seconds=0.4 * MAX_TURN_SECONDS), goes_first=False)
    assert len(loop.ready) == 1, "one callback for all"
    loop.run_once()
    assert log == ["0", "1", "2"]
    loop.run_once()
    assert log == ["0", "1", "2", "3", "4", "5"]
    while loop.ready:
        loop.run_once()
    assert log == [str(number) for number in range(10)]


def test_a_busy_connection_waits_for_the_others_before_its_next_turn(loop: Loop) -> None:
    log: list[str] = []
    loop.turns.wait(Worker(loop, "busy", log, seconds=MAX_TURN_SECONDS / 10, times=3), goes_first=False)
    loop.turns.wait(Worker(loop, "new", log, seconds=0), goes_first=False)
    loop.run_once()
    assert log == ["busy", "new"]
    loop.run_once()
    loop.run_once()
    assert log == ["busy", "new", "busy", "busy"]


def test_other_brokers_go_first_and_do_not_starve_clients(loop: Loop) -> None:
    log: list[str] = []
    for _ in range(3):
        loop.turns.wait(Worker(loop, "client", log, seconds=2 * MAX_TURN_SECONDS), goes_first=False)
    for _ in range(2):
        loop.turns.wait(Worker(loop, "broker", log, seconds=2 * MAX_TURN_SECONDS), goes_first=True)
    loop.run_once()
    assert log == ["broker", "client"]
    loop.run_once()
    loop.run_once()
    assert log == ["broker", "client", "broker", "client", "client"]


def test_work_that_is_due_at_once_is_put_off_when_the_turn_is_used_up(loop: Loop) -> None:
    """Of ten thousand clients that send in one turn of the loop, only the first ones are worked on in it."""
    turns = loop.turns
    started = 0
    for _ in range(100):
        if not turns.are_over(loop.now_seconds):
            started += 1
            loop.now_seconds += MAX_TURN_SECONDS / 10
            turns.busy_until_seconds = loop.now_seconds
        else:
            loop.now_seconds += PAUSE_SECONDS / 2  # the time in which the bytes of the next one are read
    assert started == 11


def test_a_lone_busy_connection_is_not_put_off_when_the_loop_turns(loop: Loop) -> None:
    """Its bytes come in each turn of the loop, with no pause between two of them."""
    for _ in range(100):
        assert not loop.turns.are_over(loop.now_seconds)
        loop.now_seconds += MAX_TURN_SECONDS / 3
        loop.turns.busy_until_seconds = loop.now_seconds
        loop.run_once()


def test_work_that_was_put_off_gets_what_is_left_of_the_turn_and_one_share_at_least(loop: Loop) -> None:
    """A loop like uvloop's tells of bytes, then makes the calls that were asked for, then asks for more bytes."""
    turns = loop.turns
    log: list[str] = []
    assert not turns.are_over(loop.now_seconds)
    loop.now_seconds = turns.busy_until_seconds = loop.now_seconds + 0.9 * MAX_TURN_SECONDS
    for name in "abc":
        turns.wait(Worker(loop, name, log, seconds=0.2 * MAX_TURN_SECONDS), goes_first=False)
    loop.run_once()
    assert log == ["a"], "it has used up the turn"
    loop.run_once()
    assert log == ["a", "b", "c"], "this turn was theirs alone"


def test_those_that_wait_come_before_those_that_send_later(loop: Loop) -> None:
    turns = loop.turns
    turns.wait(Worker(loop, "before", [], seconds=0), goes_first=False)
    assert turns.are_over(loop.now_seconds)
    loop.run_once()
    assert not turns.are_over(loop.now_seconds)


def test_a_turn_begins_anew_when_the_loop_has_waited(loop: Loop) -> None:
    turns = loop.turns
    assert not turns.are_over(loop.now_seconds)
    loop.now_seconds = turns.busy_until_seconds = loop.now_seconds + 0.4 * MAX_TURN_SECONDS
    loop.now_seconds += 2 * PAUSE_SECONDS
    assert not turns.are_over(loop.now_seconds)
    loop.now_seconds = turns.busy_until_seconds = loop.now_seconds + 0.9 * MAX_TURN_SECONDS
    assert not turns.are_over(loop.now_seconds)


def test_a_turn_that_is_half_over_ends_when_the_loop_says_so(loop: Loop) -> None:
    """A pause in it is none of the loop's: another process had the core."""
    turns = loop.turns
    assert not turns.are_over(loop.now_seconds)
    for _ in range(2):
        loop.now_seconds = turns.busy_until_seconds = loop.now_seconds + 0.6 * MAX_TURN_SECONDS
        over = turns.are_over(loop.now_seconds)
        loop.now_seconds += 2 * PAUSE_SECONDS
    assert over
    assert turns.are_over(loop.now_seconds)
    loop.run_once()
    assert not turns.are_over(loop.now_seconds)


def test_those_that_wait_go_on_after_one_that_fails(loop: Loop) -> None:
    class Failing:
        def take_turn(self, now_seconds: float) -> None:
            raise RuntimeError("a bug")

    log: list[str] = []
    loop.turns.wait(Failing(), goes_first=False)
    loop.turns.wait(Worker(loop, "next", log, seconds=0), goes_first=False)
    with pytest.raises(RuntimeError):
        loop.run_once()
    loop.run_once()
    assert log == ["next"]
