"""Brokers die and stop under the load of real clients: the history that these see is judged as a simulated one is."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import random
import re
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from purgatorio.admin.cli.admin_client import AdminClient as Operator
from purgatorio.simulation.checks.checkers import check
from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import Acked, Assigned, Drained, Fault, History, Polled, Sent, Unknown
from tests.conftest import PurgatorioProcess, StartPurgatorio
from tests.logs import silenced

pytestmark = [
    pytest.mark.heavy,
    # kafka-python leaves a socket to the garbage collector now and then.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

TOPIC = "orders"
SECONDS_OF_HARM = 25.0
PAUSE_SECONDS = 0.01


class Watched:
    """A cluster in a process of its own, and the history of its clients."""

    def __init__(self, process: PurgatorioProcess) -> None:
        greeting = process.greeting()
        self.pid = process.process.pid
        self.bootstrap = ",".join(re.findall(r"broker \d+ +(\S+:\d+)", greeting))
        page = re.search(r"page +(\S+)", greeting)
        assert page is not None
        self._operator = Operator(page.group(1).rstrip("/"))
        self.history = History()
        self.values = itertools.count(1)
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._drain, args=(process,), daemon=True).start()

    @staticmethod
    def _drain(process: PurgatorioProcess) -> None:
        """Read the log, so that the cluster never waits for somebody to."""
        assert process.process.stderr is not None
        with contextlib.suppress(ValueError):
            for _ in process.process.stderr:
                pass

    def record(self, make: Callable[[int], Event]) -> None:
        with self._lock:
            self.history.record(make(time.monotonic_ns() // 1_000_000))

    def sent(self, producer: str, partition: int) -> int:
        """The next value that a producer sends."""
        with self._lock:
            value = next(self.values)
        self.record(lambda now: Sent(now, producer, f"{TOPIC}-{partition}", value, value))
        return value

    def acked(self, producer: str, partition: int, value: int, offset: int) -> None:
        self.record(lambda now: Acked(now, producer, f"{TOPIC}-{partition}", value, offset, -1))

    def unknown(self, producer: str, partition: int, value: int, error: object) -> None:
        self.record(lambda now: Unknown(now, producer, f"{TOPIC}-{partition}", value, str(error)))

    def note(self, what: str) -> None:
        self.record(lambda now: Fault(now, what))

    def operate(self, what: str, broker_id: int) -> None:
        """Stop, kill or start a broker, as `purgatorio broker` does."""
        self._operator.post(f"brokers/{broker_id}/{what}")

    def leader(self, partition: int) -> int:
        metadata = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(TOPIC, timeout=20)
        leader: int = metadata.topics[TOPIC].partitions[partition].leader
        return leader

    def wait_for_full_in_sync_sets(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for _ in range(600):
            partitions = admin.list_topics(TOPIC, timeout=20).topics[TOPIC].partitions.values()
            if all(len(partition.isrs) == 3 for partition in partitions):
                return
            time.sleep(0.05)
        raise AssertionError("the in-sync sets are not full after 30 seconds")


@pytest.fixture
def watched(start_purgatorio: StartPurgatorio) -> Iterator[Watched]:
    # These clients log an error for each connection that a dead broker refuses.
    with silenced(aiokafka=logging.CRITICAL, kafka=logging.CRITICAL):
        yield from _watched(start_purgatorio)


def _watched(start_purgatorio: StartPurgatorio) -> Iterator[Watched]:
    process = start_purgatorio("cluster", "--port", "0", "--admin-port", "0", "--set", "min.insync.replicas=2")
    cluster = Watched(process)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, num_partitions=3, replication_factor=3)]).values():
        created.result()
    yield cluster
    cluster.stopping.set()


def produce_with_confluent(cluster: Watched, partition: int) -> None:
    name = "confluent-kafka"
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 0})

    def delivered(value: int) -> Callable[[ConfluentError | None, Message], None]:
        def on_delivery(error: ConfluentError | None, message: Message) -> None:
            if error is None:
                cluster.acked(name, partition, value, message.offset())
            else:
                cluster.unknown(name, partition, value, error)

        return on_delivery

    while not cluster.stopping.is_set():
        value = cluster.sent(name, partition)
        producer.produce(TOPIC, str(value).encode(), partition=partition, on_delivery=delivered(value))
        producer.poll(PAUSE_SECONDS)
    assert producer.flush(60) == 0


def produce_with_kafka_python(cluster: Watched, partition: int) -> None:
    name = "kafka-python"
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","), acks="all", enable_idempotence=True)
    while not cluster.stopping.is_set():
        value = cluster.sent(name, partition)
        try:
            metadata = producer.send(TOPIC, str(value).encode(), partition=partition).get(timeout=60)
        except KafkaPythonError as error:
            cluster.unknown(name, partition, value, error)
        else:
            cluster.acked(name, partition, value, metadata.offset)
        time.sleep(PAUSE_SECONDS)
    producer.close()


def produce_with_aiokafka(cluster: Watched, partition: int) -> None:
    name = "aiokafka"

    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=True) as producer:
            while not cluster.stopping.is_set():
                value = cluster.sent(name, partition)
                try:
                    metadata = await producer.send_and_wait(TOPIC, str(value).encode(), partition=partition)
                except AiokafkaError as error:
                    cluster.unknown(name, partition, value, error)
                else:
                    cluster.acked(name, partition, value, metadata.offset)
                await asyncio.sleep(PAUSE_SECONDS)

    asyncio.run(run())


def consumer_of(cluster: Watched, name: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": name, "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(3)])
    for partition in range(3):
        cluster.record(lambda now, partition=partition: Assigned(now, name, f"{TOPIC}-{partition}", 0))
    return consumer


def take(cluster: Watched, name: str, message: Message | None, *, final: bool = False) -> None:
    if message is not None and message.error() is None:
        record = (message.offset(), int(message.value()))
        where = f"{TOPIC}-{message.partition()}"
        cluster.record(lambda now: Polled(now, name, where, (record,), -1, final))


def consume(cluster: Watched) -> None:
    consumer = consumer_of(cluster, "reader")
    while not cluster.stopping.is_set():
        take(cluster, "reader", consumer.poll(0.2))
    consumer.close()


def read_everything(cluster: Watched) -> None:
    consumer = consumer_of(cluster, "final")
    ends = {p: consumer.get_watermark_offsets(TopicPartition(TOPIC, p), timeout=20)[1] for p in range(3)}
    left = {partition for partition, end in ends.items() if end > 0}
    give_up = time.monotonic() + 60
    while left:
        assert time.monotonic() < give_up, f"partitions {sorted(left)} could not be read"
        message = consumer.poll(1)
        take(cluster, "final", message, final=True)
        if message is not None and message.error() is None and message.offset() + 1 >= ends[message.partition()]:
            left.discard(message.partition())
    consumer.close()
    for partition, end in ends.items():
        cluster.record(lambda now, p=partition, end=end: Drained(now, f"{TOPIC}-{p}", 0, end))


def do_harm(cluster: Watched, seconds: float, rng: random.Random) -> None:
    """Kill and stop one broker at a time, leaders above all, and pause the whole process now and then."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kind = rng.choice(["kill", "kill", "stop", "pause"])
        if kind == "pause":
            cluster.note("pause the process")
            os.kill(cluster.pid, signal.SIGSTOP)
            time.sleep(rng.uniform(0.2, 2.5))
            os.kill(cluster.pid, signal.SIGCONT)
        else:
            victim = cluster.leader(rng.randrange(3)) if rng.random() < 0.7 else rng.choice([1, 2, 3])
            cluster.note(f"{kind} broker {victim}")
            cluster.operate(kind, victim)
            time.sleep(rng.uniform(0.1, 2.0))
            cluster.operate("start", victim)
            cluster.note(f"broker {victim} is back")
        cluster.wait_for_full_in_sync_sets()
        time.sleep(rng.uniform(0.0, 0.5))


