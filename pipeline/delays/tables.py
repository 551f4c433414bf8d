"""Where everything lies in the directory that the job writes to, and what must be true of it before a run.

=========================================  ==========================================================================
``events/window=…/batch=…``                bronze: each event once, in the window in which it ended
``bad_records/batch=…``                    bronze: records that are no events, as they came, and why
``windows``, ``operations``, ``holders``   gold: a partition for each window; see `aggregates`
``checkpoint``                             how far the topic has been read; Spark's own
``settings.json``                          what the tables depend on
``report.html``                            the page
=========================================  ==========================================================================
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOLD: Final = ("windows", "operations", "holders")
_BRONZE: Final = ("events", "bad_records")


class CannotGoOn(Exception):
    """The directory holds something else than this run would go on with; the message says what to do."""


class Tables:
    """The tables in one directory, which the driver and all workers see under the same path.

    Args:
        root: the directory; it need not be there yet.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.checkpoint = self.root / "checkpoint"
        self.report = self.root / "report.html"
        self._settings = self.root / "settings.json"

    def path(self, table: str) -> Path:
        """The directory of a table."""
        return self.root / table

    def uri(self, name: str) -> str:
        """A directory as Spark names it, whose own file system may be another than the local one."""
        return f"file://{self.root / name}"

    @contextmanager
    def opened(self, settings: Mapping[str, object]) -> Iterator[None]:
        """Have the tables for oneself, after a check that they were written with the same settings.

        Raises:
            CannotGoOn: they were not, or another run has them, or the tables and the checkpoint are not of one age.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CannotGoOn(f"another run is writing to {self.root}") from error
            self._check(settings)
            for left in self.root.glob("*/.spark-staging-*"):
                shutil.rmtree(left)
            yield

    def windows(self, table: str) -> set[str]:
        """The names of the windows that a table has."""
        return {each.name.removeprefix("window=") for each in self.path(table).glob("window=*")}

    def read_windows(self, spark: SparkSession, columns: str, windows: Iterable[str]) -> DataFrame:
        """The events of some windows; no other is opened.

        Args:
            columns: of the events, in Spark's DDL.
        """
        root = self.uri("events")
        paths = [f"{root}/window={window}" for window in sorted(windows)]
        return spark.read.schema(columns).option("basePath", root).parquet(*paths)

    def replace(self, table: str, rows: DataFrame, *by: str) -> None:
        """Write rows; partitions by these columns that they have rows for are replaced, others stay as they are."""
        # Spark's default, INT96, is deprecated, and other readers take it for nanoseconds, which end in the year 2262.
        rows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy(*by).parquet(self.uri(table))

    def _check(self, settings: Mapping[str, object]) -> None:
        landed = any(self.path(table).exists() for table in _BRONZE)
        committed = any(self.checkpoint.glob("commits/[0-9]*"))
        if landed and not self.checkpoint.exists():
            raise CannotGoOn(
                f"{self.root} has tables but no checkpoint: batches would be numbered from 0 again, and overwrite "
                "what is there; write to another directory, or remove this one to begin anew"
            )
        if committed and not landed:
            raise CannotGoOn(
                f"{self.root} has a checkpoint but no tables: what was read before would be missing; write to another "
                "directory, or remove this one to begin anew"
            )
        if not self._settings.exists():
            self._settings.write_text(json.dumps(dict(settings), indent=2) + "\n", encoding="utf-8")
        kept = json.loads(self._settings.read_text(encoding="utf-8"))
        for name, value in settings.items():
            if kept.get(name) != value:
                raise CannotGoOn(
                    f"the tables in {self.root} were written with {name} {kept.get(name)}, not {value}: say so again, "
                    "or write to another directory"
                )
