"""The data source in a real Spark session, against a cluster in a process of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.conftest import ROOT, needs_spark, new_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = needs_spark


@pytest.fixture
def topic(servers: str) -> str:
    """A topic of three partitions that no other test uses."""
    return new_topic(servers, 3)


def write(frame: DataFrame, servers: str, topic: str | None, **options: str) -> None:
    writer = frame.write.format("purgatorio").option("kafka.bootstrap.servers", servers).mode("append")
    if topic is not None:
        writer = writer.option("topic", topic)
    writer.options(**options).save()


def read(spark: SparkSession, servers: str, **options: str) -> DataFrame:
    return spark.read.format("purgatorio").option("kafka.bootstrap.servers", servers).options(**options).load()


def numbers(spark: SparkSession, count: int) -> Any:
    return spark.range(count).selectExpr(
        "cast(id as string) key", "concat('value ', id) value", "int(id % 3) partition"
    )


@pytest.mark.heavy
def test_written_rows_are_read_with_the_columns_of_sparks_connector(
    spark: SparkSession, servers: str, topic: str
) -> None:
    write(numbers(spark, 3000), servers, topic)
    found = read(spark, servers, subscribe=topic)
    assert [(field.name, field.dataType.simpleString()) for field in found.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    rows = found.selectExpr("cast(key as string) key", "cast(value as string) value", "partition", "offset").collect()
    assert sorted((int(row.key), row.value) for row in rows) == [(n, f"value {n}") for n in range(3000)]
    for partition in range(3):
        assert sorted(row.offset for row in rows if row.partition == partition) == list(range(1000))


@pytest.mark.smoke
def test_offsets_assignments_and_headers(spark: SparkSession, servers: str, topic: str) -> None:
    headed = numbers(spark, 30).selectExpr("*", "array(struct('trace' as key, cast('x' as binary) as value)) headers")
    write(headed, servers, topic)
    found = read(
        spark,
        servers,
        assign=f'{{"{topic}": [1, 2]}}',
        startingOffsets=f'{{"{topic}": {{"1": 8}}}}',
        endingOffsets=f'{{"{topic}": {{"2": 1}}}}',
        includeHeaders="true",
        minPartitions="5",
    )
    rows = found.select("partition", "offset", "headers").collect()
    assert sorted((row.partition, row.offset) for row in rows) == [(1, 8), (1, 9), (2, 0)]
    assert [(header.key, bytes(header.value)) for header in rows[0].headers] == [("trace", b"x")]


def test_an_empty_topic_is_an_empty_frame(spark: SparkSession, servers: str, topic: str) -> None:
    assert read(spark, servers, subscribe=topic).count() == 0


def test_rows_may_name_their_topics(spark: SparkSession, servers: str, topic: str) -> None:
    frame = spark.sql(f"select 'v' value, '{topic}' topic")
    write(frame, servers, None)
    assert read(spark, servers, subscribePattern=f"{topic[:6]}.*").where(f"topic = '{topic}'").count() == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"subscribe": "nowhere"}, "there is no topic 'nowhere'"),
        ({"subscribe": "x", "startingOfsets": "earliest"}, "did you mean startingOffsets?"),
        ({"subscribe": "x", "kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is required"),
    ],
)
def test_the_error_for_an_invalid_read_is_clear(
    spark: SparkSession, servers: str, options: dict[str, str], complaint: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as told:
        read(spark, servers, **options).count()
    assert complaint in str(told.value)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_mistake_is_one_sentence_without_a_traceback(
    spark: SparkSession, servers: str, tmp_path: Path, streaming: bool
) -> None:
    from pyspark.errors import PySparkException

    def run(options: dict[str, str], checkpoint: Path) -> None:
        if not streaming:
            spark.read.format("purgatorio").options(**options).load().count()
            return
        frame = spark.readStream.format("purgatorio").options(**options).load()
        to = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        to.trigger(availableNow=True).start().awaitTermination()

    mistakes = [
        ({"kafka.max.poll.recordz": "5"}, "kafka.max.poll.recordz is no setting of the client, librdkafka"),
        ({"kafka.sasl.jaas.config": "x"}, "kafka.sasl.jaas.config is not understood"),
        ({"subscribe": "nowhere"}, "there is no topic 'nowhere'"),
        ({"groupIdPrefix": "mine"}, "groupIdPrefix has no use here"),
    ]
    for number, (mistake, sentence) in enumerate(mistakes):
        with pytest.raises(PySparkException) as told:
            run({"kafka.bootstrap.servers": servers, "subscribe": "x", **mistake}, tmp_path / str(number))
        assert sentence in str(told.value)
        assert "Traceback" not in str(told.value)


def test_the_batch_write_of_the_page_writes_and_its_mode_has_to_be_said(spark: SparkSession, servers: str) -> None:
    from pyspark.errors import PySparkException

    page = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(totals = .*?)```", page, re.DOTALL)
    program = program.replace("localhost:9092", servers)
    exec(program, {"spark": spark})
    rows = read(spark, servers, subscribe="totals").selectExpr("cast(key as string)", "cast(value as string)").collect()
    assert sorted(tuple(row) for row in rows) == [("milk", "1"), ("tea", "3")]
    without = program.replace('    .mode("append")\n', "")
    assert without != program
    with pytest.raises(PySparkException, match='cannot be written in the "ErrorIfExists" mode'):
        exec(without, {"spark": spark})
    with pytest.raises(PySparkException, match=r'say \.mode\("append"\)') as told:
        exec(program.replace("append", "overwrite"), {"spark": spark})
    assert "Traceback" not in str(told.value)


def test_a_start_at_a_time_without_records_is_refused_if_that_is_asked_for(
    spark: SparkSession, servers: str, topic: str
) -> None:
    from pyspark.errors import PySparkException

    late = {"subscribe": topic, "startingTimestamp": "4000000000000"}
    assert read(spark, servers, **late).count() == 0
    with pytest.raises(PySparkException, match=f"{topic}-0 has no record as late as its starting time"):
        read(spark, servers, **late, startingOffsetsByTimestampStrategy="error").count()


def test_rows_that_cannot_be_written_are_refused_before_any_is_written(
    spark: SparkSession, servers: str, topic: str
) -> None:
    from pyspark.errors import PySparkException

    for frame, name, complaint in [
        (spark.sql("select 1 value"), topic, "column value must be string or binary, not int"),
        (spark.sql("select 'v' valeu"), topic, "a row to write has no column valeu"),
        (spark.sql("select 'v' value"), None, "say which topic to write to"),
    ]:
        with pytest.raises(PySparkException) as told:
            write(frame, servers, name)
        assert complaint in str(told.value)
    assert read(spark, servers, subscribe=topic).count() == 0
