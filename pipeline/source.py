"""The Spark data source: ``format("purgatorio")`` for ``read``, ``readStream``, ``write`` and ``writeStream``.

Columns and options are those of Spark's Kafka connector. Writing is at least once: a task that Spark repeats writes its
rows again, and rows that a failed job has written stay in the topic.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from purgatorio.pipeline.offsets import OffsetRange, ranges_between, resolve, tasks_of
from purgatorio.pipeline.options import OptionError, ReadOptions, Refused, WriteOptions, read_options, write_options
from purgatorio.pipeline.progress import Progress

_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
"""Spark's processes read it when they report an error: without a traceback, by
`spark.sql.execution.pyspark.udf.hideTraceback.enabled`."""


@contextlib.contextmanager
def mistakes_in_a_sentence() -> Iterator[None]:
    """Have Spark report a mistake of the user as one sentence, without the traceback of its process and ours.

    Spark's process ends with the error that it reports, so that no other one is without its traceback.
    """
    try:
        yield
    except Refused:
        if _is_in_a_process_of_spark():
            os.environ[_HIDE_TRACEBACK] = "1"
        raise


def _is_in_a_process_of_spark() -> bool:
    specification = getattr(sys.modules.get("__main__"), "__spec__", None)
    return specification is not None and specification.name.startswith("pyspark.")


class PurgatorioDataSource(DataSource):
    """A data source named "purgatorio"."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "purgatorio"

    def schema(self) -> str:
        """Return the columns, with headers if the option includeHeaders is set."""
        from purgatorio.pipeline import rows

        headers = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        return f"{rows.SCHEMA}, {rows.HEADERS}" if headers else rows.SCHEMA

    @mistakes_in_a_sentence()
    def reader(self, schema: StructType) -> TopicReader:
        """Return a reader from a starting to an ending position."""
        return TopicReader(read_options(dict(self.options), streaming=False))

    def streamReader(self, schema: StructType) -> TopicStreamReader | RefusedStreamReader:
        """Return a reader of a stream from a starting position on."""
        try:
            return TopicStreamReader(read_options(dict(self.options), streaming=True))
        except OptionError as refused:
            return RefusedStreamReader(refused)

    @mistakes_in_a_sentence()
    def writer(self, schema: StructType, overwrite: bool) -> TopicWriter:
        """Return a writer that appends rows to topics."""
        if overwrite:
            raise OptionError('a topic can only be appended to: say .mode("append")')
        return TopicWriter(_writable(self.options), schema)

    @mistakes_in_a_sentence()
    def streamWriter(self, schema: StructType, overwrite: bool) -> TopicStreamWriter:
        """Return a writer that appends the rows of each batch to topics, in every output mode."""
        return TopicStreamWriter(_writable(self.options), schema)


def _writable(given: Mapping[str, str]) -> WriteOptions:
    """Check the options of a writer, with the client's settings, before Spark begins tasks."""
    from purgatorio.pipeline.client import admin_client

    options = write_options(dict(given))
    admin_client(options.client)
    return options


class Task(InputPartition):
    """The ranges that one task reads; ranges of the same partition are read one after the other."""

    def __init__(self, ranges: list[OffsetRange]) -> None:
        super().__init__(ranges)


def _tasks(ranges: list[OffsetRange], options: ReadOptions) -> list[InputPartition]:
    packed = tasks_of(ranges, min_tasks=options.min_partitions, max_records=options.max_records_per_partition)
    # Spark makes one task of None out of an empty list.
    return [Task(each) for each in packed] or [Task([])]


