"""Seeds that are recorded once for all tests of a process."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from purgatorio.simulation import mutants
from purgatorio.simulation.run import Scenario, SeedReport, simulate
from purgatorio.simulation.watch.failure import SeenAnomaly, failures
from purgatorio.simulation.watch.recorder import Recorder

SHORT = Scenario(seconds=3.0)


class Recorded(NamedTuple):
    """A seed that has run, and what was recorded of it."""

    report: SeedReport
    recorder: Recorder
    failures: list[SeenAnomaly]


@cache
def recorded(seed: int = 2, without: str = "") -> Recorded:
    recorder = Recorder(f"seed {seed}")
    if without:
        with mutants.without(without):
            report = simulate(seed, Scenario(), watch=recorder.watch)
    else:
        report = simulate(seed, SHORT, watch=recorder.watch)
    failed = failures(report.anomalies, report.history, recorder.frames, recorder.seen)
    return Recorded(report, recorder, failed)
