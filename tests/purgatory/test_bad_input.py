"""Bad input to a purgatory or a timer raises before anything has changed: nothing stays parked, watched or timed."""

from __future__ import annotations

import math
from enum import IntEnum
from fractions import Fraction
from typing import Any

import pytest

from purgatorio.purgatory import MAX_DELAY_MS, Timer, TimerEntry, TimingWheel
from tests.compiled import checks_types_itself

UNHASHABLE: Any = ["a list"]


def assert_refused(house: Any, operation: Any, keys: Any, error: type[Exception], match: str) -> None:
    """The purgatory refuses the operation, has not asked it anything, and takes it once the mistake is corrected."""
    operation.during_try = lambda: pytest.fail("an operation that is refused is not checked")
    with pytest.raises(error, match=match):
        house.purgatory.try_complete_else_watch(operation, keys)
    house.assert_empty()
    assert (operation.history, operation.completed, operation.keys) == ([], False, ())
    operation.during_try = lambda: None
    operation.delay_ms = 10
    house.purgatory.try_complete_else_watch(operation, ["a"])
    assert house.purgatory.find(operation.id) is operation


@checks_types_itself
@pytest.mark.parametrize("delay_ms", [1.5, 30.0, -0.5, math.nan, math.inf, -math.inf, Fraction(1), "30", None])
def test_a_delay_that_is_no_integer_is_a_type_error(house: Any, waiting: Any, delay_ms: Any) -> None:
    assert_refused(house, waiting(delay_ms), ["a"], TypeError, "delay_ms must be an int")


def test_an_integer_of_another_type_becomes_an_int(house: Any, waiting: Any) -> None:
    class Port(IntEnum):
        KAFKA = 9092

    operation = waiting(Port.KAFKA)
    house.purgatory.try_complete_else_watch(operation, ["a"])
    assert type(operation.delay_ms) is int
    assert operation.deadline_ms == house.clock.ms + 9092


@checks_types_itself
@pytest.mark.parametrize("delay_ms", [True, False])
def test_a_bool_is_no_delay(house: Any, waiting: Any, delay_ms: Any) -> None:
    assert_refused(house, waiting(delay_ms), ["a"], TypeError, "delay_ms must be an int")


def test_a_delay_past_the_maximum_is_a_value_error(house: Any, waiting: Any) -> None:
    assert_refused(house, waiting(MAX_DELAY_MS + 1), ["a"], ValueError, "delay_ms")
    house.park("a", delay_ms=MAX_DELAY_MS)


@pytest.mark.parametrize("keys", [[UNHASHABLE], ["a", UNHASHABLE], [("a", UNHASHABLE)]])
def test_an_unhashable_key_is_a_type_error(house: Any, waiting: Any, keys: Any) -> None:
    assert_refused(house, waiting(), keys, TypeError, "unhashable")


@pytest.mark.parametrize("keys", ["kitchen", b"kitchen"])
def test_one_string_in_the_place_of_a_sequence_of_keys_is_a_type_error(house: Any, waiting: Any, keys: Any) -> None:
    """It would be watched under each of its letters."""
    assert_refused(house, waiting(), keys, TypeError, "sequence of keys")


def test_a_check_that_is_interrupted_takes_the_operation_out_again(house: Any, waiting: Any) -> None:
    operation = waiting()

    def interrupt_the_second_check() -> None:
        if operation.checks == 2:
            raise KeyboardInterrupt

    operation.during_try = interrupt_the_second_check
    with pytest.raises(KeyboardInterrupt):
        house.purgatory.try_complete_else_watch(operation, ["a"])
    house.assert_empty()
    assert house.actions.depth == 0


@checks_types_itself
def test_a_clock_that_tells_fractions_is_a_type_error() -> None:
    """`time.monotonic` is the likely mistake; each operation would be parked without a deadline."""
    with pytest.raises(TypeError, match="now_ms must return an int"):
        Timer(lambda: 1.5)  # type: ignore[arg-type, return-value]  # the mistake


@checks_types_itself
@pytest.mark.parametrize("delay_ms", [0.5, math.nan, math.inf, True, "5"])
def test_a_timer_calls_nothing_after_a_delay_that_is_no_integer(delay_ms: Any) -> None:
    timer = Timer(lambda: 0)
    with pytest.raises(TypeError, match="delay_ms must be an int"):
        timer.call_later(delay_ms, pytest.fail)
    assert timer.size == 0


@checks_types_itself
@pytest.mark.parametrize("deadline_ms", [math.nan, math.inf, 1.5, 1e300, MAX_DELAY_MS * 2])
def test_a_wheel_refuses_a_deadline_that_it_has_no_bucket_for(deadline_ms: Any) -> None:
    wheel = TimingWheel(0)
    entry = TimerEntry(deadline_ms)
    with pytest.raises((TypeError, ValueError)):
        wheel.add(entry)
    assert (len(wheel), entry.bucket, len(wheel.levels)) == (0, None, 1)