def _read(ranges: list[OffsetRange], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    from purgatorio.pipeline import rows
    from purgatorio.pipeline.client import RecordReader

    if not ranges:
        return
    reader = RecordReader(options.client)
    try:
        yield from rows.to_arrow(reader.read(ranges), include_headers=options.include_headers)
    finally:
        reader.close()


class TopicReader(DataSourceReader):
    """Plans a batch on the driver and reads it in tasks; Spark pickles it, so each side makes its own client."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    @mistakes_in_a_sentence()
    def partitions(self) -> list[InputPartition]:
        """Resolve the positions, and divide the records into tasks."""
        from purgatorio.pipeline.client import Metadata

        options = self._options
        assert options.ending is not None
        metadata = Metadata(options.client)
        found = metadata.partitions(options)
        earliest, latest = metadata.earliest(found), metadata.latest(found)
        start = resolve(options.starting, earliest, latest, metadata.by_timestamp(found, options.starting, latest))
        end = resolve(options.ending, earliest, latest, metadata.by_timestamp(found, options.ending, latest))
        return _tasks(ranges_between(start, end, earliest, fail_on_data_loss=options.fail_on_data_loss), options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's ranges."""
        return _read(partition.value, self._options)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Gives Spark the offsets of each batch, and reads it.

    One instance has a process of its own for the whole query, in which Spark calls everything but `read`. The tasks
    have other instances, which only read.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._made: Progress | None = None

    @property
    def _progress(self) -> Progress:
        from purgatorio.pipeline.client import Metadata

        if self._made is None:
            self._made = Progress(self._options, Metadata(self._options.client), time.monotonic)
        return self._made

    @mistakes_in_a_sentence()
    def initialOffset(self) -> dict[str, Any]:
        """Return the start of a new query; a query with a checkpoint continues from that instead."""
        return self._progress.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a batch, from maxOffsetsPerTrigger or minOffsetsPerTrigger."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @mistakes_in_a_sentence()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch."""
        return self._progress.next_end(
            start,
            at_most_records=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            wait_for_more=not isinstance(limit, ReadAllAvailable),
        )

    @mistakes_in_a_sentence()
    def prepareForTriggerAvailableNow(self) -> None:
        """End this query at the topics' present latest offsets."""
        self._progress.stop_at_present_end()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the topics' latest offsets at the last look-up, for the query's progress."""
        return self._progress.reported

    @mistakes_in_a_sentence()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Divide a batch into tasks."""
        return _tasks(self._progress.ranges(start, end), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's ranges."""
        return _read(partition.value, self._options)


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Says why options are refused once Spark asks for something.

    Where `streamReader` itself raises, Spark 4.3 stops a reader that it has not got, and reports that as the error.
    """

    def __init__(self, refused: OptionError) -> None:
        self._refused = refused

    @mistakes_in_a_sentence()
    def _refuse(self) -> NoReturn:
        raise self._refused

    def initialOffset(self) -> dict[str, Any]:
        """Refuse."""
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Refuse."""
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Refuse."""
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:
        """Refuse."""
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Refuse."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Refuse."""
        self._refuse()


@dataclass
class Written(WriterCommitMessage):
    """The number of rows that a task has written."""

    rows: int


class TopicWriter(DataSourceArrowWriter):
    """Writes rows with an idempotent producer; a task is done when all its rows are acknowledged."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._columns = check_columns(schema, options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's rows."""
        from purgatorio.pipeline.producing import Writer

        return Written(Writer(self._options, self._columns).write(iterator))


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of each batch; a batch that Spark repeats after a failure is written again."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._columns = check_columns(schema, options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's rows."""
        from purgatorio.pipeline.producing import Writer

        return Written(Writer(self._options, self._columns).write(iterator))


_WRITABLE: Mapping[str, tuple[str, ...]] = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


def check_columns(schema: StructType, topic: str | None) -> tuple[str, ...]:
    """Check that rows of this schema can be written, and return the names of their columns.

    Raises:
        OptionError: the column value is missing, the topic is not given, or a column has another name or type.
    """
    for field in schema.fields:
        kinds = _WRITABLE.get(field.name)
        if kinds is None:
            raise OptionError(f"a row to write has no column {field.name}; it has {', '.join(_WRITABLE)}")
        if field.dataType.simpleString() not in kinds:
            raise OptionError(f"column {field.name} must be {' or '.join(kinds)}, not {field.dataType.simpleString()}")
    names: tuple[str, ...] = tuple(schema.names)
    if "value" not in names:
        raise OptionError("a row to write needs a column value")
    if topic is None and "topic" not in names:
        raise OptionError("say which topic to write to, by the option topic or in a column topic")
    return names


def register(session: Any) -> None:
    """Register the data source in a session; not needed if the package is installed."""
    session.dataSource.register(PurgatorioDataSource)
