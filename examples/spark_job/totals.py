"""A Spark job that counts the orders of each item, and tells of each: once it counts twice, and once it does not."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

from pyspark.sql import DataFrame, SparkSession

CountBatch = Callable[[str, DataFrame, int], None]


def count_orders(spark: SparkSession, bootstrap: str, folder: str, count_batch: CountBatch) -> None:
    """Count the orders that came since the last run into a database, and send a receipt for each to `receipts`.

    Args:
        folder: where the database and Spark's checkpoint are.
    """

    def write(batch: DataFrame, batch_id: int) -> None:
        count_batch(f"{folder}/totals.db", batch, batch_id)
        batch.selectExpr("concat('paid: ', item) value").write.format("purgatorio").option(
            "kafka.bootstrap.servers", bootstrap
        ).option("topic", "receipts").mode("append").save()

    orders = (
        spark.readStream.format("purgatorio")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("cast(value as string) item")
    )
    writer = orders.writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def count_batch_broken(database_path: str, batch: DataFrame, batch_id: int) -> None:
    """Counts orders twice: Spark repeats a batch that fails after this, and it is counted again."""
    with closing(sqlite3.connect(database_path)) as database, database:
        add(database, batch)


def count_batch(database_path: str, batch: DataFrame, batch_id: int) -> None:
    """Counts a batch once: its number is kept in the same transaction."""
    with closing(sqlite3.connect(database_path)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY)")
        if database.execute("INSERT OR IGNORE INTO batches VALUES (?)", (batch_id,)).rowcount:
            add(database, batch)


def add(database: sqlite3.Connection, batch: DataFrame) -> None:
    """Add the orders of a batch to the totals."""
    database.execute("CREATE TABLE IF NOT EXISTS totals (item TEXT PRIMARY KEY, orders INTEGER)")
    counted = [(row.item, row["count"]) for row in batch.groupBy("item").count().collect()]
    database.executemany(
        "INSERT INTO totals VALUES (?, ?) ON CONFLICT DO UPDATE SET orders = orders + excluded.orders", counted
    )
