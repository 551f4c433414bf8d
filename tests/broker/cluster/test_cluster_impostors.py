"""Brokers that know each other by a secret, and a process that poses as one that is dead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config.listeners import BROKERS
from purgatorio.broker.config.sources import load_cluster_config
from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.node.broker_connections import BrokerConnections
from purgatorio.broker.server.broker_login import log_in
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.server.peers import PeerNetwork
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.framing import gather_plain
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.impostors import Impostor, impostor, moved, taken

TIMES = 100


@asynccontextmanager
async def running() -> AsyncIterator[Cluster]:
    given = {"port": "0", "authorizer.class.name": "StandardAuthorizer"}
    async with Cluster(load_cluster_config(settings=given), admin=False) as cluster:
        yield cluster


async def connect_to(cluster: Cluster, found: Impostor, broker_id: int) -> list[object]:
    """Have broker 1 connect to another one, which is thought to be at the impostor's port; returns what comes of it."""
    connections = BrokerConnections(
        cluster.broker(1).config,
        cluster._maker.credentials,
        store=SimpleNamespace(image=moved(cluster.store.image, broker_id, found.port)),
        clock=SystemClock(),
        peer_network=PeerNetwork(),
        gather=gather_plain,
    )
    coming = (connections.connect(broker_id, client="fetcher") for _ in range(TIMES))
    outcomes = await asyncio.gather(*coming, return_exceptions=True)
    for each in outcomes:
        if not isinstance(each, BaseException):
            each.close()
    return list(outcomes)


async def test_what_brokers_send_to_a_dead_brokers_port_is_of_no_use_at_the_others() -> None:
    """Neither at once, passed on to a living broker (or back), nor later."""
    async with running() as cluster:
        living = [cluster.broker(each).listeners[BROKERS].address for each in (1, 3)]
        await cluster.kill_broker(2)
        async with impostor(*living) as found:
            outcomes = await connect_to(cluster, found, 2)
            assert [type(each) for each in outcomes] == [ConnectionError] * TIMES
            assert len(found.heard) == TIMES
            await found.replay()
            assert found.accepted == 0


async def test_a_broker_that_has_moved_is_not_reached_by_way_of_its_old_port() -> None:
    """It lives, and proves itself; but the one that connects means another address."""
    async with running() as cluster, impostor(cluster.broker(2).listeners[BROKERS].address) as found:
        outcomes = await connect_to(cluster, found, 2)
        assert [type(each) for each in outcomes] == [ConnectionError] * TIMES
        await found.replay()
        assert found.accepted == 0


@pytest.mark.parametrize("mechanism", ["PURGATORIO-BROKER", "SCRAM-SHA-256", "PLAIN", ""])
async def test_a_broker_takes_no_weaker_mechanism_of_others(mechanism: str) -> None:
    """The one of earlier versions, whose token stayed the same, and those of clients; a broker says what to do."""
    async with running() as cluster:
        endpoint = Endpoint(BROKERS, *cluster.broker(1).listeners[BROKERS].address)
        peer = PeerConnection(SystemClock(), client_id="older")
        await peer.connect(endpoint.host, endpoint.port)
        with pytest.raises(ConnectionError, match=r"UNSUPPORTED_SASL_MECHANISM: .* run the same version everywhere"):
            await log_in(peer, mechanism, cluster._maker.credentials.login(2, 1, endpoint))
        await peer.wait_closed()


@pytest.mark.parametrize("kill", [True, False])
async def test_no_other_process_takes_the_ports_of_a_killed_broker(kill: bool) -> None:
    """Clients are refused there, as where nothing listens; and the broker comes back on its ports, again and again."""
    async with running() as cluster:
        ports = [each.address[1] for each in cluster.broker(2).listeners.values()]
        assert len(ports) == 2
        for _ in range(2):
            clients = [await asyncio.open_connection("127.0.0.1", port) for port in ports]
            await (cluster.kill_broker if kill else cluster.stop_broker)(2)
            for port in ports:
                assert not any(taken(port) for _ in range(TIMES))
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.open_connection("127.0.0.1", port)
            for _, writer in clients:
                writer.close()
            await cluster.start_broker(2)
            assert [each.address[1] for each in cluster.broker(2).listeners.values()] == ports
            peer = PeerConnection(SystemClock(), client_id="till")
            await peer.connect("127.0.0.1", ports[0])
            assert await peer.request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), timeout_ms=10_000)
            peer.close()
            await peer.wait_closed()


async def test_a_reset_takes_the_ports_of_killed_brokers_back_and_the_end_frees_them() -> None:
    async with running() as cluster:
        ports = [[each.address[1] for each in broker.listeners.values()] for broker in cluster.brokers]
        await cluster.kill_broker(1)
        await cluster.reset()
        assert [[each.address[1] for each in broker.listeners.values()] for broker in cluster.brokers] == ports
        await cluster.kill_broker(3)
    assert all(taken(port) for each in ports for port in each)
