"""Writing rows, against a cluster in a process of its own; without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("confluent_kafka", reason="install purgatorio[spark]")


from purgatorio.pipeline.client import Metadata, RecordReader
from purgatorio.pipeline.offsets import OffsetRange, TopicPartition
from purgatorio.pipeline.options import WriteOptions
from purgatorio.pipeline.producing import RowRefused, Writer
from purgatorio.pipeline.rows import to_arrow
from tests.pipeline.conftest import new_topic

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("headers", pa.list_(HEADER)),
    ]
)


@pytest.fixture
def topic(servers: str) -> str:
    """A topic of two partitions that no other test uses."""
    return new_topic(servers, 2)


def write(servers: str, topic: str | None, *rows: dict[str, Any], **settings: str) -> int:
    client = {"bootstrap.servers": servers, **{name.replace("_", "."): value for name, value in settings.items()}}
    writer = Writer(WriteOptions(client, topic), tuple(SCHEMA.names))
    return writer.write([pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA)])


def read(servers: str, topic: str, partition: int) -> list[dict[str, Any]]:
    tp = TopicPartition(topic, partition)
    client = {"bootstrap.servers": servers}
    ranges = [OffsetRange(*tp, 0, Metadata(client).latest([tp])[tp])]
    return [
        row for batch in to_arrow(RecordReader(client).read(ranges), include_headers=True) for row in batch.to_pylist()
    ]


def test_nulls_are_written_as_nulls(servers: str, topic: str) -> None:
    rows: list[dict[str, Any]] = [
        {"key": b"k", "value": None, "partition": 1, "headers": [{"key": "h", "value": None}]},
        {"key": None, "value": b"", "partition": 1, "headers": []},
    ]
    assert write(servers, topic, *rows) == 2
    first, second = read(servers, topic, 1)
    assert (first["key"], first["value"], first["headers"]) == (b"k", None, [{"key": "h", "value": None}])
    assert (second["key"], second["value"], second["headers"]) == (None, b"", None)


def test_the_error_for_a_refused_row_names_the_partition_and_the_reason(servers: str, topic: str) -> None:
    for row, where, why in [
        ({"value": b"v", "partition": 9}, f"{topic}-9", "Unknown partition"),
        ({"value": b"v", "partition": -5}, topic, "Unknown partition"),
        ({"value": b"x" * 2_000_000}, topic, "Message size too large"),
        ({"value": b"x" * 2_000_000, "partition": 1}, f"{topic}-1", "Message size too large"),
    ]:
        with pytest.raises(RowRefused, match=rf"a row for {where} was not written to .*{why}"):
            write(servers, topic, {"value": b"before"}, row)
    with pytest.raises(RowRefused, match=rf"a row for {topic}-1 was not written to .*Broker: Message size too large"):
        write(servers, topic, {"value": b"x" * 2_000_000, "partition": 1}, message_max_bytes="9000000")
    with pytest.raises(RowRefused, match=r"a row for a b was not written to .*Invalid topic"):
        write(servers, None, {"value": b"v", "topic": "a b"})


def test_a_row_without_a_topic_or_with_a_header_without_a_key_is_refused(servers: str, topic: str) -> None:
    with pytest.raises(ValueError, match="a row names no topic, and there is no option topic"):
        write(servers, None, {"value": b"v"})
    for header in (None, {"key": None, "value": b"x"}):
        with pytest.raises(ValueError, match="a row has a header that is null or has no key"):
            write(servers, topic, {"value": b"v", "headers": [header]})


def test_the_error_for_a_row_that_timed_out_tells_the_connection_error() -> None:
    with pytest.raises(RowRefused, match=r"a row for t was not written to 127\.0\.0\.1:1: .*timed out.*refused"):
        write("127.0.0.1:1", "t", {"value": b"v"}, message_timeout_ms="300")


def test_idempotence_may_be_switched_off(servers: str, topic: str) -> None:
    assert write(servers, topic, {"value": b"v", "partition": 0}, enable_idempotence="false", acks="1") == 1
    assert [row["value"] for row in read(servers, topic, 0)] == [b"v"]
