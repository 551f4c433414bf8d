"""The console output while the stream runs: a line for each batch that has events or bad records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from purgatorio.pipeline.delays.batches import Landed


class Console:
    """Joins the counts of each batch with Spark's progress report of it.

    Args:
        say: prints a line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._landed: dict[int, Landed] = {}

    @property
    def waits(self) -> bool:
        """Whether Spark has yet to report a batch that has landed."""
        return bool(self._landed)

    def landed(self, batch: Landed) -> None:
        """Add a landed batch; its line is printed when Spark reports the batch."""
        self._landed[batch.batch_id] = batch

    def progress(self, batch_id: int, rows_per_second: float, sources: Sequence[Mapping[str, Any]]) -> None:
        """Print the line of a batch that Spark reports, once."""
        batch = self._landed.pop(batch_id, None)
        if batch is None or not batch.events + batch.bad:
            return
        waiting = sum(lag(source.get("endOffset"), source.get("latestOffset")) for source in sources)
        parts = [
            f"batch {batch.batch_id}",
            _count(batch.events, "event"),
            f"{batch.bad:,} bad",
            _count(len(batch.windows), "window"),
            f"{waiting:,} waiting",
            f"{rows_per_second:,.0f} rows/s",
        ]
        self._say(" · ".join(parts))


def lag(read: str | None, there: str | None) -> int:
    """Return the number of records after the read offsets, by Spark's JSON of offsets; 0 if that is not known."""
    if not read or not there:
        return 0
    ended, latest = json.loads(read), json.loads(there)
    if not isinstance(ended, dict) or not isinstance(latest, dict):
        return 0
    return sum(
        max(0, offset - ended.get(topic, {}).get(partition, 0))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
