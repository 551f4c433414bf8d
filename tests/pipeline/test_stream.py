"""Streams in a real Spark session: batches, restarts, and the death of a broker."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from purgatorio.admin.cli.admin_client import AdminClient as Admin
from tests.conftest import PurgatorioProcess
from tests.error_log import ErrorLog
from tests.pipeline.conftest import needs_spark, new_topic, servers_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = needs_spark


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, Admin]]:
    """A cluster for this module, whose brokers may be killed: the addresses and the admin HTTP."""
    process = PurgatorioProcess(("cluster", "--port", "0", "--admin-port", "0", "--log-level", "error"))
    greeting = process.greeting()
    url = re.search(r"page +(\S+)", greeting)
    assert url is not None
    yield servers_of(greeting), Admin(url[1])
    process.close()


@pytest.fixture
def topic(cluster: tuple[str, Admin]) -> str:
    """A replicated topic of three partitions that no other test uses."""
    return new_topic(cluster[0], 3, replicas=3)


def produce(servers: str, topic: str, numbers: range) -> None:
    """Write numbers as values, acknowledged by all in-sync replicas."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
    for number in numbers:
        producer.produce(topic, str(number), partition=number % 3)
    assert producer.flush(30) == 0


def stream(spark: SparkSession, servers: str, topic: str, **options: str) -> DataFrame:
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}
    rows = spark.readStream.format("purgatorio").options(**given).load()
    return rows.selectExpr("cast(value as string) value", "partition", "offset")


def landing(out: Path) -> Callable[[DataFrame, int], None]:
    """A sink that writes each batch once, however often Spark repeats it."""
    return lambda rows, batch: rows.write.mode("overwrite").parquet(f"{out}/batch={batch}")


def run_to_the_end(rows: DataFrame, sink: Callable[[DataFrame, int], None], checkpoint: Path) -> list[Any]:
    """Run until all present records are read, and return the progress of the batches."""
    query = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    started = query.start()
    started.awaitTermination()
    return started.recentProgress


def landed(spark: SparkSession, out: Path) -> list[int]:
    return sorted(int(row.value) for row in spark.read.parquet(str(out)).collect())


class Killed(Exception):
    """Raised by a sink to simulate the death of the process."""


def test_a_stream_reads_in_limited_batches_and_continues_from_its_checkpoint(
    spark: SparkSession, cluster: tuple[str, Admin], topic: str, tmp_path: Path
) -> None:
    servers, _ = cluster
    produce(servers, topic, range(1000))
    rows = stream(spark, servers, topic, startingOffsets="earliest", maxOffsetsPerTrigger="400")
    progress = run_to_the_end(rows, landing(tmp_path / "out"), tmp_path / "checkpoint")
    assert [batch["numInputRows"] <= 402 for batch in progress] == [True] * 3
    assert landed(spark, tmp_path / "out") == list(range(1000))
    produce(servers, topic, range(1000, 1300))
    run_to_the_end(rows, landing(tmp_path / "out"), tmp_path / "checkpoint")
    assert landed(spark, tmp_path / "out") == list(range(1300))


def test_a_query_that_is_killed_between_writing_and_committing_loses_and_repeats_no_record(
    spark: SparkSession, cluster: tuple[str, Admin], topic: str, tmp_path: Path, error_log: ErrorLog
) -> None:
    from pyspark.errors import StreamingQueryException

    servers, _ = cluster
    produce(servers, topic, range(900))
    rows = stream(spark, servers, topic, startingOffsets="earliest", maxOffsetsPerTrigger="300")

    def killed_after_writing(batch_rows: DataFrame, batch: int) -> None:
        landing(tmp_path / "out")(batch_rows, batch)
        if batch == 1:
            raise Killed

    with pytest.raises(StreamingQueryException):
        run_to_the_end(rows, killed_after_writing, tmp_path / "checkpoint")
    error_log.expect("Killed")
    assert len(landed(spark, tmp_path / "out")) == 600
    produce(servers, topic, range(900, 1000))
    run_to_the_end(rows, landing(tmp_path / "out"), tmp_path / "checkpoint")
    assert landed(spark, tmp_path / "out") == list(range(1000))


def test_a_lost_first_batch_of_latest_loses_no_later_record(
    spark: SparkSession, cluster: tuple[str, Admin], topic: str, tmp_path: Path, error_log: ErrorLog
) -> None:
    from pyspark.errors import StreamingQueryException

    servers, _ = cluster
    produce(servers, topic, range(30))

    def killed_before_writing(batch_rows: DataFrame, batch: int) -> None:
        raise Killed

    with pytest.raises(StreamingQueryException):
        run_to_the_end(stream(spark, servers, topic), killed_before_writing, tmp_path / "checkpoint")
    error_log.expect("Killed")
    produce(servers, topic, range(30, 90))
    run_to_the_end(stream(spark, servers, topic), landing(tmp_path / "out"), tmp_path / "checkpoint")
    assert landed(spark, tmp_path / "out") == list(range(30, 90))


def test_the_death_of_a_broker_loses_and_repeats_no_record(
    spark: SparkSession, cluster: tuple[str, Admin], topic: str, tmp_path: Path
) -> None:
    servers, admin = cluster
    produce(servers, topic, range(3000))
    rows = stream(spark, servers, topic, startingOffsets="earliest", maxOffsetsPerTrigger="500")

    def with_a_death(batch_rows: DataFrame, batch: int) -> None:
        if batch == 2:
            admin.post("brokers/2/kill")
        landing(tmp_path / "out")(batch_rows, batch)

    try:
        run_to_the_end(rows, with_a_death, tmp_path / "checkpoint")
        produce(servers, topic, range(3000, 3300))
        run_to_the_end(rows, landing(tmp_path / "out"), tmp_path / "checkpoint")
    finally:
        admin.post("brokers/2/start")
    assert landed(spark, tmp_path / "out") == list(range(3300))


def test_a_stream_is_written_to_a_topic(
    spark: SparkSession, cluster: tuple[str, Admin], topic: str, tmp_path: Path
) -> None:
    servers, _ = cluster
    produce(servers, topic, range(500))
    rows = stream(spark, servers, topic, startingOffsets="earliest").select("value")
    writer = rows.writeStream.format("purgatorio").option("kafka.bootstrap.servers", servers)
    copy = f"{topic}-copy"
    options = {"topic": copy, "checkpointLocation": str(tmp_path / "checkpoint")}
    writer.options(**options).trigger(availableNow=True).start().awaitTermination()
    written = spark.read.format("purgatorio").options(subscribe=copy, **{"kafka.bootstrap.servers": servers}).load()
    assert sorted(int(row.value) for row in written.selectExpr("cast(value as string) value").collect()) == list(
        range(500)
    )


def test_records_that_come_while_a_query_runs_are_read_and_a_stop_loses_none(
    spark: SparkSession, cluster: tuple[str, Admin], topic: str, tmp_path: Path
) -> None:
    servers, _ = cluster
    rows = stream(spark, servers, topic, startingOffsets="earliest", maxOffsetsPerTrigger="200")
    sink = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    out = str(tmp_path / "out")
    query = sink.start(out)
    produce(servers, topic, range(1000))
    while query.lastProgress is None or query.lastProgress["batchId"] < 1:
        assert query.exception() is None
        query.awaitTermination(1)
    query.stop()
    produce(servers, topic, range(1000, 1100))
    sink.trigger(availableNow=True).start(out).awaitTermination()
    assert landed(spark, tmp_path / "out") == list(range(1100))
