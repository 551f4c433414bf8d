"""Writes rows to topics with an idempotent producer, and checks that all rows are acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from purgatorio.pipeline.client import BrokerUnreachable, ConnectionErrors
from purgatorio.pipeline.options import WriteOptions

FLUSH_SECONDS: Final = 300.0
"""The time limit of the last flush; the client fails a row earlier, after its own message.timeout.ms."""


class RowRefused(Exception):
    """A row was not written: a broker or the client refused it, or no broker acknowledged it in time."""


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
        self._failure: RowRefused | None = None
        self._errors = ConnectionErrors()
        settings: dict[str, Any] = {
            "client.id": "purgatorio-spark",
            "log_level": "0",
            "linger.ms": "20",
            "enable.idempotence": "true",
            **options.client,
            "error_cb": self._errors,
        }
        self._producer = Producer(settings)

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write all rows; return their number when all are acknowledged.

        Raises:
            RowRefused: a row was refused or timed out; other rows may have been written.
            BrokerUnreachable: rows are not acknowledged after FLUSH_SECONDS.
            ValueError: a row is invalid: it names no topic, or a header has no key.
        """
        rows = 0
        for batch in batches:
            columns = {name: batch.column(name).to_pylist() for name in self._columns}
            for nth in range(batch.num_rows):
                self._send({name: column[nth] for name, column in columns.items()})
            rows += batch.num_rows
            self._check()
        if self._producer.flush(FLUSH_SECONDS):
            raise BrokerUnreachable(
                f"rows could not be written to {self._servers} within {FLUSH_SECONDS:g} s{self._errors}"
            )
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
            "headers": None if headers is None else [_header(each) for each in headers],
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
            except KafkaException as error:
                self._check()  # an earlier failure is the cause of a fatal error
                raise self._refused(topic, row.get("partition"), error.args[0]) from error
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = self._refused(message.topic(), message.partition(), error)

    def _refused(self, topic: str | None, partition: int | None, error: KafkaError) -> RowRefused:
        where = topic if partition is None or partition < 0 else f"{topic}-{partition}"
        # For a row that timed out, only the connection errors show the cause.
        cause = self._errors if error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError._FATAL) else ""
        return RowRefused(f"a row for {where} was not written to {self._servers}: {error.str()}{cause}")

    def _check(self) -> None:
        self._producer.poll(0)
        if self._failure is not None:
            raise self._failure


def _header(header: dict[str, Any] | None) -> tuple[str, bytes | None]:
    if header is None or header["key"] is None:
        raise ValueError("a row has a header that is null or has no key")
    return header["key"], header["value"]
