"""What the nemesis does as an operator is what an operator of these brokers could do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from purgatorio.broker.metadata.controller import NewTopic, create_topics
from purgatorio.broker.metadata.image import PartitionState
from purgatorio.simulation.history.history import History
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import SimulatedLoop
from purgatorio.simulation.world.nemesis import Nemesis
from purgatorio.simulation.world.network import SimulatedNetwork


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


def test_a_reassignment_forgets_no_eligible_replica_of_a_topic_with_the_brokers_defaults(loop: SimulatedLoop) -> None:
    """Seed 923: it counted with a min.insync.replicas of 1, cleared the ELR, and all replicas were lost soon after."""

    async def main() -> tuple[PartitionState, PartitionState]:
        network, rng = SimulatedNetwork(loop, random.Random(1)), random.Random(2)
        cluster = SimulatedCluster(loop, network, rng, min_insync_replicas=2)
        await cluster.start()
        store, created = cluster.store.open(), loop.create_future()
        new = [NewTopic("orders", 1, 3)]
        store.submit(
            lambda image: create_topics(image, new, settings=cluster.topic_settings, rng=rng), created.set_result
        )
        await created
        await asyncio.sleep(0.1)
        leader = cluster.partitions["orders", 0].leader
        for broker_id in sorted({1, 2, 3} - {leader}):
            cluster.kill_broker(broker_id)
            await asyncio.sleep(1.0)
        before = cluster.partitions["orders", 0]
        nemesis = Nemesis(cluster, [], History(), random.Random(3), restart_client=lambda name: None)
        await nemesis.reassign(loop.time() + 1.0)
        await asyncio.sleep(0.1)
        after = cluster.partitions["orders", 0]
        await cluster.stop()
        return before, after

    before, after = loop.run_until_complete(main())
    assert len(before.isr) == len(before.elr) == 1
    assert before.replicas != after.replicas
    assert (after.isr, after.elr) == (before.isr, before.elr)
