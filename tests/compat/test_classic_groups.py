"""Consumers of one group share a topic by the classic protocol: members come, leave, are killed, and come back."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from kafka.admin import KafkaAdminClient

from purgatorio.admin.cli.admin_client import AdminClient as Operator
from tests.compat.conftest import RunningCluster, close_kafka_python
from tests.conftest import StartPurgatorio

PARTITIONS = 4
TIMEOUT_SECONDS = 20
BEAT_MS = 300
"""Between two heartbeats: 3 s by default, after which a member learns that it has to join again."""
SESSION_MS = 6_000


@pytest.fixture
def filled(cluster: RunningCluster, topic: str) -> str:
    """A topic with ten records in each partition."""
    fill(cluster, topic)
    return topic


def fill(cluster: RunningCluster, topic: str) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = confluent_kafka.admin.NewTopic(topic, num_partitions=PARTITIONS, replication_factor=3)
    admin.create_topics([new])[topic].result(TIMEOUT_SECONDS)
    produce(cluster, topic, 10)


def produce(cluster: RunningCluster, topic: str, each: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    for partition in range(PARTITIONS):
        for nth in range(each):
            producer.produce(topic, f"{partition}/{nth}".encode(), partition=partition)
    assert producer.flush(TIMEOUT_SECONDS) == 0


def wait_until(reached: Callable[[], bool], members: Iterable[Member]) -> None:
    """Let the members poll until it is true."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not reached():
        assert time.monotonic() < deadline, [sorted(each.partitions) for each in members]
        for member in members:
            member.poll()


