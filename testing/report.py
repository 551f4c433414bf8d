"""The report of a failed test: the text that says why requests waited, at most `MAX_LINES` lines."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from purgatorio.admin.operations.reading.report import (
    MAX_LINES,
    MAX_WIDTH,
    PARKED_SHOWN,
    REQUESTS_SHOWN,
    report_of,
    section,
)
from purgatorio.testing.controls import Controls

if TYPE_CHECKING:
    from purgatorio.testing.process_controls import ProcessControls

__all__ = ["MAX_LINES", "MAX_WIDTH", "PARKED_SHOWN", "REQUESTS_SHOWN", "report", "section"]

CHANGES_SHOWN: Final = 10


def report(controls: Controls | ProcessControls) -> str | Awaitable[str]:
    """Return the state of a cluster as text; runs in the cluster's loop."""
    if not isinstance(controls, Controls):
        return controls.report()
    changes = controls.timeline.changes
    lines = [f"at {each.at_ms / 1000:.3f} s {each.partition}: {each.what}" for each in changes]
    shown = section("changes of leaders and ISR", lines[-CHANGES_SHOWN:], 0, len(lines) - CHANGES_SHOWN)
    return report_of(controls.cluster, shown)
