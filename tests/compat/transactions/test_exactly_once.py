"""Loops of real clients that consume, copy and commit in transactions: the copy has each record exactly once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from purgatorio.admin.cli.admin_client import AdminClient as Operator
from purgatorio.client.wire import Wire
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.compat.conftest import RunningCluster, wait_for_all_replicas
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS
from tests.compat.transactions.conftest import Start, create
from tests.compat.transactions.harness import PATIENCE_SECONDS, Worker
from tests.compat.transactions.test_transactions import CLIENTS, OTHERS

pytestmark = pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + 300)

PARTITIONS = 3
STANDSTILL_SECONDS = 15
PAUSE_SECONDS = 0.02
GROUP, TRANSACTION = 0, 1
FIND_VERSION = 2
ONE_CLIENT = [CLIENTS[0], *(pytest.param(client, marks=pytest.mark.heavy) for client in ("aiokafka", *OTHERS))]


@contextlib.contextmanager
def feeding(bootstrap: str, topic: str) -> Iterator[list[str]]:
    """Produce numbers to a topic until the block ends; then all of them are acknowledged."""
    stopping, fed, errors = threading.Event(), list[str](), list[object]()

    def feed() -> None:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        )
        while not stopping.wait(PAUSE_SECONDS):
            fed.append(str(len(fed)))
            producer.produce(topic, fed[-1], fed[-1], on_delivery=lambda error, _: error and errors.append(error))
            producer.poll(0)
        assert producer.flush(PATIENCE_SECONDS) == 0

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield fed
    finally:
        stopping.set()
        thread.join()
    assert not errors


def committed_values(bootstrap: str, topic: str) -> Counter[str]:
    """How often each value is in a topic, read committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-of-{topic}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    left = set(range(PARTITIONS))
    consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
    values: Counter[str] = Counter()
    until = time.monotonic() + PATIENCE_SECONDS
    while left:
        assert time.monotonic() < until, "the consumer does not reach the last stable offset"
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is not None:
            left.discard(message.partition())
        else:
            values[message.value().decode()] += 1
    consumer.close()
    return values


def check_copied(worker: Worker, bootstrap: str, topic: str, fed: list[str]) -> None:
    """Wait until all is copied, and check that each record is there once."""
    expected = Counter(fed)
    until = time.monotonic() + PATIENCE_SECONDS
    while (copied := committed_values(bootstrap, topic)).keys() != expected.keys():
        assert time.monotonic() < until, f"{len(expected.keys() - copied.keys())} are missing: {worker.lines[-20:]}"
        time.sleep(0.2)
    worker.stop()
    # What the worker committed last may be a second copy.
    twice = committed_values(bootstrap, topic) - expected
    assert not twice, (twice, [line for line in worker.lines if not line.startswith("copied")])


@pytest.mark.parametrize("client", CLIENTS)
def test_a_loop_copies_each_record_exactly_once(
    cluster: RunningCluster, worker_of: Start, topic: str, client: str
) -> None:
    bootstrap, target = cluster.bootstrap, f"{topic}-copy"
    create(bootstrap, **{topic: PARTITIONS, target: PARTITIONS})
    with feeding(bootstrap, topic) as fed:
        first = worker_of(cluster, client)
        first.start(f"copy {topic} {target} group-{topic} id-{topic}")
        first.wait_for_copies()
        first.close()  # killed in the middle of a transaction, mostly
        second = worker_of(cluster, client)
        second.start(f"copy {topic} {target} group-{topic} id-{topic}")
        second.wait_for_copies()
    check_copied(second, bootstrap, target, fed)


def coordinator(bootstrap: str, key: str, key_type: int) -> int:
    """The broker that coordinates a group or a transactional id."""
    host, port = bootstrap.split(",")[0].split(":")
    wire = Wire((host, int(port)))
    with contextlib.closing(wire):
        until = time.monotonic() + PATIENCE_SECONDS
        while (found := wire.ask(FindCoordinatorRequest(key=key, key_type=key_type), FIND_VERSION)).error_code:
            assert time.monotonic() < until, found
            time.sleep(0.05)
    return int(found.node_id)


def leader(bootstrap: str, topic: str) -> int:
    """The leader of a topic's first partition."""
    return int(AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, 20).topics[topic].partitions[0].leader)


def gone_on(worker: Worker, again: Callable[[], Worker]) -> Worker:
    """Wait until a loop has copied more; kill one that stands still, as a supervisor would, and start another.

    After the death of a coordinator librdkafka comes to wait for itself in one of eight runs: no request of it is under
    way at any broker then. Its transaction is aborted, and nothing may be lost or copied twice.
    """
    try:
        worker.wait_for_copies(patience_seconds=STANDSTILL_SECONDS)
    except AssertionError:
        worker.close()
        worker = again()
        worker.wait_for_copies()
    return worker


@pytest.mark.parametrize("client", ONE_CLIENT)
def test_a_loop_copies_each_record_exactly_once_while_brokers_are_killed(
    own_cluster: RunningCluster, worker_of: Start, topic: str, client: str
) -> None:
    bootstrap, target = own_cluster.bootstrap, f"{topic}-copy"
    create(bootstrap, **{topic: PARTITIONS, target: PARTITIONS})
    operator = Operator(own_cluster.admin_url)
    victims: list[Callable[[], int]] = [
        lambda: coordinator(bootstrap, f"id-{topic}", TRANSACTION),
        lambda: leader(bootstrap, target),
        lambda: coordinator(bootstrap, f"group-{topic}", GROUP),
    ]

    def started() -> Worker:
        worker = worker_of(own_cluster, client)
        worker.start(f"copy {topic} {target} group-{topic} id-{topic}")
        return worker

    with feeding(bootstrap, topic) as fed:
        worker = started()
        worker.wait_for_copies()
        for victim in victims:
            broker = victim()
            operator.post(f"brokers/{broker}/kill")
            worker = gone_on(worker, started)
            operator.post(f"brokers/{broker}/start")
            wait_for_all_replicas(bootstrap)
            worker = gone_on(worker, started)
    check_copied(worker, bootstrap, target, fed)
