"""The report of a seed that failed: what, when, where, and the line that runs it again."""

from __future__ import annotations

import platform
import traceback
from typing import Final

from purgatorio.testing.simulate.errors import CheckFailed
from purgatorio.testing.simulate.outcome import Failure, Outcome

LAST_ENTRIES: Final = 20
MAX_FAULTS: Final = 30
MAX_TRACEBACK_LINES: Final = 30


def report(outcome: Outcome, name: str, replay: str) -> str:
    """Return the report of a seed that failed, in lines.

    Args:
        name: the scenario.
        replay: the line that runs the seed again.
    """
    first = outcome.failures[0]
    lines = [
        f"seed {outcome.seed} of {name}: {_told(first)}",
        f"  after {first.at_seconds:.3f} s of virtual time, in {first.node}",
        f"  again: {replay}   # Python {platform.python_version()}",
    ]
    if not isinstance(first.error, CheckFailed):
        lines += ["", *_traceback(first.error)]
    lines += [f"  then {_told(each)} (in {each.node}, at {each.at_seconds:.3f} s)" for each in outcome.failures[1:]]
    faults = [str(entry) for entry in outcome.journal.of("fault")]
    lines += ["", f"faults ({len(faults)}):", *faults[:MAX_FAULTS]]
    last = [str(entry) for entry in outcome.journal][-LAST_ENTRIES:]
    lines += ["", f"the last of {len(outcome.journal)} events:", *last]
    return "\n".join(lines)


def _told(failure: Failure) -> str:
    error, name = str(failure.error), type(failure.error).__name__
    return error if isinstance(failure.error, CheckFailed) or error.startswith(name) else f"{name}: {error}"


def _traceback(error: BaseException) -> list[str]:
    text = "".join(traceback.format_exception(error)).rstrip()
    return text.splitlines()[-MAX_TRACEBACK_LINES:]
