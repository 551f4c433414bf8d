"""The whole process is stopped under the load of an idempotent client: no broker is fenced, no record is doubled."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import PurgatorioProcess, StartPurgatorio

TOPIC = "orders"
PARTITIONS = 3
HEARTBEAT_SECONDS = 0.1


class LogReader:
    """Reads a process's log, so that the process never waits for a reader."""

    def __init__(self, process: PurgatorioProcess) -> None:
        self.lines: list[str] = []
        assert process.process.stderr is not None
        self._thread = threading.Thread(target=self._read, args=(process.process.stderr,), daemon=True)
        self._thread.start()

    def _read(self, stream: object) -> None:
        for line in stream:  # type: ignore[attr-defined]
            self.lines.append(line)

    def about(self, words: str) -> list[str]:
        return [line for line in self.lines if re.search(words, line)]


@pytest.mark.parametrize(
    ("stops", "seconds"), [(3, 0.8), pytest.param(10, 2.0, marks=pytest.mark.heavy)], ids=["short", "long"]
)
def test_a_process_that_is_stopped_under_load_fences_nobody_and_doubles_no_record(
    start_purgatorio: StartPurgatorio, stops: int, seconds: float
) -> None:
    process = start_purgatorio("cluster", "--port", "0", "--admin-port", "0", "--set", "min.insync.replicas=2")
    bootstrap = ",".join(re.findall(r"broker \d+ +(\S+:\d+)", process.greeting()))
    log = LogReader(process)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)]).values():
        created.result()
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    errors: list[object] = []
    values = itertools.count()
    ends_at = time.monotonic()
    for _ in range(stops):
        ends_at = _produce_for(producer, values, errors, 3 * HEARTBEAT_SECONDS)
        os.kill(process.process.pid, signal.SIGSTOP)
        try:
            _produce_for(producer, values, errors, seconds)
        finally:
            os.kill(process.process.pid, signal.SIGCONT)
    assert time.monotonic() >= ends_at
    _produce_for(producer, values, errors, 5 * HEARTBEAT_SECONDS)
    assert producer.flush(30) == 0
    assert errors == []
    sent = next(values)
    assert log.about("lease|fenced|epoch|sequence") == []
    assert sorted(_all_values(bootstrap)) == list(range(sent))


def _produce_for(producer: Producer, values: itertools.count[int], errors: list[object], seconds: float) -> float:
    """Produce a record each few milliseconds, and have answers handled."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        value = next(values)
        producer.produce(
            TOPIC,
            str(value),
            partition=value % PARTITIONS,
            on_delivery=lambda error, _: errors.append(error) if error is not None else None,
        )
        producer.poll(0.005)
    return ends_at


def _all_values(bootstrap: str) -> list[int]:
    config = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer({**config, "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found: list[int] = []
    ended = 0
    while ended < PARTITIONS:
        message = consumer.poll(10)
        assert message is not None, "no answer within ten seconds"
        if message.error() is not None:
            ended += 1
        else:
            found.append(int(message.value() or b""))
    consumer.close()
    return found
