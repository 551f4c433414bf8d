"""The relay is killed while its events are under way: do they arrive in the end?

It needs ``pip install -r requirements.txt``. Run it: ``pytest``
"""

import multiprocessing
import sqlite3
from contextlib import closing

import pytest
from relay import relay, relay_broken

BROKEN = pytest.mark.xfail(strict=True, raises=AssertionError, reason="it deletes rows that the broker does not have")
SPAWN = multiprocessing.get_context("spawn")


@pytest.mark.parametrize("relay", [pytest.param(relay_broken, marks=BROKEN), relay])
def test_a_killed_relay_loses_no_event(kafka, tmp_path, relay) -> None:
    """The first request gets lost on its way; the relay, a process of its own, is killed while it waits."""
    database_path = str(tmp_path / "shop.db")
    with closing(sqlite3.connect(database_path)) as database:
        database.execute("CREATE TABLE outbox (id INTEGER PRIMARY KEY, event TEXT)")
        database.executemany("INSERT INTO outbox (event) VALUES (?)", [("tea",), ("cake",), ("juice",)])
        database.commit()
    kafka.topic("orders")
    settings = kafka.client_config("kafka-python", "producer")

    with kafka.fault(api="Produce", topic="orders", drop="request") as lost:
        process = SPAWN.Process(target=relay, args=(database_path, settings))
        process.start()
        lost.until_fired().wait()
        process.kill()
        process.join()

    relay(database_path, settings)
    assert [record.value for record in kafka.records("orders")] == [b"tea", b"cake", b"juice"]
