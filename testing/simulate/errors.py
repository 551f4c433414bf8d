"""The errors of a simulation.

::

    AssertionError
        CheckFailed         a check of the world found a violation
        SimulationFailed    a seed failed; the message is its report
    RuntimeError
        OutsideSimulation   code asked for what no simulation has: a thread, a socket, another process
"""

from __future__ import annotations


class CheckFailed(AssertionError):
    """A check of the world found a violation.

    Attributes:
        check: the name of the check.
    """

    def __init__(self, check: str, message: str) -> None:
        super().__init__(f"{check}: {message}")
        self.check = check


class SimulationFailed(AssertionError):
    """A seed failed; the message is its report.

    Attributes:
        seed: the seed.
    """

    def __init__(self, seed: int, report: str) -> None:
        super().__init__(report)
        self.seed = seed


class OutsideSimulation(RuntimeError):
    """Code in a simulation asked for what only a real process has."""
