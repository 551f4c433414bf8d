"""Random events of a busy cluster, from a seed, and rows with them as the data source returns them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START_MS = 1_767_225_600_000
"""2026-01-01 00:00 UTC."""
RECORDS = "value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
TOPIC = "__delayed_operations"

_CAUSES = {
    "Produce": ("high watermark", "high watermark", "high watermark", "partition state"),
    "Fetch": ("append", "append", "high watermark", "new image"),
    "DeleteRecords": ("log start",),
    "topic": ("new image",),
}


def event(number: int = 1, **changed: Any) -> dict[str, Any]:
    """A produce request that waited 3 ms for broker 2."""
    return {
        "version": 1,
        "broker": 1,
        "broker_epoch": 7,
        "purgatory": "Produce",
        "kind": "produce",
        "id": number,
        "client": "toy-producer",
        "partitions": [{"topic": "orders", "partition": 0}],
        "other_keys": [],
        "parked_ms": START_MS,
        "done_ms": START_MS + 3,
        "deadline_ms": START_MS + 30_000,
        "outcome": "completed",
        "cause": "high watermark",
        "held_by": [2],
        "checks": 2,
        "detail": "",
    } | changed


def busy(seed: int, count: int, span_ms: int = 300_000) -> Iterator[dict[str, Any]]:
    """Iterate over events of three brokers, several clients and topics, almost in order; some are a minute late."""
    random = Random(seed)
    for number in range(1, count + 1):
        purgatory = random.choices(("Produce", "Fetch", "DeleteRecords", "topic"), (50, 44, 3, 3))[0]
        done_ms = START_MS + number * span_ms // count - (60_000 if random.random() < 0.02 else 0)
        expired = random.random() < (0.2 if purgatory == "Fetch" else 0.01)
        wait_ms = 500 if expired else int(random.lognormvariate(1.2 if purgatory == "Produce" else 4, 0.8))
        broker = random.randrange(1, 4)
        client = _client(random, purgatory, broker)
        yield event(
            number,
            broker=broker,
            purgatory=purgatory,
            kind=_kind(purgatory, client),
            client=client,
            partitions=_partitions(random, purgatory),
            other_keys=["topics"] if purgatory == "topic" else [],
            parked_ms=done_ms - wait_ms,
            done_ms=done_ms,
            deadline_ms=done_ms - wait_ms + 500,
            outcome="expired" if expired else random.choices(("completed", "cancelled", "error"), (98, 1, 1))[0],
            cause="expired" if expired else random.choice(_CAUSES[purgatory]),
            held_by=random.sample([each for each in (1, 2, 3) if each != broker], random.choice((1, 1, 2)))
            if purgatory in ("Produce", "DeleteRecords")
            else [],
            checks=random.choice((1, 2, 2, 3, 9)),
        )


def _client(random: Random, purgatory: str, broker: int) -> str:
    if purgatory == "Fetch":
        return random.choice(("rdkafka", f"broker-{broker % 3 + 1}-fetcher"))
    return random.choice(("toy-producer", "billing", ""))


def _kind(purgatory: str, client: str) -> str:
    if purgatory == "Fetch":
        return "follower fetch" if client.endswith("-fetcher") else "consumer fetch"
    return {"Produce": "produce", "DeleteRecords": "delete records"}.get(purgatory, purgatory)


def _partitions(random: Random, purgatory: str) -> list[dict[str, Any]]:
    if purgatory == "topic":
        return []
    names = random.sample(("orders", "payments", "clicks"), random.choice((1, 1, 1, 2)))
    return [{"topic": name, "partition": random.randrange(4)} for name in names]


Row = tuple[bytes | None, str, int, int, datetime]


def rows(values: Iterable[dict[str, Any] | str | bytes | None], first: int = 0) -> list[Row]:
    """Return records with these values, from an offset on; every third one is in another partition."""
    made = []
    for offset, value in enumerate(values, first):
        text = json.dumps(value) if isinstance(value, dict) else value
        raw = text.encode() if isinstance(text, str) else text
        made.append((raw, TOPIC, int(offset % 3 == 0), offset, datetime(2026, 1, 1, tzinfo=UTC)))
    return made


def frame(spark: SparkSession, values: Iterable[dict[str, Any] | str | bytes | None], first: int = 0) -> DataFrame:
    """Return a DataFrame of such rows."""
    return spark.createDataFrame(rows(values, first), RECORDS)
