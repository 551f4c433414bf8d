"""The outcome of one seed."""

from __future__ import annotations

from dataclasses import field

from purgatorio.late import dataclass
from purgatorio.testing.simulate.faults import Plan
from purgatorio.testing.simulate.journal import Journal


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a seed failed.

    Attributes:
        at_seconds: virtual seconds since the scenario began.
        node: the process that failed; "world" for the scenario.
        error: the exception.
    """

    at_seconds: float
    node: str
    error: BaseException


@dataclass(slots=True)
class Outcome:
    """The outcome of one seed.

    Attributes:
        plan: the faults that were planned.
        journal: what happened.
        failures: in order; empty if the seed passed.
        virtual_seconds: how long the scenario took in virtual time.
        real_seconds: how long it took.
    """

    seed: int
    plan: Plan
    journal: Journal
    failures: list[Failure] = field(default_factory=list)
    virtual_seconds: float = 0.0
    real_seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures
