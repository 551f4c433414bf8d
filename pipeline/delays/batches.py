"""The processing of each batch of the stream. It is idempotent: processing a batch again changes nothing."""

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
    """The job is stopping, so no further batch is started."""


@dataclass(frozen=True, slots=True)
class Landed:
    """The content of a batch.

    Attributes:
        events, bad: the number of events and of bad records.
        windows: the names of the windows of its events.
    """

    batch_id: int
    events: int
    bad: int
    windows: tuple[str, ...]


class Batches:
    """Lands batches, and updates the gold tables; a function for `foreachBatch`.

    Bronze is written first. If the job dies after that, Spark repeats the batch with the same offsets: it replaces its
    own files, and its windows are made again from bronze.

    Args:
        width_ms: the width of a window.
        done: called after each batch.
    """

    def __init__(self, tables: Tables, width_ms: int, done: Callable[[Landed], None]) -> None:
        self._tables = tables
        self._width_ms = width_ms
        self._done = done
        self._busy = threading.Lock()
        self._stopping = False

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Process a batch.

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
        """Start no further batch, and wait for the current one."""
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
        """Make windows of the gold tables again from bronze."""
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
        """Return the windows of bronze that a gold table lacks, as after its directory or partitions were removed.

        A window may have no holders, so that table is not checked.
        """
        landed = self._tables.windows("events")
        return {window for table in GOLD[:2] for window in landed - self._tables.windows(table)}
