"""The report of a failed test: the text that says why requests waited, at most `MAX_LINES` lines."""

from __future__ import annotations

from typing import Final

from purgatorio.admin.operations.reading.report import (
    MAX_LINES,
    MAX_WIDTH,
    PARKED_SHOWN,
    REQUESTS_SHOWN,
    report_of,
    section,
)
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.testing.timeline import Timeline

__all__ = ["MAX_LINES", "MAX_WIDTH", "PARKED_SHOWN", "REQUESTS_SHOWN", "changes", "report", "section"]

CHANGES_SHOWN: Final = 10


def report(cluster: BrokerCluster, timeline: Timeline) -> str:
    """Return the state of a cluster as text; runs in the cluster's loop."""
    return report_of(cluster, changes(timeline))


def changes(timeline: Timeline) -> list[str]:
    """Return the last changes of leaders and in-sync replicas, as lines of a report."""
    lines = [f"at {each.at_ms / 1000:.3f} s {each.partition}: {each.what}" for each in timeline.changes]
    return section("changes of leaders and ISR", lines[-CHANGES_SHOWN:], 0, len(lines) - CHANGES_SHOWN)