class Member:
    """A consumer with what it owns and what it has read, as the test sees it."""

    def __init__(self) -> None:
        self.read: list[tuple[int, int]] = []
        self.revoked: list[int] = []

    @property
    def partitions(self) -> set[int]:
        raise NotImplementedError

    def poll(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class ConfluentMember(Member):
    """librdkafka's consumer."""

    def __init__(self, cluster: RunningCluster, topic: str, **config: object) -> None:
        super().__init__()
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": f"group-of-{topic}",
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": BEAT_MS,
                "session.timeout.ms": SESSION_MS,
                "enable.auto.commit": False,
                **config,
            }
        )
        self.consumer.subscribe([topic], on_revoke=self._on_revoke)

    def _on_revoke(self, _: object, partitions: list[Any]) -> None:
        self.revoked += [each.partition for each in partitions]

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is not None:
            assert message.error() is None, message.error()
            self.read.append((message.partition() or 0, message.offset() or 0))
            self.consumer.commit(message, asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonMember(Member):
    """kafka-python's consumer.

    A poll that runs out while a member joins loses the answer for good (kafka-python 3.0.12): so each has a thread of
    its own to poll in, and time.
    """

    def __init__(self, cluster: RunningCluster, topic: str) -> None:
        super().__init__()
        self.consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            group_id=f"group-of-{topic}",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=BEAT_MS,
            session_timeout_ms=SESSION_MS,
            enable_auto_commit=False,
        )
        self._thread = ThreadPoolExecutor(1)
        self._polled = self._thread.submit(self._poll)

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def _poll(self) -> None:
        for messages in self.consumer.poll(SESSION_MS // 2).values():
            self.read += [(message.partition, message.offset) for message in messages]
            self.consumer.commit()

    def poll(self) -> None:
        done, _ = futures.wait([self._polled], 0.02)
        if done:
            self._polled.result()
            self._polled = self._thread.submit(self._poll)

    def close(self) -> None:
        self._thread.shutdown()
        close_kafka_python(self.consumer)


@pytest.mark.parametrize("kind", [ConfluentMember, KafkaPythonMember])
def test_two_members_share_the_topic_and_one_takes_over_when_the_other_leaves(
    cluster: RunningCluster, filled: str, kind: Callable[[RunningCluster, str], Member]
) -> None:
    first = kind(cluster, filled)
    wait_until(lambda: len(first.read) == 10 * PARTITIONS, [first])
    second = kind(cluster, filled)
    both = [first, second]
    wait_until(lambda: len(first.partitions) == len(second.partitions) == PARTITIONS // 2, both)
    assert not first.partitions & second.partitions
    produce(cluster, filled, 5)
    wait_until(lambda: len(first.read) + len(second.read) == 15 * PARTITIONS, both)
    second.close()
    wait_until(lambda: len(first.partitions) == PARTITIONS, [first])
    produce(cluster, filled, 1)
    wait_until(lambda: len(first.read) + len(second.read) == 16 * PARTITIONS, [first])
    first.close()
    assert sorted(first.read + second.read) == [(p, offset) for p in range(PARTITIONS) for offset in range(16)]


async def test_two_members_of_aiokafka_share_the_topic(cluster: RunningCluster, filled: str) -> None:
    def member() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            filled,
            bootstrap_servers=cluster.bootstrap,
            group_id=f"group-of-{filled}",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=BEAT_MS,
        )

    async def owns(consumer: AIOKafkaConsumer, count: int) -> None:
        for _ in range(TIMEOUT_SECONDS * 50):
            if len(consumer.assignment()) == count:
                return
            await asyncio.sleep(0.02)
        raise TimeoutError(f"{sorted(consumer.assignment())}, not {count}")

    first, second = member(), member()
    await first.start()
    read = [await first.getone() for _ in range(10 * PARTITIONS)]
    assert len({(message.partition, message.offset) for message in read}) == 10 * PARTITIONS
    await first.commit()
    await second.start()
    await owns(first, PARTITIONS // 2)
    await owns(second, PARTITIONS // 2)
    assert not first.assignment() & second.assignment()
    await second.stop()
    await owns(first, PARTITIONS)
    produce(cluster, filled, 1)
    assert {(await first.getone()).offset for _ in range(PARTITIONS)} == {10}
    await first.stop()


def test_with_the_cooperative_protocol_a_member_gives_up_only_what_another_one_gets(
    cluster: RunningCluster, filled: str
) -> None:
    strategy = {"partition.assignment.strategy": "cooperative-sticky"}
    first = ConfluentMember(cluster, filled, **strategy)
    wait_until(lambda: len(first.read) == 10 * PARTITIONS, [first])
    second = ConfluentMember(cluster, filled, **strategy)
    wait_until(lambda: len(second.partitions) == PARTITIONS // 2, [first, second])
    assert sorted(first.revoked) == sorted(second.partitions)
    assert first.partitions == set(range(PARTITIONS)) - second.partitions
    first.close()
    second.close()


def test_a_static_member_that_is_restarted_gets_its_partitions_back_and_the_other_one_notices_nothing(
    cluster: RunningCluster, filled: str
) -> None:
    first, second = (ConfluentMember(cluster, filled, **{"group.instance.id": f"static-{nth}"}) for nth in (1, 2))
    both = [first, second]
    wait_until(lambda: len(first.partitions) == len(second.partitions) == PARTITIONS // 2, both)
    owned = second.partitions
    before = assignments(cluster, filled)
    first.revoked.clear()
    second.close()  # a static member does not leave its group
    back = ConfluentMember(cluster, filled, **{"group.instance.id": "static-2"})
    wait_until(lambda: back.partitions == owned, [first, back])
    assert first.revoked == []
    assert assignments(cluster, filled) == before
    first.close()
    back.close()


def assignments(cluster: RunningCluster, topic: str) -> list[tuple[str, str]]:
    """Return the static members of the topic's group with their assignments; the group is stable."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    (group,) = admin.describe_groups([f"group-of-{topic}"]).values()
    close_kafka_python(admin)
    assert group["group_state"] == "Stable"
    return sorted((each["group_instance_id"], str(each["member_assignment"])) for each in group["members"])


KILLED = """
import sys
from tests.compat.conftest import RunningCluster
from tests.compat.test_classic_groups import ConfluentMember
member = ConfluentMember(RunningCluster(sys.argv[1], "", 0), sys.argv[2])
while True:
    member.poll()
    print(len(member.partitions), len(member.read), flush=True)
"""


@pytest.mark.heavy  # tests/compat/groups does much the same with every client
def test_the_partitions_of_a_member_that_is_killed_go_to_the_other_one_which_resumes_there(
    cluster: RunningCluster, filled: str
) -> None:
    program = [sys.executable, "-c", KILLED, cluster.bootstrap, filled]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as killed:
        try:
            assert killed.stdout is not None
            for line in killed.stdout:
                if line.split() == [str(PARTITIONS), str(10 * PARTITIONS)]:
                    break
        finally:
            killed.kill()
    survivor = ConfluentMember(cluster, filled)
    wait_until(lambda: len(survivor.partitions) == PARTITIONS, [survivor])
    produce(cluster, filled, 1)
    wait_until(lambda: len(survivor.read) == PARTITIONS, [survivor])
    survivor.close()
    assert sorted(survivor.read) == [(partition, 10) for partition in range(PARTITIONS)]


@pytest.mark.heavy  # tests/compat/groups does much the same with every client
def test_members_whose_coordinator_is_killed_go_on_without_a_rebalance(start_purgatorio: StartPurgatorio) -> None:
    process = start_purgatorio("cluster", "--port", "0", "--admin-port", "0")
    greeting = process.greeting()
    page = re.search(r"page +(\S+)", greeting)
    assert page is not None
    cluster = RunningCluster(
        ",".join(re.findall(r"broker \d+ +(\S+:\d+)", greeting)), page.group(1).rstrip("/"), process.process.pid
    )
    fill(cluster, "orders")
    both = [ConfluentMember(cluster, "orders") for _ in range(2)]
    wait_until(lambda: sum(len(each.read) for each in both) == 10 * PARTITIONS, both)
    wait_until(lambda: all(len(each.partitions) == PARTITIONS // 2 for each in both), both)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    described = admin.describe_consumer_groups(["group-of-orders"])["group-of-orders"].result(TIMEOUT_SECONDS)
    for member in both:
        member.revoked.clear()
    Operator(cluster.admin_url).post(f"brokers/{described.coordinator.id}/kill")
    produce(cluster, "orders", 5)
    wait_until(lambda: sum(len(each.read) for each in both) == 15 * PARTITIONS, both)
    assert [member.revoked for member in both] == [[], []]
    for member in both:
        member.close()
