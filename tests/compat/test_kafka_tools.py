"""Kafka's own command-line tools, which Maven brings from Maven Central."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from purgatorio.testing import cluster as running
from tests.compat.conftest import RunningCluster
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS
from tests.java import SHORT, class_path, compiled, needs_java

TOOL_TIMEOUT_SECONDS = 60
PATIENCE_SECONDS = 20
pytestmark = [pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + 4 * TOOL_TIMEOUT_SECONDS), needs_java]
FOLDER = Path(__file__).parent / "kafka_tools"
TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
RECORDS = 40
EARLIEST = "share.auto.offset.reset=earliest"

Tool = Callable[..., str]


@pytest.fixture(scope="session")
def tool(
    cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Tool]:
    """Runs a tool with arguments against a cluster; returns what it prints. One process runs them all."""
    path = compiled(
        FOLDER / "Tools.java",
        class_path(FOLDER / "pom.xml", pytestconfig.cache),
        tmp_path_factory.mktemp("kafka-tools"),
    )
    process = subprocess.Popen(
        ["java", *SHORT, "-cp", path, "Tools"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asked, answers = process.stdin, process.stdout

    def run(name: str, arguments: str, bootstrap: str = cluster.bootstrap) -> str:
        print(TOOLS[name], "--bootstrap-server", bootstrap, arguments, file=asked, flush=True)
        printed, errors = (base64.b64decode(each).decode() for each in answers.readline().split(":")[1:])
        assert "Exception" not in printed + errors, printed + errors
        return printed

    yield run
    asked.close()
    process.wait(TOOL_TIMEOUT_SECONDS)
    answers.close()


@pytest.fixture
def orders(cluster: RunningCluster, topic: str) -> str:
    """A topic of two partitions, with records."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 2, min(3, len(cluster.bootstrap.split(","))))])[topic].result()
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(PATIENCE_SECONDS) == 0
    return topic


@contextmanager
def consumer(cluster: RunningCluster, group: str, topic: str, protocol: str) -> Iterator[None]:
    """A consumer that has read and committed everything, and stays."""
    own = {"group.id": group, "client.id": "app", "group.protocol": protocol, "auto.offset.reset": "earliest"}
    member = Consumer({"bootstrap.servers": cluster.bootstrap, **own})
    member.subscribe([topic])
    left, until = RECORDS, time.monotonic() + PATIENCE_SECONDS
    while left and time.monotonic() < until:
        record = member.poll(0.1)
        left -= record is not None and record.error() is None
    assert left == 0
    member.commit(asynchronous=False)
    try:
        yield
    finally:
        member.close()


