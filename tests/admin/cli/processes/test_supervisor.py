"""A cluster of processes, attacked by another process of the machine when one of its brokers is dead."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from purgatorio.admin.cli.processes.supervisor import Supervisor
from purgatorio.admin.operations.brokers import KillBroker, StopBroker
from purgatorio.broker.config.listeners import BROKERS
from purgatorio.broker.config.sources import load_cluster_config
from purgatorio.broker.metadata.embedded import DirectLink
from purgatorio.broker.metadata.image import Endpoint
from tests.broker.impostors import impostor, moved, taken
from tests.error_log import ErrorLog

pytestmark = pytest.mark.process
TIMES = 100


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    settings = {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:ANONYMOUS"}
    running = Supervisor(load_cluster_config(settings={"port": "0", "admin.port": "0", **settings}))
    await running.start(None)
    yield running
    await running.stop()


def endpoints(supervisor: Supervisor, broker_id: int) -> tuple[Endpoint, ...]:
    return supervisor.store.image.brokers[broker_id].endpoints


async def test_no_other_process_takes_the_ports_of_a_process_that_has_ended(
    supervisor: Supervisor, error_log: ErrorLog
) -> None:
    """However it ended; and its broker comes back on them."""
    victim = supervisor.brokers[1]
    for way in ("SIGKILL", "broker kill", "broker stop"):
        ports = [each.port for each in endpoints(supervisor, 2)]
        assert len(ports) == 2
        if way == "SIGKILL":
            os.kill(victim.pid, signal.SIGKILL)
            await victim.ended()
            error_log.expect("a broker's process has ended")
        else:
            await supervisor.control(KillBroker if way == "broker kill" else StopBroker, 2)
        assert not any(taken(port) for port in ports for _ in range(TIMES))
        for port in ports:
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
        await victim.start(None)
        assert [each.port for each in endpoints(supervisor, 2)] == ports
    await supervisor.stop()
    assert all(taken(port) for port in ports)


async def test_a_dead_broker_stays_a_target_of_monitoring(supervisor: Supervisor) -> None:
    """Prometheus forgot it at the moment that it should report."""
    before = supervisor.targets
    assert list(before) == [1, 2, 3]
    for operation in (KillBroker, StopBroker):
        await supervisor.control(operation, 2 if operation is KillBroker else 3)
        assert supervisor.targets == before
    assert supervisor.active_and_fenced == (1, 1), "3 has left"
    await supervisor.control(KillBroker, 1)
    assert supervisor.active_and_fenced == (0, 2)


async def test_what_processes_send_to_a_dead_brokers_port_is_of_no_use_at_the_others(supervisor: Supervisor) -> None:
    """Those that follow broker 2 connect to the impostor in its place, again and again."""
    bootstrap = ",".join(f"{each.endpoints[0].host}:{each.endpoints[0].port}" for each in supervisor.brokers)
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    living = [each for number in (1, 3) for each in endpoints(supervisor, number) if each.listener == BROKERS]
    async with impostor(*((each.host, each.port) for each in living)) as found:
        store = supervisor.store.open(DirectLink(asyncio.get_running_loop().call_soon))
        store.submit(lambda image: (moved(image, 2, found.port), None), lambda _: None)
        await admin.create_topics([NewTopic("orders", -1, -1, {0: [2, 1, 3]})])
        await found.hears(4)
        await found.replay(times=TIMES // 4)
        assert found.accepted == 0
        store.close()
    await admin.close()
