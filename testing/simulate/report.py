"""The report of a seed that failed: what, when, where, the fewest faults, and the lines that run it again."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import traceback
from typing import Final

from purgatorio.testing.simulate.errors import CheckFailed
from purgatorio.testing.simulate.outcome import Failure
from purgatorio.testing.simulate.shrink import Shrunk

LAST_ENTRIES: Final = 20
MAX_FAULTS: Final = 30
MAX_TRACEBACK_LINES: Final = 30
MAX_PLAN: Final = 12
"""The faults of a plan that the report prints as a line to run again."""
_CLIENTS: Final = ("aiokafka", "faststream")
"""Packages whose versions decide the way of a seed, if they are imported."""


def report(shrunk: Shrunk, name: str, replay: str, replay_of_plan: str) -> str:
    """Return the report of a seed that failed, in lines.

    Args:
        shrunk: the run to report.
        name: the scenario.
        replay: the line that runs the seed again.
        replay_of_plan: the line that runs it with the faults of `shrunk`.
    """
    outcome = shrunk.outcome
    first = outcome.failures[0]
    lines = [
        f"seed {outcome.seed} of {name}: {_told(first)}",
        f"  after {first.at_seconds:.3f} s of virtual time, in {first.node}",
        f"  again: {replay}   # {versions()}",
    ]
    if shrunk.runs:
        lines.append(f"  {len(outcome.plan)} of {shrunk.found} faults are left, after {shrunk.runs} runs")
        if len(outcome.plan) <= MAX_PLAN:
            lines.append(f"  with these alone: {replay_of_plan}")
    if "PYTHONHASHSEED" not in os.environ:
        lines.append("  PYTHONHASHSEED is not set: another process may take another way")
    if not isinstance(first.error, CheckFailed):
        lines += ["", *_traceback(first.error)]
    lines += [f"  then {_told(each)} (in {each.node}, at {each.at_seconds:.3f} s)" for each in outcome.failures[1:]]
    faults = [str(entry) for entry in outcome.journal.of("fault")]
    lines += ["", f"faults ({len(faults)}):", *faults[:MAX_FAULTS]]
    last = [str(entry) for entry in outcome.journal][-LAST_ENTRIES:]
    lines += ["", f"the last of {len(outcome.journal)} events:", *last]
    return "\n".join(lines)


def versions() -> str:
    """Return the versions that decide the way of a seed, in a few words."""
    found = [f"Python {platform.python_version()}"]
    for name in ("purgatorio", *_CLIENTS):
        if name in sys.modules:
            try:
                found.append(f"{name} {importlib.metadata.version(name)}")
            except importlib.metadata.PackageNotFoundError:
                continue  # it runs from a checkout that is not installed
    return ", ".join(found)


def _told(failure: Failure) -> str:
    error, name = str(failure.error), type(failure.error).__name__
    return error if isinstance(failure.error, CheckFailed) or error.startswith(name) else f"{name}: {error}"


def _traceback(error: BaseException) -> list[str]:
    text = "".join(traceback.format_exception(error)).rstrip()
    return text.splitlines()[-MAX_TRACEBACK_LINES:]
