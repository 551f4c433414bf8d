"""Shrinks the plan of a seed that failed: the fewest and shortest faults with which the same check fails.

The plan is data, and draws come from a stream for each purpose, so that a run with fewer faults is otherwise the same
run. First no faults are tried, then halves of the plan are left out, quarters, … single faults; then each fault is
made shorter.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from purgatorio.late import dataclass
from purgatorio.testing.simulate.errors import CheckFailed
from purgatorio.testing.simulate.faults import HOLD_SECONDS, Plan
from purgatorio.testing.simulate.outcome import Outcome

MAX_RUNS: Final = 200
"""The runs that one seed may take to shrink."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The result of shrinking.

    Attributes:
        outcome: the run with the fewest faults; the one that was found if no smaller one fails.
        found: the number of faults before.
        runs: how many runs it took.
    """

    outcome: Outcome
    found: int
    runs: int


def shrunk(
    found: Outcome,
    run: Callable[[Plan], Outcome],
    *,
    budget_seconds: float,
    now_seconds: Callable[[], float] = time.thread_time,
) -> Shrunk:
    """Return a run that fails for the same reason with fewer or shorter faults.

    Args:
        found: the run that failed.
        run: runs the same seed with a plan.
        budget_seconds: the CPU time of this thread after which no run begins.
    """
    shrinking = _Shrinking(found, run, now_seconds() + budget_seconds, now_seconds)
    if budget_seconds > 0 and found.plan and not shrinking.try_plan(()):
        shrinking.drop()
        shrinking.shorten()
    return Shrunk(shrinking.best, len(found.plan), shrinking.runs)


class _Shrinking:
    def __init__(
        self, found: Outcome, run: Callable[[Plan], Outcome], give_up_seconds: float, now_seconds: Callable[[], float]
    ) -> None:
        self.best = found
        self.runs = 0
        self._reason = reason(found)
        self._run = run
        self._give_up_seconds = give_up_seconds
        self._now_seconds = now_seconds

    def try_plan(self, plan: Plan) -> bool:
        """Run with a plan, and keep it if the same check fails; False too when the budget is spent."""
        if self.runs >= MAX_RUNS or self._now_seconds() >= self._give_up_seconds:
            return False
        self.runs += 1
        outcome = self._run(plan)
        if outcome.passed or reason(outcome) != self._reason:
            return False
        self.best = outcome
        return True

    def drop(self) -> None:
        """Leave out pieces of the plan, ever smaller ones, as long as it fails without them."""
        size = len(self.best.plan) // 2
        while size:
            start = 0
            while start < len(self.best.plan):
                plan = self.best.plan
                if not self.try_plan(plan[:start] + plan[start + size :]):
                    start += size
            size //= 2

    def shorten(self) -> None:
        """Make each fault as short as faults are, or else half as long."""
        for nth in range(len(self.best.plan)):
            fault = self.best.plan[nth]
            for seconds in (HOLD_SECONDS[0], round(fault.seconds / 2, 3)):
                plan = (*self.best.plan[:nth], replace(fault, seconds=seconds), *self.best.plan[nth + 1 :])
                if seconds < fault.seconds and self.try_plan(plan):
                    break


def reason(outcome: Outcome) -> tuple[str, str]:
    """Return what makes two failures the same: the check, or the type of the exception and the process."""
    first = outcome.failures[0]
    if isinstance(first.error, CheckFailed):
        return "check", first.error.check
    return first.node, type(first.error).__qualname__
