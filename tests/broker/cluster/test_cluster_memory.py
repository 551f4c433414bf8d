"""Three brokers at their memory cap: floods that followers cannot keep up with take nothing from a quiet topic."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.producing.writes import AppendResult
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork

MEMORY_BYTES = 128 * 1024
QUIET = TopicPartition("quiet", 0)
FLOODS = [TopicPartition(f"flood-{name}", index) for name in "ab" for index in range(2)]
ROUNDS = 40


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


class Flooded:
    """A cluster of three brokers whose logs may hold `MEMORY_BYTES` each, and its leaders."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.cluster = SimulatedCluster(
            loop, SimulatedNetwork(loop, random.Random(1)), random.Random(2), memory_bytes=MEMORY_BYTES
        )

    @property
    def replicas(self) -> list[ReplicaManager]:
        return [process.broker.replicas for process in self.cluster.processes.values()]

    def leader(self, tp: TopicPartition) -> tuple[ReplicaManager, Partition]:
        return next((each, each.partitions[tp]) for each in self.replicas if each.partitions[tp].is_leader)

    async def start(self) -> None:
        await self.cluster.start()
        created: asyncio.Future[object] = self.loop.create_future()
        new = [NewTopic("quiet", 1, 3), NewTopic("flood-a", 2, 3), NewTopic("flood-b", 2, 3)]
        self.cluster.store.open().submit(
            lambda image: create_topics(image, new, settings=TopicSettings(), rng=random.Random(0)), created.set_result
        )
        await created
        await asyncio.sleep(1)

    def produce(self, tp: TopicPartition, size_bytes: int, acks: int) -> list[Sequence[AppendResult]]:
        """Append a batch at the leader, as the Produce API does; returns a list that gets the answer."""
        answers: list[Sequence[AppendResult]] = []
        batch = build_batch([Record(0, 1_700_000_000_000, None, bytes(size_bytes), ())])
        replicas, _ = self.leader(tp)
        replicas.append([(tp, batch)], acks=acks, timeout_ms=5_000, done=answers.append)
        return answers

    def flood(self, tp: TopicPartition) -> None:
        """Append with acks=1 in one turn of the loop, in which no follower fetches, until the leader refuses."""
        code = ErrorCode.NONE
        while code is ErrorCode.NONE:
            ((result,),) = self.produce(tp, 1_000, acks=1)
            code = ErrorCode(result.error_code)
        assert code is ErrorCode.KAFKA_STORAGE_ERROR


def test_two_producers_at_the_cap_push_out_no_committed_record_of_another_topic(loop: SimulatedLoop) -> None:
    """Seen to fail: the quiet topic's log was empty on its leader after the first round."""
    flooded = Flooded(loop)

    async def run() -> None:
        await flooded.start()
        acknowledged = 0
        for number in range(ROUNDS):
            for tp in FLOODS:
                flooded.flood(tp)
            if number % 10 == 0:
                answers = flooded.produce(QUIET, 10, acks=-1)
                await asyncio.sleep(0.5)
                assert [result.error_code for (result,) in answers] == [ErrorCode.NONE]
                acknowledged += 1
            await asyncio.sleep(0.05)
        for replicas in flooded.replicas:
            log = replicas.partitions[QUIET].log
            assert (log.log_start_offset, log.log_end_offset) == (0, acknowledged)
            assert replicas.memory.evicted_bytes > 0, "the floods' own committed records go"
        for tp in FLOODS:
            _, partition = flooded.leader(tp)
            assert len(partition.isr) == 3
            assert partition.log.log_end_offset > ROUNDS, "and the floods go on as fast as followers fetch"
        await flooded.cluster.stop()

    loop.run_until_complete(run())
