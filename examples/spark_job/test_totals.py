"""A receipt is refused, and the job is started again: is each order counted once?

It needs Java 17 or newer, and ``pip install -r requirements.txt``. Run it: ``pytest``
"""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from totals import count_batch, count_batch_broken, count_orders

BROKEN = pytest.mark.xfail(strict=True, raises=AssertionError, reason="a batch that is repeated is counted again")
SMALL = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small session for all tests; it takes some seconds to start."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]")
    for name, value in SMALL.items():
        builder = builder.config(name, value)
    with builder.getOrCreate() as session:
        yield session


@pytest.mark.parametrize("count_batch", [pytest.param(count_batch_broken, marks=BROKEN), count_batch])
def test_each_order_is_counted_once(kafka, spark, tmp_path, count_batch) -> None:
    """The broker refuses a receipt after the batch was counted; Spark repeats the batch at the next start."""
    kafka.topic("orders")
    kafka.topic("receipts")
    kafka.produce("orders", "tea", "cake", "tea")
    with kafka.fault(api="Produce", topic="receipts", error="TOPIC_AUTHORIZATION_FAILED") as refused:
        with pytest.raises(StreamingQueryException):
            count_orders(spark, kafka.bootstrap, str(tmp_path), count_batch)
        assert refused.fired
    count_orders(spark, kafka.bootstrap, str(tmp_path), count_batch)
    with closing(sqlite3.connect(tmp_path / "totals.db")) as database:
        totals = dict(database.execute("SELECT item, orders FROM totals"))
    assert len(kafka.records("receipts")) == 3
    assert totals == {"tea": 2, "cake": 1}
