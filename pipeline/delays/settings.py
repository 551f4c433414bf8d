"""What a run was told, and what follows from it for Spark: without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

TOPIC: Final = "__delayed_operations"
BATCH_RECORDS: Final = 100_000
"""Records that a batch has at most: so many are parsed within a second or two, and fit a small driver's memory."""

_ANYWHERE: Final = {"spark.app.name": "purgatorio-delays", "spark.ui.showConsoleProgress": "false"}
_HERE: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # Spark prints the traces of errors that this command then puts into a line.
    "spark.log.level": "FATAL",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run was told.

    Attributes:
        master: None: not said.
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


def source_options(settings: Settings) -> dict[str, str]:
    """What the data source is told."""
    return {
        **{f"kafka.{key}": value for key, value in settings.kafka.items()},
        "kafka.bootstrap.servers": settings.bootstrap,
        "subscribe": settings.topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH_RECORDS),
    }


def spark_options(settings: Settings, *, submitted: bool) -> dict[str, str]:
    """What the session is told.

    Args:
        submitted: by spark-submit, whose settings then stand, but for those said to this command itself.
    """
    if submitted:
        said = {} if settings.master is None else {"spark.master": settings.master}
        return {**said, **settings.spark}
    master = settings.spark.get("spark.master", settings.master or "local[2]")
    here = _HERE if master.startswith("local") else {}
    return {**_ANYWHERE, **here, "spark.sql.session.timeZone": "UTC", **settings.spark, "spark.master": master}