@pytest.mark.timeout(300)
def test_brokers_that_die_and_pause_under_load_lose_and_repeat_nothing(watched: Watched) -> None:
    clients = [
        threading.Thread(target=produce_with_confluent, args=(watched, 0)),
        threading.Thread(target=produce_with_kafka_python, args=(watched, 1)),
        threading.Thread(target=produce_with_aiokafka, args=(watched, 2)),
        threading.Thread(target=consume, args=(watched,)),
    ]
    for client in clients:
        client.start()
    try:
        do_harm(watched, SECONDS_OF_HARM, random.Random(1))
    finally:
        watched.stopping.set()
        for client in clients:
            client.join(90)
    assert not any(client.is_alive() for client in clients)
    read_everything(watched)
    acked = {f"{TOPIC}-{partition}": 0 for partition in range(3)}
    for ack in watched.history.of(Acked):
        acked[ack.partition] += 1
    print(f"{acked} acknowledged under {[fault.what for fault in watched.history.of(Fault)]}")
    assert all(count > 100 for count in acked.values())
    assert check(watched.history) == []


@pytest.mark.timeout(120)
def test_after_a_leader_is_killed_a_real_producer_is_acknowledged_within_one_and_a_half_seconds(
    watched: Watched,
) -> None:
    producing = threading.Thread(target=produce_with_confluent, args=(watched, 0))
    producing.start()
    gaps_ms = []
    try:
        for number in range(5):
            time.sleep(1 + number / 5)  # its client looks for leaders every second: meet it at different times
            victim = watched.leader(0)
            killed_ms = time.monotonic_ns() // 1_000_000
            watched.operate("kill", victim)
            time.sleep(4)
            gaps_ms.append(min(a.time_ms for a in watched.history.of(Acked) if a.time_ms > killed_ms + 5) - killed_ms)
            watched.operate("start", victim)
            watched.wait_for_full_in_sync_sets()
    finally:
        watched.stopping.set()
        producing.join(60)
    print(f"acknowledged again after {gaps_ms} ms")
    assert statistics.median(gaps_ms) <= 1500
