"""The bugs of the framework's history, each by its number; and what its own tests do not cover."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from tests.error_log import ErrorLog


def test_kafka_385_an_operation_is_answered_once_by_the_first_event_or_deadline(house: Any) -> None:
    operation = house.park("k", delay_ms=10)
    operation.ready = True
    house.purgatory.check_and_complete("k")
    house.advance(10)
    operation.expire()
    operation.force_complete()
    assert operation.history == ["answered"]


def test_kafka_664_completed_operations_do_not_stay_in_the_lists(make_house: Any) -> None:
    house = make_house(purge_interval=10)
    house.park("quiet")
    for _ in range(1000):
        house.park("quiet", "busy").force_complete()
    assert house.purgatory.watched <= 2 * 10 + 3
    house.purgatory.purge()
    assert house.purgatory.watched == 1


def test_kafka_1616_the_gauges_are_exact_through_every_way_out(house: Any) -> None:
    first = house.park("a", "b", delay_ms=10)
    second = house.park("a", delay_ms=20)
    assert (house.purgatory.watched, house.purgatory.num_delayed, house.timer.size) == (3, 2, 2)
    first.force_complete()
    assert (house.purgatory.num_delayed, house.timer.size) == (1, 1)
    house.advance(20)
    assert second.history == ["answered", "expired"]
    house.assert_empty()


def test_kafka_2160_an_empty_watch_list_does_not_stay(house: Any) -> None:
    for number in range(100):
        operation = house.park(("key", number))
        operation.ready = True
        assert house.purgatory.check_and_complete(("key", number)) == 1
    house.assert_empty()


@pytest.mark.parametrize("depth", [1, 2, 50])
def test_kafka_2253_3994_6042_8334_an_event_inside_a_completion_is_handled_after_it(house: Any, depth: int) -> None:
    chain = [house.park(number, name=str(number)) for number in range(depth + 1)]
    order: list[str] = []
    for number, operation in enumerate(chain):
        operation.ready = True
        operation.history = order
        operation.during_complete = lambda n=number: house.purgatory.check_and_complete(n + 1)
    house.purgatory.check_and_complete(0)
    assert order == [f"{number} answered" for number in range(depth + 1)]
    assert house.actions.depth == 0


def test_a_completion_that_raises_an_event_on_the_key_that_is_being_walked(house: Any) -> None:
    first, second = house.park("k"), house.park("k")
    first.ready = True

    def release_second() -> None:
        second.ready = True
        assert house.purgatory.check_and_complete("k") == 0, "it is queued"

    first.during_complete = release_second
    house.purgatory.check_and_complete("k")
    assert (first.history, second.history) == (["answered"], ["answered"])
    house.assert_empty()


def test_kafka_6653_an_event_between_the_check_and_the_watch_is_not_missed(house: Any, waiting: Any) -> None:
    operation = waiting()
    checks: list[int] = []

    def become_ready_after_the_first_check() -> None:
        operation.ready = len(checks) == 1
        checks.append(1)

    operation.during_try = become_ready_after_the_first_check
    assert house.purgatory.try_complete_else_watch(operation, ["k"])
    assert operation.history == ["answered"]
    assert (house.purgatory.num_delayed, house.timer.size) == (0, 0)


def test_kafka_15380_events_of_events_are_all_handled(house: Any) -> None:
    order: list[int] = []

    def act(number: int) -> None:
        order.append(number)
        if number < 10:
            house.actions.add(lambda: act(number + 1))

    with house.actions:
        house.actions.add(lambda: act(0))
        assert order == [], "nothing is handled before the outermost call has ended"
    assert order == list(range(11))


def test_one_failing_action_does_not_stop_the_rest(house: Any, error_log: ErrorLog) -> None:
    done: list[str] = []
    with house.actions:
        house.actions.add(lambda: 1 // 0)
        house.actions.add(lambda: done.append("second"))
    assert done == ["second"]
    error_log.expect("an action failed")


def test_actions_without_end_are_left_to_the_backlog_so_that_the_loop_can_go_round(house: Any) -> None:
    asked: list[str] = []
    house.actions.on_backlog = lambda: asked.append("please")

    def again() -> None:
        house.actions.add(again)

    with house.actions:
        again()
    assert asked == ["please"]
    assert len(house.actions) == 1


def test_kafka_17240_one_that_throws_in_its_check_does_not_starve_the_others(house: Any, error_log: ErrorLog) -> None:
    thrower, other = house.park("k"), house.park("k")
    thrower.during_try = lambda: 1 // 0
    other.ready = True
    house.purgatory.check_and_complete("k")
    assert thrower.history == ["failed: integer division or modulo by zero"]
    assert other.history == ["answered"]
    error_log.expect("ZeroDivisionError")
    house.assert_empty()


def test_one_that_throws_in_its_answer_is_answered_with_the_error(house: Any, error_log: ErrorLog) -> None:
    operation = house.park("k")
    operation.ready = True
    operation.during_complete = lambda: 1 // 0
    house.purgatory.check_and_complete("k")
    assert operation.history == ["answered", "failed: integer division or modulo by zero"]
    assert house.finished[-1].outcome == "error"
    error_log.expect("ZeroDivisionError")
    house.assert_empty()


def test_one_that_throws_on_arrival_is_answered_with_the_error(house: Any, waiting: Any, error_log: ErrorLog) -> None:
    operation = waiting()
    operation.during_try = lambda: 1 // 0
    assert house.purgatory.try_complete_else_watch(operation, ["k"])
    assert operation.history == ["failed: integer division or modulo by zero"]
    error_log.expect("ZeroDivisionError")
    house.assert_empty()


def test_kafka_18027_one_that_is_completed_while_it_is_being_watched_is_not_watched_further(
    house: Any, waiting: Any
) -> None:
    operation = waiting()
    seen: list[int] = []

    def complete_in_the_second_check() -> None:
        seen.append(1)
        if len(seen) == 2:
            operation.force_complete()

    operation.during_try = complete_in_the_second_check
    house.purgatory.try_complete_else_watch(operation, ["a", "b", "c"])
    assert (operation.history, house.timer.size, house.purgatory.num_delayed) == (["answered"], 0, 0)


def test_kafka_19389_19763_a_completed_operation_does_not_pin_its_payload_in_a_quiet_keys_list(house: Any) -> None:
    house.park("quiet")
    operation = house.park("busy", "quiet")
    pinned = weakref.ref(operation)
    operation.ready = True
    house.purgatory.check_and_complete("busy")
    del operation
    gc.collect()
    assert pinned() is None
    assert house.purgatory.num_delayed == 1


def test_lists_are_purged_when_more_than_the_interval_has_been_completed(make_house: Any) -> None:
    house = make_house(purge_interval=5)
    house.park("k")
    for _ in range(5):
        house.park("k").force_complete()
    assert house.purgatory.watched == 6
    house.park("k").force_complete()
    assert house.purgatory.watched == 1


def test_shutdown_answers_everything_and_parks_nothing_more(house: Any, waiting: Any) -> None:
    parked = [house.park("a", "b", delay_ms=10) for _ in range(3)]
    assert house.purgatory.shutdown() == 3
    assert [operation.history for operation in parked] == [["shut down"]] * 3
    late = waiting()
    assert house.purgatory.try_complete_else_watch(late, ["a"])
    assert late.history == ["shut down"]
    house.advance(10)
    house.assert_empty()


def test_shutdown_survives_one_that_throws(house: Any, error_log: ErrorLog) -> None:
    first, second = house.park("a"), house.park("a")
    first.on_shutdown = lambda: 1 // 0
    house.purgatory.shutdown()
    assert first.history == ["failed: integer division or modulo by zero"]
    assert second.history == ["shut down"]
    error_log.expect("ZeroDivisionError")
    house.assert_empty()
