"""The report of a failed test: the text that says why requests waited, at most `MAX_LINES` lines."""

from __future__ import annotations

from typing import Any, Final

from purgatorio.admin.operations.reading.report import (
    MAX_LINES,
    MAX_WIDTH,
    PARKED_SHOWN,
    REQUESTS_SHOWN,
    ago,
    report_of,
    section,
)
from purgatorio.testing.timeline import Timeline

__all__ = ["MAX_LINES", "MAX_WIDTH", "PARKED_SHOWN", "REQUESTS_SHOWN", "report", "section"]

CHANGES_SHOWN: Final = 10


def report(facts: dict[str, Any], timeline: Timeline) -> str:
    """Return the facts of a cluster as text, with the last changes of leaders and in-sync replicas."""
    now = list(timeline.changes)  # at one moment: the brokers' thread goes on
    lines = [f"{ago(each.at_ms, timeline.now_ms)} {each.partition}: {each.what}" for each in now]
    changes = section("changes of leaders and ISR", lines[-CHANGES_SHOWN:], 0, len(lines) - CHANGES_SHOWN)
    return report_of(facts, changes)
