"""Kafka Streams, which Maven brings from Maven Central, counts words exactly once (`exactly_once_v2`)."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from purgatorio.admin.cli.admin_client import AdminClient as Operator
from tests.compat.conftest import RunningCluster, running_cluster, wait_for_all_replicas
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS, Programs

FOLDER = Path(__file__).parent / "streams"
PATIENCE_SECONDS = 120
PARTITIONS = 2
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon")
ROUNDS = 200

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + 3 * PATIENCE_SECONDS)]


class Counts:
    """The counts of the words, as the application has committed them, in the order of each partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.of_word: dict[str, list[int]] = {}
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"}
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    def wait_until(self, reached: Callable[[], bool]) -> None:
        """Read on until enough is counted."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            assert time.monotonic() < until, self.of_word
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.of_word.setdefault(message.key().decode(), []).append(int(message.value()))

    @property
    def total(self) -> int:
        """How many words are counted."""
        return sum(map(len, self.of_word.values()))

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


@contextmanager
def application(command: list[str]) -> Iterator[None]:
    """The application; it is killed unless it has ended before."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        yield
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def send(bootstrap: str, topic: str, rounds: int) -> None:
    """Send lines of all words."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(rounds):
        producer.produce(topic, " ".join(WORDS), str(number))
        producer.poll(0.005)
    assert producer.flush(PATIENCE_SECONDS) == 0


@contextmanager
def counting(cluster: RunningCluster, topic: str, folder: Path, programs: Programs) -> Iterator[Counts]:
    """The application counts the words of a topic."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    replicas = len(admin.list_topics(timeout=20).brokers)
    target = f"{topic}-counts"
    new = [NewTopic(name, PARTITIONS, replicas) for name in (topic, target)]
    for created in admin.create_topics(new).values():
        created.result()
    counts = Counts(cluster.bootstrap, target)
    command = [*programs["java"], cluster.bootstrap, f"app-{topic}", topic, target, str(replicas), str(folder)]
    try:
        with application(command):
            yield counts
    finally:
        counts.close()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The command that starts the application."""
    return Programs(FOLDER, "wordCount", tmp_path_factory.mktemp("streams"), FOLDER / "pom.xml")


def check(counts: Counts, rounds: int) -> None:
    """Each word was counted one by one: no line was lost, and none was counted twice."""
    counts.wait_until(lambda: counts.total >= rounds * len(WORDS))
    assert counts.of_word == {word: list(range(1, rounds + 1)) for word in WORDS}


def test_words_are_counted_exactly_once(
    cluster: RunningCluster, programs: Programs, topic: str, tmp_path: Path
) -> None:
    with counting(cluster, topic, tmp_path, programs) as counts:
        send(cluster.bootstrap, topic, ROUNDS)
        check(counts, ROUNDS)


def test_words_are_counted_exactly_once_while_brokers_are_killed(
    programs: Programs, topic: str, tmp_path: Path
) -> None:
    with running_cluster() as cluster, counting(cluster, topic, tmp_path, programs) as counts:
        operator = Operator(cluster.admin_url)
        for broker in (1, 2, 3):
            send(cluster.bootstrap, topic, ROUNDS)
            counts.wait_until(lambda: counts.total > 0)
            operator.post(f"brokers/{broker}/kill")
            send(cluster.bootstrap, topic, ROUNDS)
            operator.post(f"brokers/{broker}/start")
            wait_for_all_replicas(cluster.bootstrap)
        check(counts, 6 * ROUNDS)
