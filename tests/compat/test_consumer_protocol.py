"""confluent-kafka with ``group.protocol=consumer`` (KIP-848): the coordinator assigns the partitions."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from purgatorio.admin.cli.admin_client import AdminClient as Operator
from tests.compat.conftest import RunningCluster
from tests.conftest import StartPurgatorio

PATIENCE_SECONDS = 20
PARTITIONS = 6


def make_topic(cluster: RunningCluster, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(PATIENCE_SECONDS)
    return topic


def produce(cluster: RunningCluster, topic: str, numbers: range) -> None:
    """Produce a record for each number, round the partitions; acked by all replicas."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in numbers:
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_SECONDS) == 0


class Member:
    """A consumer of the new protocol that commits what it has seen."""

    def __init__(self, cluster: RunningCluster, group_id: str, subscription: str, **config: object) -> None:
        self.seen: Counter[str] = Counter()
        self.consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group_id,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **config,
            }
        )
        self.consumer.subscribe([subscription])

    @property
    def partitions(self) -> list[int]:
        return sorted(partition.partition for partition in self.consumer.assignment())

    def poll(self, seconds: float = 0.05) -> Message | None:
        message = self.consumer.poll(seconds)
        if message is not None:
            assert message.error() is None, message.error()
            self.seen[message.value().decode()] += 1
            self.consumer.commit(message, asynchronous=False)
        return message


def poll_until(members: list[Member], is_done: Callable[[], bool]) -> float:
    """Poll all members until it is done; returns the seconds that it took."""
    began = time.monotonic()
    while not is_done():
        assert time.monotonic() < began + PATIENCE_SECONDS, [member.partitions for member in members]
        for member in members:
            member.poll()
    return time.monotonic() - began


def test_members_share_the_partitions_and_resume_where_others_have_committed(
    cluster: RunningCluster, topic: str
) -> None:
    make_topic(cluster, topic)
    produce(cluster, topic, range(60))
    one = Member(cluster, topic, topic)
    poll_until([one], lambda: len(one.seen) == 60)
    two = Member(cluster, topic, topic)
    poll_until([one, two], lambda: len(one.partitions) == len(two.partitions) == 3)
    assert sorted(one.partitions + two.partitions) == list(range(PARTITIONS))
    produce(cluster, topic, range(60, 120))
    poll_until([one, two], lambda: len(one.seen) + len(two.seen) == 120)
    one.consumer.close()
    poll_until([two], lambda: len(two.partitions) == 6)
    produce(cluster, topic, range(120, 180))
    poll_until([two], lambda: len(one.seen) + len(two.seen) == 180)
    assert set((one.seen + two.seen).values()) == {1}, "each record was consumed once"
    two.consumer.close()


def test_a_static_member_that_comes_back_keeps_its_partitions(cluster: RunningCluster, topic: str) -> None:
    make_topic(cluster, topic)
    one, two = (Member(cluster, topic, topic, **{"group.instance.id": name}) for name in ("a", "b"))
    poll_until([one, two], lambda: len(one.partitions) == len(two.partitions) == 3)
    owned = one.partitions
    one.consumer.close()  # a static member leaves for a while
    again = Member(cluster, topic, topic, **{"group.instance.id": "a"})
    poll_until([again, two], lambda: again.partitions == owned)
    assert len(two.partitions) == 3
    for member in (again, two):
        member.consumer.close()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_goes_from_the_classic_protocol_to_the_new_one_and_back(
    cluster: RunningCluster, topic: str, strategy: str
) -> None:
    make_topic(cluster, topic)
    classic = {"group.protocol": "classic", "partition.assignment.strategy": strategy, "heartbeat.interval.ms": 500}
    old = Member(cluster, topic, topic, **classic)
    poll_until([old], lambda: len(old.partitions) == PARTITIONS)
    new = Member(cluster, topic, topic)
    poll_until([old, new], lambda: len(old.partitions) == len(new.partitions) == 3)
    produce(cluster, topic, range(60))
    poll_until([old, new], lambda: len(old.seen) + len(new.seen) == 60)
    new.consumer.close()
    poll_until([old], lambda: len(old.partitions) == PARTITIONS)
    produce(cluster, topic, range(60, 120))
    poll_until([old], lambda: len(old.seen) + len(new.seen) == 120)
    last = Member(cluster, topic, topic)
    poll_until([old, last], lambda: len(old.partitions) == len(last.partitions) == 3)
    old.consumer.close()
    poll_until([last], lambda: len(last.partitions) == PARTITIONS)
    produce(cluster, topic, range(120, 180))
    poll_until([last], lambda: len(old.seen) + len(new.seen) + len(last.seen) == 180)
    assert set((old.seen + new.seen + last.seen).values()) == {1}, "each record was consumed once"
    last.consumer.close()


def test_a_group_is_described_by_the_admin_client(cluster: RunningCluster, topic: str) -> None:
    make_topic(cluster, topic)
    one = Member(cluster, topic, topic)
    poll_until([one], lambda: len(one.partitions) == PARTITIONS)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    described = admin.describe_consumer_groups([topic])[topic].result(PATIENCE_SECONDS)
    assert described.state == ConsumerGroupState.STABLE
    assert described.partition_assignor == "uniform"
    (member,) = described.members
    assert len(member.assignment.topic_partitions) == PARTITIONS
    one.consumer.close()


def test_the_coordinator_finds_the_topics_of_a_regular_expression(cluster: RunningCluster, topic: str) -> None:
    one = Member(cluster, topic, f"^{topic}-(a|b)")
    make_topic(cluster, f"{topic}-a")
    make_topic(cluster, f"{topic}-c")
    poll_until([one], lambda: len(one.partitions) == PARTITIONS)
    make_topic(cluster, f"{topic}-b")
    poll_until([one], lambda: len(one.partitions) == 2 * PARTITIONS)
    assert {partition.topic for partition in one.consumer.assignment()} == {f"{topic}-a", f"{topic}-b"}
    one.consumer.close()


@pytest.mark.heavy  # tests/compat/groups does much the same
def test_a_group_whose_coordinator_is_killed_goes_on_where_it_was(start_purgatorio: StartPurgatorio) -> None:
    process = start_purgatorio("cluster", "--port", "0", "--admin-port", "0")
    greeting = process.greeting()
    page = re.search(r"page +(\S+)", greeting)
    assert page is not None
    brokers = ",".join(re.findall(r"broker \d+ +(\S+:\d+)", greeting))
    cluster = RunningCluster(brokers, page.group(1).rstrip("/"), process.process.pid)
    make_topic(cluster, "orders")
    both = [Member(cluster, "app", "orders") for _ in range(2)]
    produce(cluster, "orders", range(60))
    poll_until(both, lambda: sum(len(each.seen) for each in both) == 60)
    poll_until(both, lambda: all(len(each.partitions) == 3 for each in both))
    owned = [each.partitions for each in both]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    coordinator = admin.describe_consumer_groups(["app"])["app"].result(PATIENCE_SECONDS).coordinator
    Operator(cluster.admin_url).post(f"brokers/{coordinator.id}/kill")
    produce(cluster, "orders", range(60, 120))
    poll_until(both, lambda: sum(len(each.seen) for each in both) == 120)
    assert [each.partitions for each in both] == owned
    third = Member(cluster, "app", "orders")
    poll_until([*both, third], lambda: len(third.partitions) == 2)
    for member in (*both, third):
        member.consumer.close()
