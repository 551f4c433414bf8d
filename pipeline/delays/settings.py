"""The settings of a run, and Spark's and the data source's options that follow from them; without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

TOPIC: Final = "__delayed_operations"
BATCH_RECORDS: Final = 100_000
"""The limit of records in a batch: Spark parses this many in a second or two, in a small driver's memory."""

_ANYWHERE: Final = {"spark.app.name": "purgatorio-delays", "spark.ui.showConsoleProgress": "false"}
_HERE: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # Spark would print the tracebacks of errors that this command prints as one line.
    "spark.log.level": "FATAL",
}


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """The settings of a run.

    Attributes:
        master: Spark's master URL; None if it is not given.
        kafka, spark: settings of the client and of Spark.
    """

    bootstrap: str
    out: Path
    topic: str = TOPIC
    window_ms: int = 60_000
    trigger_ms: int = 5_000
    once: bool = False
    master: str | None = None
    kafka: Mapping[str, str] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)


def source_options(settings: ReportSettings) -> dict[str, str]:
    """Return the options of the data source."""
    return {
        **{f"kafka.{key}": value for key, value in settings.kafka.items()},
        "kafka.bootstrap.servers": settings.bootstrap,
        "subscribe": settings.topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH_RECORDS),
    }


def spark_options(settings: ReportSettings, *, submitted: bool) -> dict[str, str]:
    """Return the settings of the Spark session.

    Args:
        submitted: whether spark-submit runs the command; its settings then stay, except those given to this command.
    """
    if submitted:
        said = {} if settings.master is None else {"spark.master": settings.master}
        return {**said, **settings.spark}
    master = settings.spark.get("spark.master", settings.master or "local[2]")
    here = _HERE if master.startswith("local") else {}
    return {**_ANYWHERE, **here, "spark.sql.session.timeZone": "UTC", **settings.spark, "spark.master": master}
