"""A relay that sends the rows of an outbox table to Kafka: once it forgets them too early, and once in time."""

import sqlite3
from contextlib import closing
from typing import Any

from kafka import KafkaProducer


def relay_broken(database_path: str, settings: dict[str, Any]) -> None:
    """Loses events: their rows are gone before the broker has them."""
    with closing(sqlite3.connect(database_path)) as database, closing(KafkaProducer(**settings)) as producer:
        rows = database.execute("SELECT event FROM outbox ORDER BY id").fetchall()
        database.execute("DELETE FROM outbox")
        database.commit()
        for (event,) in rows:
            producer.send("orders", event.encode())
        producer.flush()


def relay(database_path: str, settings: dict[str, Any]) -> None:
    """Loses none: a row is deleted when all in-sync replicas have its event.

    After a crash between the two the event is sent again: readers know it by its key.
    """
    with (
        closing(sqlite3.connect(database_path)) as database,
        closing(KafkaProducer(acks="all", **settings)) as producer,
    ):
        rows = database.execute("SELECT id, event FROM outbox ORDER BY id").fetchall()
        sent = [(number, producer.send("orders", event.encode(), key=b"%d" % number)) for number, event in rows]
        for number, future in sent:
            future.get(timeout=30)
            database.execute("DELETE FROM outbox WHERE id = ?", (number,))
            database.commit()
