"""Shrinking: the fewest and shortest faults with which the same check fails."""

from __future__ import annotations

from collections.abc import Callable

from purgatorio.testing.simulate.errors import CheckFailed
from purgatorio.testing.simulate.faults import HOLD_SECONDS, Plan, PlannedFault
from purgatorio.testing.simulate.journal import Journal
from purgatorio.testing.simulate.outcome import Failure, Outcome
from purgatorio.testing.simulate.shrink import MAX_RUNS, Shrunk, shrunk

FAULTS = tuple(PlannedFault(float(nth), "kill", 0.5, 2.0) for nth in range(10))


def outcome_of(plan: Plan, error: BaseException | None) -> Outcome:
    failures = [] if error is None else [Failure(1.0, "world", error)]
    return Outcome(7, plan, Journal(lambda: 0.0), failures)


def shrink(error: Callable[[Plan], BaseException | None], *, budget_seconds: float = 1.0) -> Shrunk:
    found = outcome_of(FAULTS, error(FAULTS))
    return shrunk(
        found, lambda plan: outcome_of(plan, error(plan)), budget_seconds=budget_seconds, now_seconds=lambda: 0.0
    )


def times(plan: Plan) -> list[float]:
    return [fault.at_seconds for fault in plan]


def test_faults_that_are_not_needed_are_dropped_and_the_others_are_shortened() -> None:
    def needs_two(plan: Plan) -> BaseException | None:
        long = [fault for fault in plan if fault.at_seconds == 6 and fault.seconds >= 0.9]
        return CheckFailed("lost", "1") if 3 in times(plan) and long else None

    less = shrink(needs_two)
    assert [(fault.at_seconds, fault.seconds) for fault in less.outcome.plan] == [(3.0, HOLD_SECONDS[0]), (6.0, 1.0)]
    assert less.found == 10
    assert less.runs <= 30


def test_a_seed_that_fails_without_faults_takes_one_more_run() -> None:
    less = shrink(lambda plan: ValueError("always"))
    assert (less.outcome.plan, less.runs) == ((), 1)


def test_a_run_that_fails_for_another_reason_does_not_count() -> None:
    less = shrink(lambda plan: CheckFailed("lost" if plan == FAULTS else "duplicates", "1"))
    assert less.outcome.plan == FAULTS


def test_without_time_the_plan_stays() -> None:
    less = shrink(lambda plan: ValueError("always"), budget_seconds=0)
    assert (less.outcome.plan, less.runs) == (FAULTS, 0)


def test_shrinking_ends_when_the_budget_is_spent() -> None:
    ticks = iter(range(1_000))
    less = shrunk(
        outcome_of(FAULTS, ValueError()),
        lambda plan: outcome_of(plan, None),
        budget_seconds=5,
        now_seconds=lambda: float(next(ticks)),
    )
    assert less.runs == 4
    assert less.outcome.plan == FAULTS
    assert less.runs < MAX_RUNS
