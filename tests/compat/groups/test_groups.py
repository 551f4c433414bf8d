"""Real clients in groups: members come, go, are killed and come back, and their coordinator is killed."""

from __future__ import annotations

import time

import pytest
from confluent_kafka.admin import AdminClient

from purgatorio.admin.cli.admin_client import AdminClient as Operator
from tests.compat.conftest import RunningCluster
from tests.compat.groups.conftest import Start
from tests.compat.groups.harness import PARTITIONS, Members
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS, Programs

# Its first test installs what a client needs.
pytestmark = pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + 60)

OTHERS = ("kafka-python", "kafkajs", "franz-go", "sarama", "java")
CLIENTS = ["confluent-kafka", "aiokafka", *(pytest.param(client, marks=pytest.mark.heavy) for client in OTHERS)]
RESTART_SESSION_MS = 20_000
CALM_SESSION_MS = 6_000
"""Longer than clients take to find the new coordinator, and than librdkafka waits (1 s) before it joins again."""
CONSUMER_PROTOCOL = "group.protocol=consumer"
COOPERATIVE_IN_JAVA = "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
CHANGES = ("owns", "assigned", "revoked")


@pytest.mark.parametrize("client", CLIENTS)
def test_members_share_the_partitions_and_a_killed_ones_go_to_the_others(
    groups_cluster: RunningCluster, members_of: Start, programs: Programs, client: str
) -> None:
    members, command = members_of(groups_cluster), programs[client]
    with members.feeding():
        members.start("one", command)
        members.wait_for_shares("one")
        members.start("two", command)
        members.wait_for_shares("one", "two")
        members.wait_for_records("one")
        members.wait_for_records("two")
        members.kill("two")
        members.wait_for_shares("one")
        members.wait_for_records("one")
    members.stop("one")
    with members.feeding():
        members.start("three", command)
        members.wait_for_shares("three")
        members.wait_for_records("three")
    members.stop("three")
    members.check_resumed("three")
    members.check_order()


def kill_coordinator(cluster: RunningCluster, group_id: str) -> None:
    """Kill the broker that coordinates a group."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    described = admin.describe_consumer_groups([group_id])[group_id].result()
    Operator(cluster.admin_url).post(f"brokers/{described.coordinator.id}/kill")


def check_coordinator_killed(cluster: RunningCluster, members: Members, command: list[str], *settings: str) -> None:
    with members.feeding():
        for name in ("one", "two"):
            members.start(name, command, *settings)
        members.wait_for_shares("one", "two")
        members.wait_for_records("one")
        members.wait_for_records("two")
        kill_coordinator(cluster, members.group_id)
        killed_s = time.monotonic()
        members.wait_for_records("one")
        members.wait_for_records("two")
    print(f"records of all partitions are read and committed again after {time.monotonic() - killed_s:.1f} s")
    members.stop("one")
    members.stop("two")
    with members.feeding():
        members.start("three", command, *settings)
        members.wait_for_shares("three")
        members.wait_for_records("three")
    members.stop("three")
    members.check_resumed("three")
    members.check_order()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_goes_on_with_its_committed_offsets_after_its_coordinator_is_killed(
    own_cluster: RunningCluster, members_of: Start, programs: Programs, client: str
) -> None:
    check_coordinator_killed(own_cluster, members_of(own_cluster, session_ms=CALM_SESSION_MS), programs[client])


@pytest.mark.parametrize(
    ("client", "setting"),
    [
        ("confluent-kafka", "group.instance.id"),
        pytest.param("aiokafka", "group_instance_id", marks=pytest.mark.heavy),
        pytest.param("kafka-python", "group_instance_id", marks=pytest.mark.heavy),
        pytest.param("java", "group.instance.id", marks=pytest.mark.heavy),
    ],
)
def test_a_static_member_that_is_restarted_causes_no_rebalance(
    groups_cluster: RunningCluster, members_of: Start, programs: Programs, client: str, setting: str
) -> None:
    members, command = members_of(groups_cluster, session_ms=RESTART_SESSION_MS), programs[client]
    with members.feeding():
        members.start("one", command, f"{setting}=i-1")
        members.wait_for_shares("one")
        members.start("two", command, f"{setting}=i-2")
        members.wait_for_shares("one", "two")
        members.wait_for_records("two")
        share, before = members.owned("two"), len(members.lines)
        members.kill("two")
        members.start("two-again", command, f"{setting}=i-2")
        members.wait_until(lambda: members.owned("two-again") == share, "it has its share again")
        members.wait_for_records("two-again")
    changes = [line for line in members.lines[before:] if line.member == "one" and line.verb in CHANGES]
    assert not changes, members.summary()
    members.check_order()


@pytest.mark.parametrize(
    ("client", "setting"),
    [
        ("confluent-kafka", "partition.assignment.strategy=cooperative-sticky"),
        ("confluent-kafka", CONSUMER_PROTOCOL),
        pytest.param("franz-go", "", marks=pytest.mark.heavy),
        pytest.param("java", COOPERATIVE_IN_JAVA, marks=pytest.mark.heavy),
        pytest.param("java", CONSUMER_PROTOCOL, marks=pytest.mark.heavy),
    ],
)
def test_a_cooperative_rebalance_stops_only_the_partitions_that_move(
    groups_cluster: RunningCluster, members_of: Start, programs: Programs, client: str, setting: str
) -> None:
    members, command = members_of(groups_cluster, session_ms=CALM_SESSION_MS), programs[client]
    settings = [setting] if setting else []
    with members.feeding():
        members.start("one", command, *settings)
        members.wait_for_shares("one")
        members.wait_for_records("one")
        before = len(members.lines)
        members.start("two", command, *settings)
        members.wait_for_shares("one", "two")
        members.wait_for_records("two")
        revoked = [line.partitions for line in members.of("revoked", "one", before) if line.partitions]
        assert revoked == [members.owned("two")], members.summary()
        members.stop("two")
        members.wait_for_shares("one")
    members.stop("one")
    assert all(len(line.partitions) < PARTITIONS for line in members.of("revoked", "one", before)[:-1])
    members.check_order()


@pytest.mark.parametrize("client", ["confluent-kafka", pytest.param("java", marks=pytest.mark.heavy)])
def test_kip_848_a_group_goes_on_after_its_coordinator_is_killed(
    own_cluster: RunningCluster, members_of: Start, programs: Programs, client: str
) -> None:
    check_coordinator_killed(
        own_cluster, members_of(own_cluster, session_ms=CALM_SESSION_MS), programs[client], CONSUMER_PROTOCOL
    )
