"""Operating a cluster: what is refused, what a rolling restart waits for, and that nothing is left half done."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations.control.cluster_control import ClusterControl
from purgatorio.broker.cluster.errors import NotThere, OperationRefused
from purgatorio.broker.cluster.restart import not_in_sync
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

PATIENCE_S = 20


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    quick: dict[str, Any] = {"broker_session_timeout_ms": 200, "broker_heartbeat_interval_ms": 50}
    async with Cluster(ClusterConfig(port=0, admin_port=0, broker=quick), seed=1) as running:
        yield running


@pytest.fixture
def control(cluster: Cluster) -> ClusterControl:
    return ClusterControl(cluster)


async def create(cluster: Cluster, name: str, *, replicas: int = 3) -> None:
    peer = PeerConnection(cluster.clock, client_id="test")
    await peer.connect(*cluster.brokers[0].address)
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=3, replication_factor=replicas)])
    answer: CreateTopicsResponse = await peer.request(ApiKey.CREATE_TOPICS, 5, request, timeout_ms=PATIENCE_S * 1000)
    assert answer.topics[0].error_code == ErrorCode.NONE
    peer.close()


def epochs(control: ClusterControl) -> list[int]:
    return [registration.broker_epoch for registration in control.image.brokers.values()]


async def test_a_rolling_restart_gives_every_broker_a_new_epoch_and_ends_in_sync(
    cluster: Cluster, control: ClusterControl
) -> None:
    await create(cluster, "orders")
    before = epochs(control)
    addresses = cluster.addresses
    await control.restart_brokers()
    assert min(epochs(control)) > max(before)
    assert not_in_sync(control.image) == []
    assert cluster.addresses == addresses


async def test_a_restart_that_would_lose_records_is_refused(cluster: Cluster, control: ClusterControl) -> None:
    await create(cluster, "single", replicas=1)
    before = epochs(control)
    with pytest.raises(OperationRefused, match=r"one replica only: single-0, single-1, single-2"):
        await control.restart_brokers()
    assert epochs(control) == before


async def test_a_restart_while_one_is_under_way_or_a_broker_is_down_is_refused(
    cluster: Cluster, control: ClusterControl
) -> None:
    first = asyncio.create_task(control.restart_brokers())
    await asyncio.sleep(0)
    with pytest.raises(OperationRefused, match="a rolling restart is already under way"):
        await control.restart_brokers()
    await first
    await control.kill_broker(2)
    with pytest.raises(OperationRefused, match="not all brokers are running: start 2 first"):
        await control.restart_brokers()


async def test_of_two_that_are_stopped_at_once_the_last_replica_stays(
    cluster: Cluster, control: ClusterControl
) -> None:
    """The second request is judged as if the first broker had left, although it is still leaving."""
    await create(cluster, "orders", replicas=2)
    outcomes = await asyncio.gather(
        *(control.stop_broker(broker_id) for broker_id in (1, 2, 3)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), OperationRefused, OperationRefused]
    assert "broker 2 is the last in-sync replica of orders-" in str(outcomes[1])
    assert [member.state for member in control.members] == ["stopped", "running", "running"]


async def test_a_broker_that_is_being_changed_is_shown_as_such_and_left_alone(
    cluster: Cluster, control: ClusterControl
) -> None:
    stopping = asyncio.create_task(control.stop_broker(2))
    await asyncio.sleep(0)
    assert [member.state for member in control.members] == ["running", "stopping", "running"]
    for change in (control.stop_broker, control.kill_broker, control.start_broker):
        with pytest.raises(OperationRefused, match="broker 2 is being stopped"):
            await change(2)
    await stopping
    with pytest.raises(NotThere, match="there is no broker 7, only 1, 2, 3"):
        await control.start_broker(7)


async def test_an_operation_runs_to_completion_if_its_caller_is_cancelled(
    cluster: Cluster, control: ClusterControl
) -> None:
    await control.kill_broker(2)
    starting = asyncio.create_task(control.start_broker(2))
    await asyncio.sleep(0)
    starting.cancel()
    await control.close()
    assert starting.cancelled()
    assert [member.state for member in control.members] == ["running"] * 3


@pytest.mark.skipif(sys.platform != "linux", reason="a socket that stops listening keeps its port there alone")
async def test_no_other_server_takes_the_port_of_a_stopped_broker(cluster: Cluster, control: ClusterControl) -> None:
    host, port = cluster.brokers[1].address
    await control.stop_broker(2)
    with pytest.raises(OSError, match="in use"):
        socket.create_server((host, port))
    assert [member.state for member in control.members] == ["running", "stopped", "running"]
    await control.start_broker(2)
    assert control.members[1].address == (host, port)


async def test_metadata_are_remembered_when_the_last_broker_is_gone(cluster: Cluster, control: ClusterControl) -> None:
    await create(cluster, "orders")
    for broker_id in (1, 2, 3):
        await control.stop_broker(broker_id, force=True)
    assert [state.leader for state in control.image.topics["orders"].partitions] == [-1, -1, -1]
    assert control.image.brokers == {}


async def test_an_offline_partition_comes_back_empty_by_an_unclean_election_only(
    cluster: Cluster, control: ClusterControl
) -> None:
    await create(cluster, "single", replicas=1)
    (leader,) = {b.broker_id for b in cluster.brokers if any(tp.topic == "single" for tp in led(b, 0))}
    await control.stop_broker(leader, force=True)
    await control.start_broker(leader)
    (clean,) = await control.elect_leaders("single", 0)
    assert clean.error == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    (unclean,) = await control.elect_leaders("single", unclean=True)
    assert (unclean.partition, unclean.error) == (0, ErrorCode.NONE)
    assert unclean.state is not None
    assert unclean.state.leader == leader


def led(broker: Any, partition: int) -> list[TopicPartition]:
    return [p.tp for p in broker.partitions if p.is_leader and p.tp.partition == partition]