def rows(table: str) -> list[list[str]]:
    """The sorted rows of a tool's table, without its head."""
    return sorted([line.split() for line in table.splitlines() if line.strip()][1:])


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.heavy)])
def test_consumer_groups_are_listed_and_described(
    cluster: RunningCluster, tool: Tool, orders: str, protocol: str
) -> None:
    group = f"g-{protocol}-{orders}"
    with consumer(cluster, group, orders, protocol):
        assert group in tool("kafka-consumer-groups", "--list").splitlines()
        assert [group, protocol.capitalize(), "consumer"] in rows(tool("kafka-groups", "--list"))
        described = [[*row[:6], *row[7:]] for row in rows(tool("kafka-consumer-groups", f"--describe --group {group}"))]
        half = str(RECORDS // 2)
        assert described == [[group, orders, index, half, half, "0", "/127.0.0.1", "app"] for index in ("0", "1")]
        (member,) = rows(tool("kafka-consumer-groups", f"--describe --group {group} --members --verbose"))
        assert member[2:5] == ["/127.0.0.1", "app", "2"]
        assert f"{orders}:0,1" in member
        (state,) = rows(tool("kafka-consumer-groups", f"--describe --group {group} --state"))
        assert state[-2:] == ["Stable", "1"]


def test_offsets_of_a_group_are_reset_only_when_it_has_no_members_and_then_it_is_deleted(
    cluster: RunningCluster, tool: Tool, orders: str
) -> None:
    group = f"g-{orders}"
    reset = f"--reset-offsets --group {group} --topic {orders} --to-offset 3 --execute"
    with consumer(cluster, group, orders, "classic"):
        tool("kafka-consumer-groups", reset)
    with consumer_of_committed(cluster, group, orders) as committed:
        assert committed() == [RECORDS // 2] * 2, "a group with members keeps its offsets"
        assert [row[-1] for row in rows(tool("kafka-consumer-groups", reset))] == ["3", "3"]
        assert committed() == [3, 3]
        deleted = tool("kafka-consumer-groups", f"--delete-offsets --group {group} --topic {orders}:1")
        assert "Successful" in deleted
        assert committed() == [3, -1001]
    assert "was successful" in tool("kafka-consumer-groups", f"--delete --group {group}")
    assert group not in tool("kafka-consumer-groups", "--list").splitlines()


@contextmanager
def consumer_of_committed(cluster: RunningCluster, group: str, topic: str) -> Iterator[Callable[[], list[int]]]:
    """Reads the committed offsets of both partitions, without being a member."""
    reader = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    partitions = [TopicPartition(topic, index) for index in (0, 1)]
    try:
        yield lambda: [each.offset for each in reader.committed(partitions, timeout=PATIENCE_SECONDS)]
    finally:
        reader.close()


def test_a_share_group_consumes_and_is_listed_described_reset_and_deleted(tool: Tool, orders: str) -> None:
    group = f"s-{orders}"
    groups = f"--group {group}"
    tool("kafka-configs", f"--alter --entity-type groups --entity-name {group} --add-config {EARLIEST}")
    consume = f"--topic {orders} {groups} --timeout-ms {TOOL_TIMEOUT_SECONDS * 1_000 // 2}"
    half = RECORDS // 2
    for part, how in ((half, "--release"), (RECORDS, "")):
        consumed = tool("kafka-console-share-consumer", f"{consume} --max-messages {part} {how}")
        assert len(consumed.split()) == part, "what was released comes again"
    assert group in tool("kafka-share-groups", "--list").splitlines()
    assert [group, "Share", "share"] in rows(tool("kafka-groups", "--list"))
    assert [group, "Empty"] in rows(tool("kafka-share-groups", "--list --state"))

    def lags() -> list[str]:
        return [row[-1] for row in rows(tool("kafka-share-groups", f"--describe {groups}"))]

    assert lags() == ["0", "0"]
    (state,) = rows(tool("kafka-share-groups", f"--describe {groups} --state"))
    assert (state[-2], state[-1]) == ("Empty", "0")
    reset = tool("kafka-share-groups", f"--reset-offsets {groups} --topic {orders} --to-earliest --execute")
    assert [row[-1] for row in rows(reset)] == ["0", "0"]
    assert lags() == [str(half), str(half)]
    assert [orders, "Successful"] in rows(tool("kafka-share-groups", f"--delete-offsets {groups} --topic {orders}"))
    assert lags() == []
    assert "was successful" in tool("kafka-share-groups", f"--delete {groups}")
    assert group not in tool("kafka-share-groups", "--list").splitlines()


def test_topics_are_listed_and_described(tool: Tool, orders: str) -> None:
    listed = tool("kafka-topics", "--list").splitlines()
    assert orders in listed
    assert "__consumer_offsets" not in tool("kafka-topics", "--list --exclude-internal").splitlines()
    described = tool("kafka-topics", f"--describe --topic {orders}")
    assert "PartitionCount: 2\tReplicationFactor: 3" in described
    assert described.count("Isr: ") == 2


@pytest.mark.heavy
def test_configs_of_topics_and_groups_are_described_and_those_of_topics_changed(tool: Tool, orders: str) -> None:
    topic = f"--entity-type topics --entity-name {orders}"
    assert "Completed updating" in tool("kafka-configs", f"--alter {topic} --add-config retention.ms=60000")
    assert "retention.ms=60000" in tool("kafka-configs", f"--describe {topic}")
    group = f"--describe --entity-type groups --entity-name g-{orders} --all"
    assert "consumer.session.timeout.ms=45000" in tool("kafka-configs", group)


@pytest.mark.heavy
def test_users_get_scram_credentials_and_lose_them(tool: Tool, topic: str) -> None:
    user = f"--entity-type users --entity-name {topic}"
    for iterations in (4096, 8192):
        config = f"SCRAM-SHA-256=[iterations={iterations},password=secret]"
        assert "Completed updating" in tool("kafka-configs", f"--alter {user} --add-config {config}")
        assert f"SCRAM-SHA-256=iterations={iterations}" in tool("kafka-configs", f"--describe {user}")
    assert "Completed updating" in tool("kafka-configs", f"--alter {user} --delete-config SCRAM-SHA-256")
    assert "SCRAM" not in tool("kafka-configs", f"--describe {user}")


def test_quotas_of_clients_and_addresses_are_set_described_and_deleted(tool: Tool) -> None:
    for entity, quota, told in (
        ("--entity-type clients --entity-name bulk", "producer_byte_rate", "client-id 'bulk'"),
        (
            "--entity-type users --entity-name alice --entity-type clients --entity-default",
            "request_percentage",
            "user",
        ),
        ("--entity-type ips --entity-name 192.0.2.1", "connection_creation_rate", "ip '192.0.2.1'"),
    ):
        assert "Completed updating" in tool("kafka-configs", f"--alter {entity} --add-config {quota}=1024")
        described = tool("kafka-configs", f"--describe {entity}")
        assert told in described
        assert f"{quota}=1024.0" in described
        tool("kafka-configs", f"--alter {entity} --delete-config {quota}")
        assert f"{quota}=" not in tool("kafka-configs", f"--describe {entity}")


def test_offsets_and_sizes_of_replicas_are_shown(tool: Tool, orders: str) -> None:
    half = RECORDS // 2
    assert tool("kafka-get-offsets", f"--topic {orders}").splitlines() == [f"{orders}:0:{half}", f"{orders}:1:{half}"]
    told = json.loads(tool("kafka-log-dirs", f"--describe --topic-list {orders}").splitlines()[-1])
    replicas = [each["partition"] for broker in told["brokers"] for each in broker["logDirs"][0]["partitions"]]
    assert sorted(replicas) == [f"{orders}-0"] * 3 + [f"{orders}-1"] * 3


@contextmanager
def open_transaction(cluster: RunningCluster, transactional_id: str, topic: str) -> Iterator[Producer]:
    """A producer that has written to partition 0 in a transaction."""
    own = {"transactional.id": transactional_id, "transaction.timeout.ms": 30_000}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **own})
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, "in a transaction", partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    yield producer


