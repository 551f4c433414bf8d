"""The purgatory: what Kafka's own tests check (DelayedOperationTest), and what they leave out."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import purgatorio.purgatory
from purgatorio.purgatory.delayed_operation import MAX_CAUSES
from tests.error_log import ErrorLog


def test_an_event_completes_only_what_is_ready_under_its_key(house: Any) -> None:
    """checkAndComplete counts 0, then 1, then 0 (Kafka's testRequestSatisfaction)."""
    check = house.purgatory.check_and_complete
    assert check("a") == 0
    first = house.park("a")
    assert check("a") == 0
    second = house.park("b")
    assert check("b") == 0
    first.ready = True
    assert (check("a"), check("a")) == (1, 0)
    assert not second.completed
    second.ready = True
    assert (check("b"), check("b")) == (1, 0)
    house.assert_empty()


def test_what_is_ready_on_arrival_is_answered_and_not_parked(house: Any, waiting: Any) -> None:
    operation = waiting()
    operation.ready = True
    assert house.purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.history == ["answered"]
    assert operation.checks == 1
    assert house.finished == []
    house.assert_empty()


def test_an_operation_is_checked_again_once_it_is_watched(house: Any, waiting: Any) -> None:
    """The second check sees what came between the first one and the watch."""
    operation = waiting()
    operation.during_try = lambda: setattr(operation, "ready", operation.checks == 2)
    assert house.purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert operation.checks == 2
    house.assert_empty()


def test_it_expires_no_earlier_than_its_delay_and_answers_once(house: Any) -> None:
    """Kafka's testRequestExpiry: one of 20 ms expires, one of 200 s stays."""
    short, long = house.park("a", delay_ms=20), house.park("b", delay_ms=200_000)
    house.advance(19)
    assert short.history == []
    house.advance(1)
    assert short.history == ["answered", "expired"]
    assert house.clock.ms - short.parked_ms == 20
    assert not long.completed
    assert not short.force_complete()
    assert not short.expire()
    assert short.history == ["answered", "expired"]


@pytest.mark.parametrize("delay_ms", [0, -5])
def test_one_without_time_left_expires_at_once(house: Any, waiting: Any, delay_ms: int) -> None:
    operation = waiting(delay_ms)
    assert house.purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.history == ["answered", "expired"]
    house.assert_empty()


def test_purging_three_operations_under_six_watches_goes_4_2_1(house: Any) -> None:
    """Kafka's testRequestPurge: a walk drops what was completed elsewhere."""
    purgatory = house.purgatory
    house.park("a")
    second = house.park("a", "b")
    third = house.park("a", "b", "c")
    assert (purgatory.num_delayed, purgatory.watched) == (3, 6)
    second.force_complete()
    assert (purgatory.num_delayed, purgatory.watched) == (2, 6)
    third.force_complete()
    assert (purgatory.num_delayed, purgatory.watched) == (1, 6)
    sizes = []
    for key in "abc":
        assert purgatory.check_and_complete(key) == 0
        sizes.append(purgatory.watched)
    assert sizes == [4, 2, 1]


def test_cancelling_for_a_key_returns_its_operations_and_leaves_the_others(house: Any) -> None:
    """Kafka's shouldCancelForKeyReturningCancelledOperations."""
    first, second, other = house.park("a"), house.park("a"), house.park("b")
    assert house.purgatory.cancel_for_key("a") == [first, second]
    assert (house.purgatory.num_delayed, house.purgatory.watched, house.timer.size) == (1, 1, 1)
    assert not other.completed
    assert [finished.outcome for finished in house.finished] == ["cancelled", "cancelled"]


def test_cancelling_for_a_key_without_operations_returns_nothing(house: Any) -> None:
    assert house.purgatory.cancel_for_key("a") == []


def test_a_cancelled_operation_is_gone_everywhere_and_its_answer_is_the_callers(house: Any) -> None:
    """Cancelled under one of its keys, it is reached neither by the other key nor by its deadline."""
    operation = house.park("a", "b", delay_ms=50)
    operation.ready = True
    house.purgatory.cancel_for_key("a")
    house.assert_empty()
    assert house.purgatory.check_and_complete("b") == 0
    house.advance(100)
    assert operation.history == []
    assert operation.force_complete()
    assert operation.history == ["answered"]
    assert len(house.finished) == 1


def test_cancelling_takes_one_operation_out_of_keys_timer_and_index_without_an_answer(house: Any) -> None:
    operation, other = house.park("a", "b", delay_ms=50, name="gone"), house.park("a")
    operation.on_cancel = lambda: operation.note("cleaned up")
    assert house.purgatory.cancel(operation) is True
    assert (house.purgatory.num_delayed, house.timer.size, house.purgatory.find(operation.id)) == (1, 1, None)
    assert house.purgatory.cancel(operation) is False
    operation.ready = True
    assert house.purgatory.check_and_complete("b") == 0
    house.advance(100)
    assert operation.history == ["gone cleaned up"]
    assert [(done.id, done.outcome, done.causes) for done in house.finished] == [
        (operation.id, "cancelled", ("gone is not ready",))
    ]
    assert house.purgatory.cancel(other)
    house.assert_empty()
    assert operation.force_complete(), "it is the caller's to answer"


def test_cancelling_says_false_of_an_operation_that_is_not_parked_here(
    house: Any, make_house: Any, waiting: Any
) -> None:
    never_given, ended, elsewhere = waiting(), house.park("a"), make_house().park("a")
    ended.force_complete()
    for operation in (never_given, ended, elsewhere):
        assert house.purgatory.cancel(operation) is False
    assert elsewhere.history == []
    assert not elsewhere.completed


@pytest.mark.parametrize("check", [2, 3])
def test_an_operation_may_be_cancelled_by_its_own_check(house: Any, waiting: Any, check: int) -> None:
    """It is in no timer afterwards, whether it was being parked (check 2) or an event checked it (check 3)."""
    operation = waiting()

    def cancel() -> None:
        if operation.checks == check:
            assert house.purgatory.cancel(operation)

    operation.during_try = cancel
    assert not house.purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert house.purgatory.check_and_complete("a") == 0
    assert operation.history == []
    house.assert_empty()


def test_an_operation_cancelled_by_the_completion_of_another_is_not_completed(house: Any) -> None:
    first, second = house.park("a"), house.park("a")
    first.ready = second.ready = True
    first.during_complete = lambda: house.purgatory.cancel(second)
    assert house.purgatory.check_and_complete("a") == 1
    assert second.history == []
    house.assert_empty()


def test_a_clean_up_that_fails_is_logged_and_cancels_all_the_same(house: Any, error_log: ErrorLog) -> None:
    first, second = house.park("a"), house.park("a")
    first.on_cancel = lambda: 1 // 0
    assert house.purgatory.cancel_for_key("a") == [first, second]
    error_log.expect("failed in on_cancel")
    house.assert_empty()


def test_a_key_given_twice_counts_once(house: Any) -> None:
    operation = house.park("a", "a")
    assert operation.keys == ("a",)
    assert house.purgatory.watched == 1
    assert house.purgatory.cancel_for_key("a") == [operation]


def test_of_100_operations_and_20_attempts_each_none_is_missed(house: Any) -> None:
    """Kafka's testTryCompleteWithMultipleThreads: attempts in random order; the last of each makes it ready."""
    rng = random.Random(20)
    operations = [house.park(index) for index in range(100)]
    attempts = [index for index in range(100) for _ in range(20)]
    rng.shuffle(attempts)
    left = dict.fromkeys(range(100), 20)
    for index in attempts:
        left[index] -= 1
        operations[index].ready = left[index] == 0
        assert house.purgatory.check_and_complete(index) == (1 if left[index] == 0 else 0)
    assert all(operation.history == ["answered"] for operation in operations)
    house.assert_empty()


def test_no_keys_is_an_error(house: Any, waiting: Any) -> None:
    with pytest.raises(ValueError, match="at least one key"):
        house.purgatory.try_complete_else_watch(waiting(), [])


def test_an_operation_can_be_given_to_a_purgatory_once(house: Any) -> None:
    operation = house.park("a")
    with pytest.raises(ValueError, match="before"):
        house.purgatory.try_complete_else_watch(operation, ["b"])


def test_ids_are_unique_and_ascend(house: Any) -> None:
    assert [house.park("a").id for _ in range(3)] == [1, 2, 3]
    assert house.purgatory.find(2).id == 2
    assert house.purgatory.find(4) is None


def test_events_complete_the_oldest_first(house: Any) -> None:
    history: list[str] = []
    for name in "123":
        house.park("a", name=name).history = history
    for snapshot in house.purgatory.operations():
        house.purgatory.find(snapshot.id).ready = True
    assert house.purgatory.check_and_complete("a") == 3
    assert history == ["1 answered", "2 answered", "3 answered"]


def test_completing_by_hand_takes_it_out_of_the_timer(house: Any) -> None:
    operation = house.park("a", "b")
    assert house.purgatory.find(operation.id).force_complete()
    house.assert_empty()


def test_expiring_by_hand_is_what_the_deadline_does(house: Any) -> None:
    operation = house.park("a")
    assert operation.expire()
    assert operation.history == ["answered", "expired"]
    house.assert_empty()


def test_snapshots_are_bounded_oldest_first_and_say_what_is_missing(house: Any) -> None:
    for name in "123":
        house.park("a", name, name=name, delay_ms=500).client = f"client {name}"
    first, second = house.purgatory.operations(limit=2)
    assert first == (1, "Test", ("a", "1"), 1_000, 1_500, 2, "client 1", ("1 is not ready",))
    assert second.id == 2
    assert house.purgatory.watch_lists(limit=2) == [("a", 3), ("1", 1)]


def test_the_operations_under_one_key_are_shown_oldest_first(house: Any) -> None:
    for name in "abc":
        house.park("orders", name, name=name)
    house.park("others", name="d")
    assert [(each.id, each.causes) for each in house.purgatory.watching("orders", 2)] == [
        (1, ("a is not ready",)),
        (2, ("b is not ready",)),
    ]
    assert [each.causes for each in house.purgatory.watching("c")] == [("c is not ready",)]
    assert house.purgatory.watching("nothing") == []


def test_a_snapshot_costs_what_it_shows_and_not_what_there_is(house: Any) -> None:
    described: list[int] = []
    for number in range(1_000):
        operation = house.park(number, "all")
        operation.causes = lambda n=number: described.append(n) or ()
    assert [shown.id for shown in house.purgatory.operations(3)] == [1, 2, 3]
    assert described == [0, 1, 2]
    assert len(house.purgatory.operations()) == len(house.purgatory.watch_lists()) == 100
    assert len(house.purgatory.watch_lists(3)) == 3


def test_the_wheel_shows_in_which_buckets_the_deadlines_wait(house: Any) -> None:
    house.park("a", delay_ms=5)
    house.park("b", delay_ms=5)
    house.park("a", delay_ms=300)
    fine, coarse = house.purgatory.wheel()
    assert (fine.tick_ms, [tuple(bucket) for bucket in fine.buckets]) == (1, [(1_005, 2)])
    assert (coarse.tick_ms, [tuple(bucket) for bucket in coarse.buckets]) == (20, [(1_300, 1)])


def test_a_page_survives_an_operation_that_cannot_describe_itself(house: Any) -> None:
    house.park("a").causes = lambda: 1 / 0
    (cause,) = house.purgatory.operations()[0].causes
    assert str(cause).startswith("unknown: ZeroDivisionError")


def test_an_operation_that_has_ended_keeps_a_bounded_number_of_causes(house: Any) -> None:
    operation = house.park("a")
    operation.causes = lambda: list(range(1_000))
    operation.expire()
    (ended,) = house.finished
    assert [*ended.causes[:MAX_CAUSES]] == [*range(MAX_CAUSES)]
    assert [str(cause) for cause in ended.causes[MAX_CAUSES:]] == [f"and {1_000 - MAX_CAUSES} more"]


def test_finished_operations_are_reported_with_cause_and_what_they_missed(house: Any) -> None:
    done, late = house.park("a", name="done"), house.park("b", name="late", delay_ms=30)
    done.ready = True
    done.client = "somebody"
    late.held_by = lambda: (2, 3)
    house.clock.ms += 10
    house.purgatory.check_and_complete("a", "append")
    house.advance(20)
    assert house.finished == [
        (done.id, "Test", ("a",), 1_000, 1_010, 11_000, "completed", "append", 3, (), "", "somebody", (), "a"),
        (
            late.id,
            "Test",
            ("b",),
            1_000,
            1_030,
            1_030,
            "expired",
            "expired",
            2,
            ("late is not ready",),
            "",
            "",
            (2, 3),
            None,
        ),
    ]


def test_an_operation_that_cannot_tell_what_held_it_is_reported_all_the_same(house: Any, error_log: ErrorLog) -> None:
    operation = house.park("a")
    operation.held_by = lambda: 1 / 0
    operation.force_complete()
    assert [finished.held_by for finished in house.finished] == [()]
    error_log.expect("ZeroDivisionError")


def test_an_observer_that_fails_changes_nothing(house: Any, error_log: ErrorLog) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("observer")

    house.purgatory.on_finished = fail
    first, second = house.park("a"), house.park("a")
    first.ready = second.ready = True
    assert house.purgatory.check_and_complete("a") == 2
    for _ in (first, second):
        error_log.expect("RuntimeError: observer")


def test_an_operation_without_an_observer_costs_no_clock_reading(house: Any) -> None:
    """Without an observer, a completion reads no clock and asks nothing for a description."""
    operation = house.park("a")
    operation.causes = pytest.fail
    house.purgatory.on_finished = None
    house.timer.now_ms = pytest.fail
    operation.ready = True
    assert house.purgatory.check_and_complete("a") == 1


def test_two_purgatories_may_share_a_timer(make_house: Any) -> None:
    """The counts of each are its own."""
    one = make_house()
    two = make_house(timer=one.timer, actions=one.actions)
    one.park("a", delay_ms=5)
    two.park("a", delay_ms=9)
    assert (one.purgatory.num_delayed, two.purgatory.num_delayed, one.timer.size) == (1, 1, 2)
    one.advance(5)
    assert (one.purgatory.num_delayed, two.purgatory.num_delayed, one.timer.size) == (0, 1, 1)


@pytest.mark.process
def test_the_folder_works_alone_with_nothing_but_the_standard_library(tmp_path: Path) -> None:
    """A copy of it in an empty project, as its README says: all of its modules, the clocks too."""
    shutil.copytree(Path(purgatorio.purgatory.__file__).parent, tmp_path / "purgatorio" / "purgatory")
    program = (
        "import importlib, pkgutil, sys; import purgatorio.purgatory\n"
        "for each in pkgutil.iter_modules(purgatorio.purgatory.__path__, 'purgatorio.purgatory.'):\n"
        "    importlib.import_module(each.name)\n"
        "roots = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(roots - sys.stdlib_module_names - {'__main__'}), 'purgatorio.purgatory.clock' in sys.modules)"
    )
    # -S leaves out site-packages with its start-up hooks: whatever is not standard would not even be found.
    command = [sys.executable, "-S", "-E", "-c", program]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout.splitlines() == ["['purgatorio'] True"]


def test_one_drain_checks_an_operation_once_however_many_keys_had_an_event(house: Any) -> None:
    operation = house.park("a", "b", "c")
    before = operation.checks
    with house.actions:
        for key in "abc":
            house.purgatory.check_and_complete(key, key)
        house.purgatory.check(operation, "d")
    assert operation.checks == before + 1
    with house.actions:
        house.purgatory.check_and_complete("c", "c")
    assert operation.checks == before + 2, "a later drain checks it again"


def test_an_event_that_a_completion_causes_is_checked_in_a_round_of_its_own(house: Any) -> None:
    second = house.park("a", "b")
    first = house.park("b")
    first.ready = True

    def make_ready() -> None:
        second.ready = True
        house.purgatory.check_and_complete("a", "made ready")

    first.during_complete = make_ready
    with house.actions:
        house.purgatory.check_and_complete("b", "b")
    assert second.history == ["answered"]
    assert house.finished[-1].cause == "made ready"


def test_an_operation_may_be_checked_alone(house: Any) -> None:
    first, second = house.park("a"), house.park("a")
    first.ready = second.ready = True
    assert house.purgatory.check(first, "its event", "its key")
    assert (first.history, second.history) == (["answered"], [])
    assert (house.finished[-1].cause, house.finished[-1].event_key) == ("its event", "its key")
    assert house.purgatory.watched == 1, "its ticket is dropped at once"
    assert not house.purgatory.check(first), "it is not parked any more"


def test_an_operation_that_is_checked_alone_inside_a_call_waits_for_the_end_of_the_call(house: Any) -> None:
    operation = house.park("a")
    with house.actions:
        operation.ready = True
        assert not house.purgatory.check(operation, "first")
        assert not house.purgatory.check(operation, "second")
        assert operation.history == []
    assert operation.history == ["answered"]
    assert house.finished[-1].cause == "first"


def test_an_operation_that_fails_when_it_is_checked_alone_is_answered_with_an_error(
    house: Any, error_log: ErrorLog
) -> None:
    operation = house.park("a")

    def fail() -> None:
        raise ValueError("broken")

    operation.during_try = fail
    house.purgatory.check(operation)
    assert operation.history == ["failed: broken"]
    error_log.expect("ValueError")
    house.assert_empty()


def test_observers_see_the_keys_that_one_key_stands_for(house: Any, waiting: Any) -> None:
    operation = waiting()
    house.purgatory.try_complete_else_watch(operation, ("session",), shown_keys=("a", "b"))
    assert house.purgatory.operations()[0].keys == ("a", "b")
    assert [each.key for each in house.purgatory.watch_lists()] == ["session"]
    operation.ready = True
    house.purgatory.check_and_complete("session", "event")
    assert house.finished[-1].keys == ("a", "b")
    house.assert_empty()


def test_behind_one_in_order_that_waits_others_in_order_are_not_checked(house: Any, waiting: Any) -> None:
    """Those that are not in order are checked, wherever they stand."""
    first, free, second, last = (waiting(name=name) for name in ("first", "free", "second", "last"))
    for each in (first, second, last):
        each.in_order = True
    for each in (first, free, second, last):
        house.purgatory.try_complete_else_watch(each, ["key"])
    before = [each.checks for each in (first, free, second, last)]
    free.ready = True
    assert house.purgatory.check_and_complete("key") == 1
    assert [each.checks for each in (first, free, second, last)] == [before[0] + 1, before[1] + 1, *before[2:]]
    first.ready = second.ready = True
    assert house.purgatory.check_and_complete("key") == 2
    assert [each.completed for each in (first, second, last)] == [True, True, False]
