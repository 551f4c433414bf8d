"""A broker that holds a lease again commits what its followers fetched meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from unittest import mock

import pytest

from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


def test_the_high_watermark_of_a_partition_advances_when_the_lease_is_held_again(loop: SimulatedLoop) -> None:
    async def main() -> None:
        cluster = SimulatedCluster(loop, SimulatedNetwork(loop, random.Random(1)), random.Random(2))
        await cluster.start()
        created: asyncio.Future[object] = loop.create_future()
        cluster.store.open().submit(
            lambda image: create_topics(
                image, [NewTopic("orders", 1, 1)], settings=TopicSettings(), rng=random.Random(0)
            ),
            created.set_result,
        )
        await created
        await asyncio.sleep(1)
        leader = cluster.partitions["orders", 0].leader
        lost: list[int] = []
        resumed: list[int] = []
        with (  # by functions: mock does not pass on which object it was, of a compiled class
            mock.patch.object(ReplicaManager, "lease_lost", lambda replicas: lost.append(replicas.broker_id)),
            mock.patch.object(ReplicaManager, "lease_resumed", lambda replicas: resumed.append(replicas.broker_id)),
        ):
            cluster.processes[leader].link.cut()
            await asyncio.sleep(2)
            assert lost == [leader]
            assert resumed == []
            cluster.processes[leader].link.heal()
            await asyncio.sleep(0.2)
        assert resumed == [leader]
        await cluster.stop()

    loop.run_until_complete(main())