def last_stable_offset(cluster: RunningCluster, topic: str) -> int:
    """Where consumers that read committed stop."""
    level = {"isolation.level": "read_committed", "group.id": "unused"}
    reader = Consumer({"bootstrap.servers": cluster.bootstrap, **level})
    try:
        return int(reader.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_SECONDS)[1])
    finally:
        reader.close()


def test_transactions_are_listed_and_described(cluster: RunningCluster, tool: Tool, orders: str) -> None:
    transactional_id, start = f"id-{orders}", str(RECORDS // 2)
    with open_transaction(cluster, transactional_id, orders) as producer:
        assert [row[3] for row in rows(tool("kafka-transactions", "list")) if row[0] == transactional_id] == ["Ongoing"]
        (described,) = rows(tool("kafka-transactions", f"describe --transactional-id {transactional_id}"))
        assert (described[4], described[5], described[-1]) == ("Ongoing", "30000", f"{orders}-0")
        where = f"--topic {orders} --partition 0"
        producers = rows(tool("kafka-transactions", f"describe-producers {where}"))
        assert [row[-1] for row in producers if row[0] == described[2]] == [start]
        producer.commit_transaction(PATIENCE_SECONDS)
    (described,) = rows(tool("kafka-transactions", f"describe --transactional-id {transactional_id}"))
    assert described[4] == "CompleteCommit"


@pytest.mark.heavy
def test_transactions_are_found_to_hang_and_aborted(cluster: RunningCluster, tool: Tool, orders: str) -> None:
    start = RECORDS // 2
    with open_transaction(cluster, f"id-{orders}", orders):
        assert last_stable_offset(cluster, orders) == start
        metadata = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(orders, PATIENCE_SECONDS)
        leader = metadata.topics[orders].partitions[0].leader
        assert rows(tool("kafka-transactions", f"find-hanging --broker-id {leader}")) == [], "its coordinator knows it"
        where = f"--topic {orders} --partition 0 --start-offset {start}"
        tool("kafka-transactions", f"abort {where}")
        until = time.monotonic() + PATIENCE_SECONDS
        while last_stable_offset(cluster, orders) == start:
            assert time.monotonic() < until, "the marker ends it"


def test_the_performance_test_produces_in_transactions(cluster: RunningCluster, tool: Tool, topic: str) -> None:
    count = f"--topic {topic} --num-records 2000 --record-size 100 --throughput -1"
    told = tool("kafka-producer-perf-test", f"{count} --transactional-id perf-{topic} --transaction-duration-ms 50")
    assert "2000 records sent" in told
    offsets = tool("kafka-get-offsets", f"--topic {topic}").splitlines()
    ends = sum(int(line.rpartition(":")[2]) for line in offsets)
    assert ends > 2000, "each transaction has a marker"


def test_the_features_of_the_cluster_are_described(tool: Tool) -> None:
    described = tool("kafka-features", "describe").splitlines()
    levels = {line.split()[1]: line.partition("FinalizedVersionLevel:")[2].split()[0] for line in described}
    assert levels.items() >= {"group.version": "1", "transaction.version": "2"}.items()


def test_acls_are_added_listed_and_removed(tool: Tool) -> None:
    with running(brokers=1, acls=["allow User:ANONYMOUS ALTER cluster"]) as kafka:

        def acls(arguments: str) -> str:
            return tool("kafka-acls", arguments, kafka.bootstrap)

        acls("--add --allow-principal User:alice --producer --topic orders --transactional-id tx")
        acls("--add --deny-principal User:bob --deny-host 10.0.0.1 --group g --resource-pattern-type prefixed")
        assert sorted(kafka.acls()[1:]) == [
            "allow User:alice CREATE topic orders",
            "allow User:alice DESCRIBE topic orders",
            "allow User:alice DESCRIBE transactional-id tx",
            "allow User:alice WRITE topic orders",
            "allow User:alice WRITE transactional-id tx",
            "deny User:bob ALL group g* from 10.0.0.1",
        ]
        listed = acls("--list --principal User:bob")
        assert "patternType=PREFIXED" in listed
        assert "principal=User:bob, host=10.0.0.1, operation=ALL, permissionType=DENY" in listed
        assert "User:alice" not in listed
        acls("--remove --topic orders --force")
        acls("--remove --group g-1 --resource-pattern-type match --force")
        assert len(kafka.acls()) == 3
