"""The data source that Spark sees: ``spark.read.format("purgatorio")`` and ``df.write.format("purgatorio")``.

Columns and options are those of Spark's Kafka connector. Writing is at least once: a task that Spark repeats writes its
rows again, and what a job has written before it fails stays written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pipeline.offsets import OffsetRange, ranges_between, resolve, tasks_of
from pipeline.options import ReadOptions, WriteOptions, read_options, write_options

DEFAULT_TASKS = 2


class PurgatorioDataSource(DataSource):
    """A data source named "purgatorio"."""

    @classmethod
    def name(cls) -> str:
        """What follows `format`."""
        return "purgatorio"

    def schema(self) -> str:
        """The columns, with headers if they are asked for."""
        from pipeline import rows

        headers = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        return f"{rows.SCHEMA}, {rows.HEADERS}" if headers else rows.SCHEMA

    def reader(self, schema: StructType) -> TopicReader:
        """Reads from a starting to an ending position."""
        return TopicReader(read_options(dict(self.options), streaming=False), _parallelism())

    def writer(self, schema: StructType, overwrite: bool) -> TopicWriter:
        """Appends rows to topics."""
        if overwrite:
            raise ValueError("a topic can only be appended to: write with mode append")
        return TopicWriter(write_options(dict(self.options)), schema)


def _parallelism() -> int:
    """How many tasks run at once."""
    session = SparkSession.getActiveSession()
    return DEFAULT_TASKS if session is None else int(session.sparkContext.defaultParallelism)


class Task(InputPartition):
    """The ranges that one task reads, one after the other where they are of the same partition."""

    def __init__(self, ranges: list[OffsetRange]) -> None:
        super().__init__(ranges)


class TopicReader(DataSourceReader):
    """Plans on the driver, reads in the tasks; it travels between them, so clients are made where they are used."""

    def __init__(self, options: ReadOptions, parallelism: int) -> None:
        self._options = options
        self._parallelism = parallelism

    def partitions(self) -> list[InputPartition]:
        """Resolve positions, and share the work out."""
        from pipeline.client import Metadata

        options = self._options
        assert options.ending is not None
        metadata = Metadata(options.client)
        found = metadata.partitions(options)
        earliest, latest = metadata.earliest(found), metadata.latest(found)
        start = resolve(options.starting, earliest, latest, metadata.by_timestamp(found, options.starting, latest))
        end = resolve(options.ending, earliest, latest, metadata.by_timestamp(found, options.ending, latest))
        ranges = ranges_between(start, end, earliest, fail_on_data_loss=options.fail_on_data_loss)
        wanted = options.min_partitions
        tasks = tasks_of(ranges, tasks=wanted or self._parallelism, at_least=wanted is not None)
        # Spark makes one task of None out of an empty list.
        return [Task(each) for each in tasks] or [Task([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's ranges."""
        from pipeline import rows
        from pipeline.client import Reader

        ranges: list[OffsetRange] = partition.value
        if not ranges:
            return
        reader = Reader(self._options.client)
        try:
            yield from rows.to_arrow(reader.read(ranges), include_headers=self._options.include_headers)
        finally:
            reader.close()


@dataclass
class Written(WriterCommitMessage):
    """How many rows a task has written."""

    rows: int


class TopicWriter(DataSourceArrowWriter):
    """Writes rows by an idempotent producer; a task is done when every row of it is acknowledged."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._columns = check_columns(schema, options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's rows."""
        from pipeline.producing import Writer

        return Written(Writer(self._options, self._columns).write(iterator))


_WRITABLE: Mapping[str, tuple[str, ...]] = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


def check_columns(schema: StructType, topic: str | None) -> tuple[str, ...]:
    """The columns of rows that can be written.

    Raises:
        ValueError: there is no value, no topic to write to, or a column of another name or type.
    """
    for field in schema.fields:
        kinds = _WRITABLE.get(field.name)
        if kinds is None:
            raise ValueError(f"a row to write has no column {field.name}; it has {', '.join(_WRITABLE)}")
        if field.dataType.simpleString() not in kinds:
            raise ValueError(f"column {field.name} must be {' or '.join(kinds)}, not {field.dataType.simpleString()}")
    names: tuple[str, ...] = tuple(schema.names)
    if "value" not in names:
        raise ValueError("a row to write needs a column value")
    if topic is None and "topic" not in names:
        raise ValueError("say which topic to write to, by the option topic or in a column topic")
    return names


def register(session: Any) -> None:
    """Make the data source known to a session; not needed where the package is installed."""
    session.dataSource.register(PurgatorioDataSource)
