"""Clients of the hosts: what they were told is compared with what the logs have in the end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS: Final = 3
SETTLE_SECONDS: Final = 120
"""How long a client may take to get through, once nothing fails any more."""
QUIET: Final = {"log_level": 0, "socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 500}

PACE_SECONDS: Final = 0.05
"""Between two bursts of five records."""

Read = dict[int, list[tuple[int, bytes]]]
"""By partition: offsets with values."""


def create_topics(bootstrap: str, *names: str) -> None:
    """Create topics of three replicas, which is tried until the brokers are there."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for name in names:
        deadline = time.monotonic() + 60
        while True:
            try:
                admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(10)
                break
            except (KafkaException, TimeoutError):
                assert time.monotonic() < deadline, name
                time.sleep(0.5)


def read_all(bootstrap: str, topic: str) -> Read:
    """Return all committed records of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    found: Read = defaultdict(list)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    left, deadline = set(range(PARTITIONS)), time.monotonic() + SETTLE_SECONDS
    while left:
        assert time.monotonic() < deadline, f"partitions {left} of {topic} cannot be read to their end"
        message = consumer.poll(1.0)
        if message is None:
            continue
        partition = message.partition()
        assert partition is not None
        error = message.error()
        if error is None:
            found[partition].append((message.offset() or 0, message.value() or b""))
        elif error.name() == "_PARTITION_EOF":
            left.discard(partition)
    consumer.close()
    return found


class Numbers(threading.Thread):
    """Produces numbers with acks=all, and keeps what was acknowledged.

    Attributes:
        acknowledged: by partition, the offset of each value.
        pauses: the longest times without an acknowledgement, in seconds.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name=f"numbers into {topic}")
        self.acknowledged: dict[int, dict[int, bytes]] = defaultdict(dict)
        self.failed: list[str] = []
        self.pauses: list[float] = []
        self._topic = topic
        self._stopping = threading.Event()
        self._last = time.monotonic()
        config = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5, **QUIET}
        self._producer = Producer({**config, "message.timeout.ms": 600_000, "request.timeout.ms": 5_000})

    def run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            for _ in range(5):
                with contextlib.suppress(BufferError):
                    self._producer.produce(
                        self._topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._told
                    )
                    number += 1
            self._producer.poll(0)
            self._stopping.wait(PACE_SECONDS)  # an hour of records fits into the memory of three brokers
        left = self._producer.flush(SETTLE_SECONDS)
        if left:
            self.failed.append(f"{left} records are not answered {SETTLE_SECONDS} s after the last fault")

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def _told(self, error: Any, message: Any) -> None:
        now = time.monotonic()
        if now - self._last > 1:
            self.pauses.append(now - self._last)
        self._last = now
        if error is not None:
            self.failed.append(str(error))
            return
        taken = self.acknowledged[message.partition()].setdefault(message.offset(), message.value())
        if taken != message.value():
            self.failed.append(f"offset {message.offset()} was acknowledged for {taken!r} and {message.value()!r}")

    def check(self, read: Read) -> list[str]:
        """Return what is wrong: records that are lost, doubled, or out of order."""
        wrong = list(self.failed)
        for partition, told in self.acknowledged.items():
            there = dict(read[partition])
            lost = [offset for offset, value in told.items() if there.get(offset) != value]
            if lost:
                wrong.append(f"{len(lost)} acknowledged records of partition {partition} are lost, from {min(lost)} on")
            values = [int(value) for _, value in read[partition]]
            if values != sorted(set(values)):
                wrong.append(f"partition {partition} has records twice, or out of order")
        return wrong


class Copying(threading.Thread):
    """Copies a topic into another, each record once: read, write and commit offsets in transactions."""

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        super().__init__(name=f"copying {source} to {target}")
        self._servers, self._source, self._topic = bootstrap, source, target
        self._stopping = threading.Event()
        self.transactions = 0
        self.restarts = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._copy()
            except KafkaException:
                self.restarts += 1  # a new instance fences the old one, and goes on from the committed offsets
                time.sleep(0.2)

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def _copy(self) -> None:
        config = {"bootstrap.servers": self._servers, **QUIET}
        group = {"group.id": "copying", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer({**config, **group, "isolation.level": "read_committed", "session.timeout.ms": 6_000})
        producer = Producer({**config, "transactional.id": "copying", "transaction.timeout.ms": 20_000})
        try:
            producer.init_transactions(30)
            consumer.subscribe([self._source])
            while not self._stopping.is_set():
                messages = [each for each in consumer.consume(200, 0.5) if each.error() is None]
                if messages:
                    self._write(consumer, producer, messages)
        finally:
            consumer.close()

    def _write(self, consumer: Consumer, producer: Producer, messages: list[Any]) -> None:
        producer.begin_transaction()
        for each in messages:
            while True:
                try:
                    producer.produce(self._topic, each.value(), partition=each.partition())
                    break
                except BufferError:
                    producer.poll(0.1)
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(
            [each for each in positions if each.offset >= 0], consumer.consumer_group_metadata(), 30
        )
        producer.commit_transaction(30)
        self.transactions += 1
