"""The job: reads the topic as a stream, passes its batches on, and shuts down in good order."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from purgatorio.pipeline.client import BrokerUnreachable, Metadata, UnknownTopic
from purgatorio.pipeline.delays.batches import Batches, Landed
from purgatorio.pipeline.delays.console import Console
from purgatorio.pipeline.delays.events import RECORD_COLUMNS
from purgatorio.pipeline.delays.report import Reporter
from purgatorio.pipeline.delays.settings import TOPIC, ReportSettings, source_options, spark_options
from purgatorio.pipeline.delays.tables import CannotGoOn, Tables
from purgatorio.pipeline.offsets import DataLoss
from purgatorio.pipeline.options import OptionError, read_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS: Final = 0.2
"""The interval of the look-ups of Spark's progress."""


def run(settings: ReportSettings, say: Callable[[str], None]) -> str | None:
    """Run until a signal, or with `once` until all records are read; return an error message, or None.

    Args:
        say: prints a line of progress.
    """
    problem = _unreadable(settings)
    if problem is not None:
        return problem
    tables = Tables(settings.out)
    try:
        with tables.opened({"topic": settings.topic, "window_ms": settings.window_ms}):
            session = _session(settings)
            try:
                return stream(session, settings, tables, say)
            finally:
                session.stop()
    except CannotGoOn as error:
        return str(error)


def stream(session: SparkSession, settings: ReportSettings, tables: Tables, say: Callable[[str], None]) -> str | None:
    """Run as `run` does, in an existing session and with opened tables."""
    source = f"Topic {settings.topic} at {settings.bootstrap}"
    reporter = Reporter(tables, settings.window_ms, source, time.monotonic, lambda: datetime.now(UTC))
    console = Console(say)

    def done(landed: Landed) -> None:
        console.landed(landed)
        reporter.write_if_due()

    batches = Batches(tables, settings.window_ms, done)
    batches.refresh(session, batches.missing())
    # Spark has set its own handler of Ctrl-C by now, which would cancel the current batch.
    with _signals() as stopping:
        query = _query(session, settings, tables, batches)
        say(f"Reading {settings.topic} at {settings.bootstrap}" + ("" if settings.once else "; Ctrl-C stops"))
        while query.isActive and not stopping.is_set():
            stopping.wait(POLL_SECONDS)
            _tell(query, console)
        if stopping.is_set():
            batches.stop()
            # A batch that Spark starts now fails intentionally, with `Stopping`.
            session.sparkContext.setLogLevel("OFF")
            query.stop()
        failure = None if stopping.is_set() else _failure(query)
        _tell(query, console)
    reporter.write()
    say(f"Tables: {tables.root}\nReport: {tables.report}")
    return failure


def cause_of(message: str) -> str:
    """Return the readable part of a Spark exception: the last Python error in it, or else the whole message."""
    found = re.findall(r"^(?:[A-Z]\w+: )?([\w.]+): (.+)$", message, re.MULTILINE)
    ours = [words for name, words in found if name.startswith("purgatorio.")]
    others = [f"{name}: {words}" for name, words in found if name.endswith(("Error", "Exception"))]
    return (ours or others or [message.strip()])[-1]


def _unreadable(settings: ReportSettings) -> str | None:
    """Return the reason why the topic cannot be read, or None; checked before Spark starts, which takes seconds."""
    options = read_options(source_options(settings), streaming=True)
    try:
        Metadata(options.client).partitions(options)
    except UnknownTopic as error:
        hint = "; brokers write it when started by `purgatorio cluster --record-delays`"
        return f"{error}{hint if settings.topic == TOPIC else ''}"
    except (BrokerUnreachable, KafkaException, OptionError) as error:
        return str(error.args[0].str() if isinstance(error, KafkaException) else error)
    return None


def _session(settings: ReportSettings) -> SparkSession:
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    options = spark_options(settings, submitted=submitted)
    if not submitted:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if options["spark.master"].startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    from purgatorio.pipeline.source import register

    builder = SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    register(session)
    return session


def _query(session: SparkSession, settings: ReportSettings, tables: Tables, batches: Batches) -> StreamingQuery:
    records = session.readStream.format("purgatorio").options(**source_options(settings)).load()
    writer = records.select(*RECORD_COLUMNS).writeStream.foreachBatch(batches)
    writer = writer.option("checkpointLocation", tables.uri("checkpoint"))
    if settings.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{settings.trigger_ms} milliseconds").start()


def _tell(query: StreamingQuery, console: Console) -> None:
    """Give Spark's progress reports to the console while it waits for some."""
    if console.waits:
        for each in query.recentProgress:
            console.progress(each["batchId"], each["processedRowsPerSecond"], each["sources"])


def _failure(query: StreamingQuery) -> str | None:
    """Return the reason why a query has failed, with a remedy; None if it has not failed."""
    error = query.exception()
    if error is None:
        return None
    cause = cause_of(str(error))
    if DataLoss.__name__ in str(error):
        return f"{cause.partition('; with ')[0]}; to read what there is, write to another directory"
    return f"the stream has failed: {cause}\nStarted again, it goes on from its checkpoint."


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set; a second signal ends the process at once."""
    stopping = threading.Event()

    def stop(number: int, _: object) -> None:
        stopping.set()
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
