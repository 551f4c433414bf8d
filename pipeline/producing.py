"""Writes rows to topics: an idempotent producer, and no row forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pipeline.client import BrokerUnreachable
from pipeline.options import WriteOptions

FLUSH_SECONDS: Final = 300.0
"""How long the last rows may take; the client gives each up earlier, after its own message.timeout.ms."""


class Writer:
    """Writes the rows of one task.

    Args:
        options: the topic, and settings of the client.
        columns: the names of the rows' columns.
    """

    def __init__(self, options: WriteOptions, columns: tuple[str, ...]) -> None:
        self._servers = options.client["bootstrap.servers"]
        self._topic = options.topic
        self._columns = columns
        self._failure: KafkaError | None = None
        settings: dict[str, Any] = {
            "client.id": "purgatorio-spark",
            "log_level": "0",
            "linger.ms": "20",
            **options.client,
            "enable.idempotence": True,
        }
        self._producer = Producer(settings)

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write all rows; returns how many, when every one is acknowledged.

        Raises:
            KafkaException: a row was refused or given up; others may have been written.
            BrokerUnreachable: rows are still waiting after FLUSH_SECONDS.
        """
        rows = 0
        for batch in batches:
            columns = {name: batch.column(name).to_pylist() for name in self._columns}
            for nth in range(batch.num_rows):
                self._send({name: column[nth] for name, column in columns.items()})
            rows += batch.num_rows
            self._check()
        if self._producer.flush(FLUSH_SECONDS):
            raise BrokerUnreachable(f"rows could not be written to {self._servers} within {FLUSH_SECONDS:g} s")
        self._check()
        return rows

    def _send(self, row: dict[str, Any]) -> None:
        topic = row.get("topic") if self._topic is None else self._topic
        if not topic:
            raise ValueError("a row names no topic, and there is no option topic")
        headers = row.get("headers")
        message: dict[str, Any] = {
            "key": row.get("key"),
            "value": row["value"],
            "headers": None if headers is None else [(each["key"], each["value"]) for each in headers],
            "on_delivery": self._delivered,
        }
        if row.get("partition") is not None:
            message["partition"] = row["partition"]
        while True:
            try:
                self._producer.produce(topic, **message)
            except BufferError:
                self._producer.poll(1)
                self._check()
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = error

    def _check(self) -> None:
        self._producer.poll(0)
        if self._failure is not None:
            raise KafkaException(self._failure)
