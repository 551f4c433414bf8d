"""Data that takes long to be given back is whole: a folder of 60 MB at each start, a snapshot of 180 MB under load."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.soak.busy_machine import busy_processes

STARTS: Final = int(os.environ.get("DATA_STARTS", "20"))
BUSY: Final = int(os.environ.get("DATA_BUSY_PROCESSES", "6"))
PARTITIONS: Final = 6
CONNECTION_LOST: Final = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
"""What librdkafka tells of connections that end; it connects again."""

pytestmark = [pytest.mark.clients, pytest.mark.heavy, pytest.mark.timeout(3_000)]


class Owned:
    """`purgatorio cluster`, until `end`."""

    def __init__(self, *options: str) -> None:
        command = ("cluster", "--port", "0", "--print-json", "--with-parent", "--log-level", "warning", *options)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "purgatorio", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"it did not start: exit code {self._process.wait()}"
        self._told = json.loads(line)
        self.bootstrap: str = self._told["bootstrap"]

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        url = f"{self._told['admin_url']}/api/v1/{path}"
        with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=600) as answer:
            return json.load(answer)

    def end(self) -> int:
        """Close its standard input, as its owner does by ending; return the exit code."""
        self._process.communicate()
        return self._process.returncode


def values(bootstrap: str, topic: str) -> list[tuple[int, bytes]]:
    """Return how many records each partition has, and a hash of them in their order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    found = []
    for number in range(PARTITIONS):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=60)
        consumer.assign([TopicPartition(topic, number, low)])
        summary, count = hashlib.sha256(), 0
        while count < high - low:
            for message in consumer.consume(1_000, timeout=0.5):
                assert message.error() is None, message.error()
                summary.update(message.value() or b"")
                count += 1
        found.append((count, summary.digest()))
    consumer.close()
    return found


def produce(bootstrap: str, topic: str, count: int, size_bytes: int) -> None:
    """Produce records of random bytes with acks=all."""
    failed: list[KafkaError] = []

    def told(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.kbytes": 1 << 20, "linger.ms": 20})
    for number in range(count):
        producer.produce(topic, os.urandom(size_bytes), partition=number % PARTITIONS, on_delivery=told)
        if number % 1_000 == 0:
            producer.flush(60)
    producer.flush(60)
    assert failed == []


def test_sixty_megabytes_are_whole_after_each_of_twenty_starts_on_a_busy_machine(
    tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    owned = Owned("--data", str(tmp_path), "--seed-topic", f"orders:{PARTITIONS}")
    produce(owned.bootstrap, "orders", 60_000, 1_000)
    whole = values(owned.bootstrap, "orders")
    assert sum(count for count, _ in whole) == 60_000
    assert owned.end() == 0
    starts = []
    with busy_processes(BUSY):
        for _ in range(STARTS):
            began = time.monotonic()
            owned = Owned("--data", str(tmp_path))
            starts.append(time.monotonic() - began)
            assert values(owned.bootstrap, "orders") == whole
            produce(owned.bootstrap, "orders", 60, 10)
            whole = values(owned.bootstrap, "orders")
            assert owned.end() == 0
    starts.sort()
    took = f"{STARTS} starts in {starts[0]:.1f} to {starts[-1]:.1f} s"
    record_property("note", f"60 MB of data beside {BUSY} busy processes: {took}")


class Clients:
    """Producers and consumers that go on through a restore, and all that they are told."""

    def __init__(self, bootstrap: str) -> None:
        self.errors: list[str] = []
        self.acked: dict[tuple[int, int], bytes] = {}
        self._number = self._first = 0
        self.consumed = 0
        self._bootstrap = bootstrap
        self._ends = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._produce, self._consume)]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            self._ends.set()
            for each in threads:
                each.join()

    def begin_anew(self) -> None:
        """Forget what was acknowledged of records that were produced before now: time went back."""
        self._first = self._number
        self.acked = {}

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.errors.append(repr(error))

    def _told(self, error: KafkaError) -> None:
        if error.code() not in CONNECTION_LOST:
            self.errors.append(str(error))

    def _config(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self._bootstrap, "error_cb": self._told, "log_level": 0, **more}

    def _produce(self) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.errors.append(f"not delivered: {error}")
            elif int(message.value() or 0) > self._first:
                self.acked[message.partition() or 0, message.offset() or 0] = message.value() or b""

        producer = Producer(self._config(**{"acks": "all", "linger.ms": 5}))
        while not self._ends.wait(0.002):
            self._number += 1
            value = b"%d" % self._number
            producer.produce("live", value, partition=self._number % PARTITIONS, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(60) == 0

    def _consume(self) -> None:
        consumer = Consumer(self._config(**{"group.id": "live", "auto.offset.reset": "earliest"}))
        consumer.subscribe(["live", "kept"])
        while not self._ends.is_set():
            for message in consumer.consume(100, timeout=0.2):
                if message.error() is None:
                    self.consumed += 1
                elif message.error().code() not in CONNECTION_LOST:
                    self.errors.append(f"consumer: {message.error()}")
        consumer.close()


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_snapshot_of_180_mb_is_restored_under_clients_that_see_no_more_than_lost_connections(
    record_property: pytest.RecordProperty,
) -> None:
    owned = Owned("--seed-topic", f"kept:{PARTITIONS}", "--seed-topic", f"live:{PARTITIONS}")
    produce(owned.bootstrap, "kept", 18_000, 10_000)
    whole = values(owned.bootstrap, "kept")
    assert owned.ask("snapshots", {"name": "all"})["size_bytes"] > 180_000_000
    clients = Clients(owned.bootstrap)
    took = []
    with clients.running():
        until(lambda: len(clients.acked) > 100 and clients.consumed > 18_000)
        for _ in range(3):
            produce(owned.bootstrap, "kept", 60, 1_000)
            began = time.monotonic()
            owned.ask("snapshots/all/restore", {})
            took.append(time.monotonic() - began)
            clients.begin_anew()
            consumed = clients.consumed
            until(lambda: len(clients.acked) > 100 and clients.consumed > consumed)  # noqa: B023
    assert clients.errors == []
    assert values(owned.bootstrap, "kept") == whole
    live = _records(owned.bootstrap, "live")
    assert {place: live.get(place) for place in clients.acked} == clients.acked
    assert owned.end() == 0
    record_property("note", f"restores of 180 MB under load: {', '.join(f'{each:.1f} s' for each in took)}")


def _records(bootstrap: str, topic: str) -> dict[tuple[int, int], bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    found: dict[tuple[int, int], bytes] = {}
    for number in range(PARTITIONS):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=60)
        consumer.assign([TopicPartition(topic, number, low)])
        count = 0
        while count < high - low:
            for message in consumer.consume(1_000, timeout=0.5):
                assert message.error() is None, message.error()
                found[number, message.offset() or 0] = message.value() or b""
                count += 1
    consumer.close()
    return found
