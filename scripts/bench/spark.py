"""The speed of Spark reading and writing topics: local[2], and the brokers on the same machine.

.venv/bin/python scripts/bench --only spark

The client alone, in one process, makes the same Arrow batches without Spark. All take turns, so that each meets the
same noise of the machine.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processes import Brokers, brokers
from rows import Row, at_least, at_most

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 5
PARTITIONS = 6
VALUE_BYTES = 100
IDLE_SECONDS = 15.0
REPOSITORY = Path(__file__).resolve().parents[2]


@contextmanager
def _session() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


class Bench:
    """One session, one cluster, one topic of `count` records."""

    def __init__(self, session: SparkSession, running: Brokers, count: int, directory: Path) -> None:
        self._session = session
        self._running = running
        self._count = count
        self._directory = directory
        self._written = 0
        self._client = {"kafka.bootstrap.servers": running.bootstrap}
        self._create("read")

    def _create(self, topic: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self._running.bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()

    def fill(self) -> None:
        """Write the records to be read."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self._running.bootstrap, "linger.ms": 20})
        for number in range(self._count):
            while True:
                try:
                    producer.produce("read", b"x" * VALUE_BYTES, partition=number % PARTITIONS)
                except BufferError:
                    producer.poll(0.1)
                else:
                    break
        assert producer.flush(60) == 0

    # --- measurements; each returns rows per second ---

    def client_alone(self) -> float:
        """The client in this process, into Arrow batches that are dropped."""
        from purgatorio.pipeline.client import Metadata, RecordReader
        from purgatorio.pipeline.offsets import OffsetRange, TopicPartition
        from purgatorio.pipeline.rows import to_arrow

        client = {"bootstrap.servers": self._running.bootstrap}
        started = time.perf_counter()
        ends = Metadata(client).latest([TopicPartition("read", partition) for partition in range(PARTITIONS)])
        ranges = [OffsetRange(*tp, 0, end) for tp, end in ends.items()]
        read = sum(batch.num_rows for batch in to_arrow(RecordReader(client).read(ranges), include_headers=False))
        assert read == self._count
        return read / (time.perf_counter() - started)

    def batch(self) -> float:
        """`spark.read`; the rows are dropped."""
        rows = self._session.read.format("purgatorio").options(subscribe="read", **self._client).load()
        started = time.perf_counter()
        rows.write.format("noop").mode("overwrite").save()
        return self._count / (time.perf_counter() - started)

    def stream(self) -> float:
        """`spark.readStream`, the time of its batches; the rows are dropped."""
        return self._run_stream("noop")

    def stream_to_parquet(self) -> float:
        """The same, to parquet."""
        return self._run_stream("parquet")

    def _stream(self, **options: str) -> DataFrame:
        given = {"subscribe": "read", "startingOffsets": "earliest", **self._client, **options}
        return self._session.readStream.format("purgatorio").options(**given).load()

    def _start(self, rows: DataFrame, sink: str, **trigger: Any) -> Any:
        place = tempfile.mkdtemp(dir=self._directory)
        writer = rows.writeStream.format(sink).option("checkpointLocation", f"{place}/checkpoint")
        return (writer.trigger(**trigger) if trigger else writer).start(f"{place}/out")

    def _run_stream(self, sink: str) -> float:
        rows = self._stream(maxOffsetsPerTrigger=str(self._count // 2))
        query = self._start(rows, sink, availableNow=True)
        query.awaitTermination()
        batches = query.recentProgress
        assert sum(batch["numInputRows"] for batch in batches) == self._count
        return self._count / sum(batch["durationMs"]["triggerExecution"] for batch in batches) * 1000

    def write(self) -> float:
        """`df.write`, acknowledged by idempotent producers."""
        self._written += 1
        topic = f"written-{self._written}"
        self._create(topic)
        rows = self._session.range(self._count).selectExpr(f"rpad(cast(id as string), {VALUE_BYTES}, 'x') value")
        writer = rows.write.format("purgatorio").options(topic=topic, **self._client).mode("append")
        started = time.perf_counter()
        writer.save()
        return self._count / (time.perf_counter() - started)

    def first_batch_seconds(self) -> float:
        """From the start of a further query to the end of its first batch."""
        rows = self._stream(maxOffsetsPerTrigger="1000")
        started = time.perf_counter()
        query = self._start(rows, "noop")
        while query.lastProgress is None:
            time.sleep(0.01)
        passed = time.perf_counter() - started
        query.stop()
        return passed

    def idle_metadata_requests_per_second(self, seconds: float) -> float:
        """The requests of a query without new records, with Spark's default trigger."""
        query = self._start(self._stream(startingOffsets="latest"), "noop")
        while query.lastProgress is None:
            time.sleep(0.01)
        before = self._metadata_requests()
        time.sleep(seconds)
        asked = self._metadata_requests() - before
        query.stop()
        return asked / seconds

    def _metadata_requests(self) -> float:
        with urllib.request.urlopen(f"{self._running.admin_url}/metrics") as answer:
            text = answer.read().decode()
        counts = re.findall(
            r'^kafka_network_requestmetrics_requests_total\{.*request="Metadata".*\} (\S+)$', text, re.M
        )
        return sum(map(float, counts))


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    count = 10_000 if quick else 1_000_000
    rounds = 1 if quick else ROUNDS
    with _session() as session, brokers() as running, tempfile.TemporaryDirectory() as directory:
        bench = Bench(session, running, count, Path(directory))
        bench.fill()
        rates: dict[Callable[[], float], list[float]] = {
            bench.client_alone: [],
            bench.batch: [],
            bench.stream: [],
            bench.stream_to_parquet: [],
            bench.write: [],
        }
        for nth in range(rounds + (not quick)):
            for measure, found in rates.items():
                rate = measure()
                if nth or quick:  # the first round warms up the JVM
                    found.append(rate)
        first_batch = statistics.median(bench.first_batch_seconds() for _ in range(rounds))
        idle = bench.idle_metadata_requests_per_second(1.0 if quick else IDLE_SECONDS)
    alone = statistics.median(rates.pop(bench.client_alone))
    bars = {
        bench.batch: ("Spark, batch read", 0.35),
        bench.stream: ("Spark, stream", 0.25),
        bench.stream_to_parquet: ("Spark, stream to parquet", 0.13),
        bench.write: ("Spark, batch write", 0.15),
    }
    made = [Row("the Kafka client alone, into Arrow, one process", f"{alone / 1e6:.2f} M rows/s")]
    for measure, found in rates.items():
        rate = statistics.median(found)
        name, bar = bars[measure]
        made.append(at_least(name, rate / 1e6, bar, " M rows/s", f" ({rate / alone:.2f}× the client alone)"))
    made.append(at_most("Spark, start of a further query to the end of its first batch", first_batch, 2, " s"))
    made.append(at_most("Spark, metadata requests of an idle stream", idle, 2, "/s"))
    return made
