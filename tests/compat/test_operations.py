"""Elections, moves and deletions, asked for by real admin clients; and a consumer that reads near by (KIP-392)."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata
from kafka import KafkaAdminClient
from kafka import TopicPartition as Partition
from kafka.errors import InvalidReplicationAssignmentError, NoReassignmentInProgressError

from purgatorio.admin.cli.admin_client import AdminClient as Operator
from tests.conftest import StartPurgatorio

PREFERRED = 0


class Own:
    """A cluster of the test's own: its brokers are stopped, and it has racks."""

    def __init__(self, start: StartPurgatorio) -> None:
        self.process = start(
            "cluster", "--port", "0", "--admin-port", "0", "--racks", "a,b,c", "--log-level", "error",
            "--set", "auto.leader.rebalance.enable=false",
        )  # fmt: skip
        greeting = self.process.greeting()
        self.bootstrap = ",".join(re.findall(r"broker \d+ +(\S+:\d+)", greeting))
        page = re.search(r"page +(\S+)", greeting)
        assert page is not None
        self.url = page.group(1).rstrip("/")
        self.operator = Operator(self.url)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def metrics(self) -> str:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=20) as answer:
            return str(answer.read().decode())

    def create(self, name: str) -> None:
        self.admin.create_topics([NewTopic(name, 1, 3)])[name].result()

    def partition(self, name: str) -> PartitionMetadata:
        return self.admin.list_topics(name, timeout=20).topics[name].partitions[0]

    def until(self, name: str, condition: Callable[[PartitionMetadata], bool]) -> None:
        for _ in range(400):
            if condition(self.partition(name)):
                return
            time.sleep(0.05)
        raise AssertionError("not within 20 s")


@pytest.fixture
def own(start_purgatorio: StartPurgatorio) -> Own:
    return Own(start_purgatorio)


def test_a_preferred_leader_is_elected_by_a_real_admin_client(own: Own) -> None:
    own.create("orders")
    preferred = own.partition("orders").leader
    own.operator.post(f"brokers/{preferred}/stop")
    own.until("orders", lambda p: p.leader not in (-1, preferred))
    own.operator.post(f"brokers/{preferred}/start")
    own.until("orders", lambda p: len(p.isrs) == 3)
    result = own.admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("orders", 0)]).result()
    assert result[TopicPartition("orders", 0)] is None
    own.until("orders", lambda p: p.leader == preferred)


def test_records_are_deleted_by_a_real_admin_client(own: Own) -> None:
    own.create("orders")
    producer = Producer({"bootstrap.servers": own.bootstrap})
    for number in range(10):
        producer.produce("orders", str(number).encode())
    assert producer.flush(20) == 0
    deleted = own.admin.delete_records([TopicPartition("orders", 0, 7)])
    assert [future.result().low_watermark for future in deleted.values()] == [7]
    consumer = Consumer({"bootstrap.servers": own.bootstrap, "group.id": "none"})
    assert consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=20) == (7, 10)
    consumer.close()


def test_kip_392_a_real_consumer_reads_from_the_replica_in_its_rack(own: Own) -> None:
    own.create("orders")
    leader = own.partition("orders").leader
    near = leader % 3 + 1
    consumer = Consumer(
        {
            "bootstrap.servers": own.bootstrap,
            "group.id": "none",
            "client.rack": "abc"[near - 1],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition("orders", 0, 0)])
    producer = Producer({"bootstrap.servers": own.bootstrap})
    for number in range(20):
        producer.produce("orders", str(number).encode())
        assert producer.flush(20) == 0
        message = consumer.poll(20)
        assert message is not None
        assert (message.error(), message.value()) == (None, str(number).encode())
    consumer.close()
    fetched = {
        int(broker): float(bytes_out)
        for broker, bytes_out in re.findall(
            r'kafka_server_brokertopicmetrics_bytesout_total\{broker="(\d+)",topic="orders"\} (\S+)', own.metrics()
        )
    }
    assert [broker for broker, bytes_out in fetched.items() if bytes_out > 0] == [near]


def test_kip_455_a_partition_is_moved_by_a_real_admin_client(own: Own) -> None:
    admin, moving = KafkaAdminClient(bootstrap_servers=own.bootstrap), Partition("orders", 0)
    own.admin.create_topics([NewTopic("orders", 1, replica_assignment=[[1]])])["orders"].result()
    with Producer({"bootstrap.servers": own.bootstrap}) as producer:
        producer.produce("orders", b"moved")
        assert producer.flush(20) == 0
    assert admin.alter_partition_reassignments({moving: [2, 9]}) == {moving: InvalidReplicationAssignmentError}
    assert admin.alter_partition_reassignments({moving: None}) == {moving: NoReassignmentInProgressError}
    assert own.partition("orders").replicas == [1]
    # What the new replicas have to fetch is held back, so that the move is seen under way, and called off.
    for broker_id in (2, 3):
        own.operator.post(f"brokers/{broker_id}/follower", {"held": True})
    assert admin.alter_partition_reassignments({moving: [3, 2]}) == {moving: None}
    under_way = {"replicas": [3, 2, 1], "adding_replicas": [3, 2], "removing_replicas": [1]}
    assert admin.list_partition_reassignments() == {moving: under_way}
    assert admin.list_partition_reassignments([moving, Partition("other", 0)]) == {moving: under_way}
    assert admin.alter_partition_reassignments({moving: None}) == {moving: None}
    assert admin.list_partition_reassignments() == {}
    for broker_id in (2, 3):
        own.operator.post(f"brokers/{broker_id}/follower", {"held": False})
    assert admin.alter_partition_reassignments({moving: [3, 2]}) == {moving: None}
    own.until("orders", lambda p: (p.leader, p.replicas, sorted(p.isrs)) == (3, [3, 2], [2, 3]))
    assert admin.list_partition_reassignments() == {}
    admin.close()
    consumer = Consumer({"bootstrap.servers": own.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition("orders", 0, 0)])
    message = consumer.poll(20)
    assert message is not None
    assert message.value() == b"moved"
    consumer.close()


def test_all_preferred_leaders_are_elected_by_a_real_admin_client(own: Own) -> None:
    own.create("orders")
    preferred = own.partition("orders").leader
    own.operator.post(f"brokers/{preferred}/stop")
    own.until("orders", lambda p: p.leader not in (-1, preferred))
    own.operator.post(f"brokers/{preferred}/start")
    own.until("orders", lambda p: len(p.isrs) == 3)
    admin = KafkaAdminClient(bootstrap_servers=own.bootstrap)
    (elected,) = admin.elect_leaders(PREFERRED).replica_election_results
    assert (elected.topic, [(p.partition_id, p.error_code) for p in elected.partition_result]) == ("orders", [(0, 0)])
    own.until("orders", lambda p: p.leader == preferred)
    admin.close()
