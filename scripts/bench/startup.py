"""Time until three brokers accept connections, and their memory."""

from __future__ import annotations

import statistics

from processes import brokers
from rows import Row, at_most


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    seconds, resident = [], []
    for _ in range(1 if quick else 5):
        with brokers() as running:
            seconds.append(running.start_seconds)
            resident.append(running.resident_mb)
    return [
        at_most("three brokers, process start to accepting", statistics.median(seconds), 1.0, " s"),
        at_most("three brokers, resident memory", statistics.median(resident), 66, " MB"),
    ]
