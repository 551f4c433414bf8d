"""A cluster that is reset: as it was at its start, at the same addresses."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.cluster import snapshots
from purgatorio.broker.cluster.cluster import BrokerCluster, BrokerStateError
from purgatorio.broker.cluster.errors import ClusterUnavailable
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from purgatorio.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(ClusterConfig(port=0, admin_port=0)) as running:
        yield running


async def client(cluster: Cluster, nth: int = 0) -> PeerConnection:
    connection = PeerConnection(SystemClock(), client_id="test")
    await connection.connect(*cluster.brokers[nth].address)
    return connection


async def create(cluster: Cluster, name: str) -> None:
    connection = await client(cluster)
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=3)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    answer = await connection.request(ApiKey.CREATE_TOPICS, 5, request, timeout_ms=10_000)
    assert answer.topics[0].error_code == 0
    connection.close()


async def test_the_addresses_stay_and_the_topics_go(cluster: Cluster) -> None:
    await create(cluster, "orders")
    before = cluster.bootstrap
    await cluster.reset()
    assert cluster.bootstrap == before
    assert [broker.image.topics for broker in cluster.brokers] == [{}, {}, {}]
    await create(cluster, "orders")


async def test_configs_are_those_of_the_start(cluster: Cluster) -> None:
    connection = await client(cluster)
    altered = AlterableConfig(name="log.retention.ms", config_operation=0, value="5")
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[altered])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    await connection.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request, timeout_ms=10_000)
    connection.close()
    assert cluster.brokers[0].dynamic.current.log_retention_ms == 5
    await cluster.reset()
    assert cluster.brokers[0].dynamic.current.log_retention_ms != 5


async def test_killed_brokers_run_again_and_held_ones_are_released(cluster: Cluster) -> None:
    before = cluster.bootstrap
    cluster.brokers[0].gate.hold()
    await cluster.kill_broker(2)
    await cluster.reset()
    assert cluster.bootstrap == before
    assert not any(broker.gate.held for broker in cluster.brokers)


async def test_an_open_connection_is_closed(cluster: Cluster) -> None:
    connection = await client(cluster)
    await cluster.reset()
    with pytest.raises(ConnectionError):
        await connection.request(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[]), timeout_ms=10_000)
    connection.close()


async def test_a_client_that_connects_meanwhile_waits(cluster: Cluster) -> None:
    """The port is never free: neither is a client refused, nor can another process take it."""
    resetting = asyncio.create_task(cluster.reset())
    while not resetting.done():
        await asyncio.to_thread(asyncio.run, client_elsewhere(cluster.config.host, port_of(cluster)))
    await resetting


def port_of(cluster: Cluster) -> int:
    return int(cluster._configs[3].port)


async def client_elsewhere(host: str, port: int) -> None:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()


async def test_the_page_runs_on_and_shows_the_new_brokers(cluster: Cluster) -> None:
    def page() -> str:
        with urllib.request.urlopen(f"{cluster.admin_url}/api/v1/state") as answer:
            return str(answer.read(), "utf-8")

    await create(cluster, "orders")
    assert "orders" in await asyncio.to_thread(page)
    await cluster.reset()
    assert "orders" not in await asyncio.to_thread(page)


async def test_metadata_versions_grow_on(cluster: Cluster) -> None:
    """What compares images of one cluster by their versions must find those after a reset newer."""
    await create(cluster, "orders")
    before = cluster.store.image.version
    await cluster.reset()
    assert cluster.store.image.version > before


async def test_no_reset_while_a_broker_is_being_stopped(cluster: Cluster) -> None:
    stopping = asyncio.create_task(cluster.stop_broker(2))
    await asyncio.sleep(0)
    with pytest.raises(BrokerStateError, match="broker 2 is being stopped"):
        await cluster.reset()
    await stopping
    await cluster.reset()
    assert len(cluster.brokers) == 3


async def test_many_resets_leave_no_task_and_no_connection() -> None:
    before = asyncio.all_tasks()
    async with Cluster(ClusterConfig(port=0, admin_port=0), admin=False) as cluster:
        await cluster.reset()
        tasks = len(asyncio.all_tasks())
        for _ in range(10):
            await cluster.reset()
        assert len(asyncio.all_tasks()) <= tasks + len(cluster.brokers) * 4  # connections between brokers come later
    assert asyncio.all_tasks() == before


async def test_the_admin_http_can_start_later() -> None:
    async with Cluster(ClusterConfig(port=0, admin_port=0), admin=False) as cluster:
        with pytest.raises(RuntimeError, match="not started"):
            _ = cluster.admin_url
        await cluster.start_admin()
        assert cluster.admin_url.startswith("http://localhost:")


async def test_a_restore_that_fails_half_way_has_renewed_the_cluster_all_the_same(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise ClusterUnavailable("no")

    renewed: list[int] = []
    cluster.when_renewed = lambda: renewed.append(cluster.store.image.version)
    monkeypatch.setattr(snapshots, "lead", fail)
    with pytest.raises(ClusterUnavailable):
        await cluster.restore(cluster.snapshot())
    assert renewed == [cluster.store.image.version]
    await cluster.kill_broker(1)


async def test_nothing_else_changes_the_brokers_during_a_reset(cluster: Cluster) -> None:
    resetting = asyncio.create_task(cluster.reset())
    await asyncio.sleep(0)
    with pytest.raises(BrokerStateError, match="broker 1 is being replaced, as the cluster is reset"):
        await cluster.reset()
    with pytest.raises(BrokerStateError):
        await cluster.kill_broker(1)
    await resetting
    assert len(cluster.brokers) == 3


class Import:
    """Contents whose records are appended when a test allows it."""

    snapshot = None
    is_empty = False

    def __init__(self) -> None:
        self.begun, self.allowed, self.count = asyncio.Event(), asyncio.Event(), 0

    async def create(self, cluster: BrokerCluster) -> None:
        pass

    async def fill(self, cluster: BrokerCluster) -> None:
        self.count += 1
        self.begun.set()
        await self.allowed.wait()


async def check_that_nothing_replaces_or_ends_brokers(cluster: Cluster) -> None:
    why = "broker 1 is being given what the cluster begins with"
    for change in (cluster.reset, lambda: cluster.kill_broker(1), lambda: cluster.start_broker(1), cluster.add_broker):
        with pytest.raises(BrokerStateError, match=why):
            await change()


async def test_no_reset_while_records_are_imported_at_the_start() -> None:
    """The start waited for a broker for ever that the reset had replaced, and was never ready."""
    cluster = Cluster(ClusterConfig(port=0), admin=False)
    cluster.beginning = records = Import()
    starting = asyncio.create_task(cluster.start())
    await records.begun.wait()
    await check_that_nothing_replaces_or_ends_brokers(cluster)
    records.allowed.set()
    await starting
    assert (records.count, cluster.has_begun) == (1, True)
    await cluster.kill_broker(1)
    await cluster.stop()


async def test_no_second_reset_while_records_are_imported_again(cluster: Cluster) -> None:
    cluster.beginning = records = Import()
    resetting = asyncio.create_task(cluster.reset())
    await records.begun.wait()
    await check_that_nothing_replaces_or_ends_brokers(cluster)
    records.allowed.set()
    await resetting
    assert (records.count, cluster.has_begun) == (1, True)
    await cluster.kill_broker(1)
