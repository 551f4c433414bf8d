"""What is done with each batch of the stream. All of it may be done twice: the second time changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from purgatorio.pipeline.delays import aggregates, events
from purgatorio.pipeline.delays.tables import GOLD, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Stopping(Exception):
    """The job is to end, so no further batch is begun."""


@dataclass(frozen=True, slots=True)
class Landed:
    """What a batch brought.

    Attributes:
        events, bad: how many of each.
        windows: the names of the windows that it had events of.
    """

    batch_id: int
    events: int
    bad: int
    windows: tuple[str, ...]


class Batches:
    """Lands batches, and brings the gold tables up to date; a function for `foreachBatch`.

    Bronze is written first. Should the job die after that, the batch comes again with the same offsets, so it replaces
    its own files, and its windows are made anew from all that is in bronze.

    Args:
        width_ms: how long a window is.
        done: called after each batch.
    """

    def __init__(self, tables: Tables, width_ms: int, done: Callable[[Landed], None]) -> None:
        self._tables = tables
        self._width_ms = width_ms
        self._done = done
        self._busy = threading.Lock()
        self._stopping = False

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Take a batch.

        Raises:
            Stopping: `stop` was called.
        """
        with self._busy:
            if self._stopping:
                raise Stopping
            landed = self.land(records, batch_id)
            self.refresh(records.sparkSession, landed.windows)
            self._done(landed)

    def stop(self) -> None:
        """Begin no further batch, and wait until the one that is being worked on is done."""
        self._stopping = True
        with self._busy:
            pass

    def land(self, records: DataFrame, batch_id: int) -> Landed:
        """Write a batch to bronze: its events, and its bad records."""
        parsed = events.with_windows(records, self._width_ms).persist()
        try:
            counts = {row["window"]: row["count"] for row in parsed.groupBy("window").count().collect()}
            bad = counts.pop(None, 0)
            if counts:
                self._tables.replace("events", events.good(parsed, batch_id), "window", "batch")
            if bad:
                self._tables.replace("bad_records", events.bad(parsed, batch_id), "batch")
        finally:
            parsed.unpersist()
        return Landed(batch_id, sum(counts.values()), bad, tuple(sorted(counts)))

    def refresh(self, spark: SparkSession, windows: Iterable[str]) -> None:
        """Make windows of the gold tables anew from bronze."""
        windows = sorted(windows)
        if not windows:
            return
        touched = self._tables.read_windows(spark, events.event_columns(), windows)
        tasks = min(len(windows), int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
        cells = aggregates.cells(touched, tasks).persist()
        try:
            for name, rows in zip(
                GOLD, (aggregates.windows(cells), aggregates.operations(cells), aggregates.holders(cells)), strict=True
            ):
                self._tables.replace(name, rows, "window")
        finally:
            cells.unpersist()

    def missing(self) -> set[str]:
        """Windows of bronze that a gold table lacks, because someone removed it or its partitions.

        A window may have no holders, so those are not looked at.
        """
        landed = self._tables.windows("events")
        return {window for table in GOLD[:2] for window in landed - self._tables.windows(table)}
