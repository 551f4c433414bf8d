"""A leader that goes on after it was fenced is found; one whose replica was deleted meanwhile did not go on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.broker.replica.partition import Partition
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.simulation.checks.invariants import FencedWatch
from purgatorio.simulation.history.history import FencedAnswer, History
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork

TP = TopicPartition("orders", 0)


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


def found(loop: SimulatedLoop, then: Callable[[dict[TopicPartition, Partition]], None]) -> list[str]:
    """Fence a leader with a record that no follower has, change its replicas, and return what was recorded."""
    history = History()

    async def main() -> None:
        cluster = SimulatedCluster(loop, SimulatedNetwork(loop, random.Random(1)), random.Random(2))
        await cluster.start()
        created: asyncio.Future[object] = loop.create_future()
        new = [NewTopic("orders", 1, 3)]
        cluster.store.open().submit(
            lambda image: create_topics(image, new, settings=TopicSettings(), rng=random.Random(3)), created.set_result
        )
        await created
        await asyncio.sleep(0.1)
        watch = FencedWatch(cluster, history)
        leader = cluster.partitions["orders", 0].leader
        for broker_id, broker in cluster.brokers.items():
            if broker_id != leader:
                broker.gate.hold()
        replicas = cluster.brokers[leader].replicas
        cluster.processes[leader].link.cut()
        batch = build_batch([Record(0, -1, None, b"1", ())])
        replicas.partitions[TP].log.append_as_leader(batch, leader_epoch=0, wall_ms=0)
        incarnation = cluster.brokers[leader].lifecycle.incarnation
        assert incarnation is not None
        while cluster.image.is_alive(incarnation):  # noqa: ASYNC110 - seen from outside
            await asyncio.sleep(0.1)
        assert (replicas.partitions[TP].log.log_end_offset, replicas.partitions[TP].high_watermark) == (1, 0)
        then(replicas.partitions)
        watch.look()
        await cluster.stop()

    loop.run_until_complete(main())
    return [event.partition for event in history.of(FencedAnswer)]


def test_a_fenced_leader_that_stands_still_is_in_order(loop: SimulatedLoop) -> None:
    assert found(loop, lambda partitions: None) == []


def test_a_fenced_leader_whose_high_watermark_advances_is_found(loop: SimulatedLoop) -> None:
    def advance(partitions: dict[TopicPartition, Partition]) -> None:
        partitions[TP].log.commit_to(1)

    assert found(loop, advance) == [str(TP)]


def test_a_replica_that_was_deleted_tells_nothing(loop: SimulatedLoop) -> None:
    def delete(partitions: dict[TopicPartition, Partition]) -> None:
        partitions.pop(TP).log.close()

    assert found(loop, delete) == []
