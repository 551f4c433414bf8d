"""A part of the comparison with Apache Kafka, which changes from run to run of CI, so that all has its turn.

A difference that is not in `known.py` fails. Before that its history is told again to both sides: on a busy machine a
timeout may have come between two requests.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.compat.programs import INSTALL_TIMEOUT_SECONDS
from tests.compat.same_answers.compare import RUNS, TURNS, Compared, Run, Sides, clusters, runs_of_turn
from tests.java import needs_java
from tests.simulation.seeds import turn_of

RUN_TIMEOUT_SECONDS = 900


def test_each_history_has_its_turn() -> None:
    told = Counter(run for turn in range(TURNS, 2 * TURNS) for run in runs_of_turn(turn))
    assert told == Counter(RUNS)
    assert all(len({run.kind for run in runs_of_turn(turn)}) == 1 for turn in range(TURNS))


@needs_java
@pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + RUN_TIMEOUT_SECONDS)
def test_the_answers_of_this_turn_are_those_of_kafka(record_property: Callable[[str, object], None]) -> None:
    """It is chosen by the number of CI's run, else by the day."""
    turn = turn_of(os.environ, datetime.now(UTC).date(), sys.version_info.minor) % TURNS
    runs = runs_of_turn(turn)
    record_property("note", f"turn {turn} of {TURNS} of the comparison with Apache Kafka: {len(runs)} histories")
    unknown: list[str] = []
    try:
        with clusters(guarded=runs[0].guarded, tiered=runs[0].tiered) as sides:
            for run in runs:
                unknown += _differs(run, sides)
    except SystemExit as error:  # Maven Central is not reached
        if "CI" in os.environ:
            raise AssertionError(str(error)) from error
        pytest.skip(str(error))
    assert not unknown, "\n".join(unknown)


def _differs(run: Run, sides: Sides) -> list[str]:
    """The unknown differences of a history that come a second time, too."""
    try:
        if not Compared().add(run, sides):
            return []
    except (AssertionError, OSError):
        pass  # it waited in vain for something
    again = replace(run, again=True)
    return [f"{run.name}: {line}" for line in Compared().add(again, sides)]
