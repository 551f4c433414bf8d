"""The layout of the job's output directory, and the checks of it before a run.

=========================================  ==========================================================================
``events/window=…/batch=…``                bronze: each event once, in the window in which it ended
``bad_records/batch=…``                    bronze: records that are no events, unchanged, with the reason
``windows``, ``operations``, ``holders``   gold: a partition for each window; see `aggregates`
``checkpoint``                             Spark's checkpoint: the offsets up to which the topic has been read
``settings.json``                          the settings that the tables depend on
``report.html``                            the report
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
    """The directory cannot be continued with these settings; the message says how to proceed."""


class Tables:
    """The tables in one directory, which the driver and all workers see under the same path.

    Args:
        root: the directory; it is created if it does not exist.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.checkpoint = self.root / "checkpoint"
        self.report = self.root / "report.html"
        self._settings = self.root / "settings.json"

    def path(self, table: str) -> Path:
        """Return the directory of a table."""
        return self.root / table

    def uri(self, name: str) -> str:
        """Return a directory as a file URI, since Spark's default file system may not be the local one."""
        return f"file://{self.root / name}"

    @contextmanager
    def opened(self, settings: Mapping[str, object]) -> Iterator[None]:
        """Lock the tables, and check that they were written with the same settings.

        Raises:
            CannotGoOn: the settings differ, another run has the lock, or the tables and the checkpoint do not match.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CannotGoOn(f"another run is writing to {self.root}") from error
            self._check(settings)
            # A topic without records gives a checkpoint and no rows: this directory shows that no table was removed.
            self.path("events").mkdir(exist_ok=True)
            for left in self.root.glob("*/.spark-staging-*"):
                shutil.rmtree(left)
            yield

    def windows(self, table: str) -> set[str]:
        """Return the names of the windows in a table."""
        return {each.name.removeprefix("window=") for each in self.path(table).glob("window=*")}

    def read_windows(self, spark: SparkSession, columns: str, windows: Iterable[str]) -> DataFrame:
        """Read the events of some windows, and open no other window's files.

        Args:
            columns: the events' columns, in Spark's DDL.
        """
        root = self.uri("events")
        paths = [f"{root}/window={window}" for window in sorted(windows)]
        return spark.read.schema(columns).option("basePath", root).parquet(*paths)

    def replace(self, table: str, rows: DataFrame, *by: str) -> None:
        """Write rows, partitioned by these columns; partitions that the rows are in are replaced, others stay."""
        # Spark's default, INT96, is deprecated, and other readers take it for nanoseconds, which end in the year 2262.
        rows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy(*by).parquet(self.uri(table))

    def _check(self, settings: Mapping[str, object]) -> None:
        begun = any(self.path(table).exists() for table in _BRONZE)
        landed = any(any(self.path(table).glob("*=*")) for table in _BRONZE)
        committed = any(self.checkpoint.glob("commits/[0-9]*"))
        if landed and not self.checkpoint.exists():
            raise CannotGoOn(
                f"{self.root} has tables but no checkpoint: batches would be numbered from 0 again, and overwrite "
                "what is there; write to another directory, or remove this one to start again"
            )
        if committed and not begun:
            raise CannotGoOn(
                f"{self.root} has a checkpoint but no tables: earlier records would be missing; write to another "
                "directory, or remove this one to start again"
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
