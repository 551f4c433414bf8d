"""Each invariant of the brokers' own state is found violated when it is, and only then."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from unittest import mock

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.broker_lifecycle import BrokerLifecycleManager
from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.broker.metadata.controller.brokers import fence_broker
from purgatorio.broker.replica.events import ReplicaEvents
from purgatorio.broker.replica.partition import Partition
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.purgatory import ActionQueue, DelayedOperation, Purgatory, Timer
from purgatorio.simulation.checks.invariants import INVARIANTS, Invariants, could_complete
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork
from tests.compiled import replaces_functions

TP = TopicPartition("orders", 0)


class Three:
    """Three brokers, and one partition of which broker 1 leads with ten records of an idempotent producer."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.cluster = SimulatedCluster(loop, SimulatedNetwork(loop, random.Random(1)), random.Random(2))
        self.invariants = Invariants(self.cluster)

    def replica(self, broker_id: int) -> Partition:
        return self.cluster.brokers[broker_id].replicas.partitions[TP]

    @property
    def leader(self) -> Partition:
        return self.replica(self.cluster.partitions["orders", 0].leader)

    @property
    def follower(self) -> Partition:
        return next(self.replica(b) for b in (1, 2, 3) if b != self.leader.broker_id)

    async def start(self) -> None:
        await self.cluster.start()
        done: asyncio.Future[object] = self.loop.create_future()
        self.cluster.store.open().submit(
            lambda image: create_topics(
                image, [NewTopic("orders", 1, 3)], settings=TopicSettings(), rng=random.Random(3)
            ),
            done.set_result,
        )
        await done
        await asyncio.sleep(0.1)
        await self.append(10)

    async def append(self, count: int) -> None:
        broker_id = self.leader.broker_id
        for _ in range(count):
            sequence = self.leader.log.log_end_offset
            batch = build_batch(
                [Record(0, -1, None, b"1", ())], producer_id=1, producer_epoch=0, base_sequence=sequence
            )
            self.cluster.nodes[broker_id].call(self._append, broker_id, batch)
            await asyncio.sleep(0.05)

    def _append(self, broker_id: int, batch: bytes) -> None:
        self.cluster.brokers[broker_id].replicas.append(
            [(TP, batch)], acks=-1, timeout_ms=1_000, done=lambda results: None
        )

    def found(self) -> set[str]:
        self.invariants.look()
        self.invariants.look_for_lost_wake_ups()
        return {anomaly.name for anomaly in self.invariants.anomalies}


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


def run(loop: SimulatedLoop, damage: Callable[[Three], Awaitable[None]]) -> set[str]:
    """Return what is found after the damage; nothing is before it."""

    async def main() -> set[str]:
        three = Three(loop)
        await three.start()
        assert three.leader.high_watermark == three.follower.log.log_end_offset == 10
        assert three.found() == set()
        await damage(three)
        return three.found()

    return loop.run_until_complete(main())


def test_nothing_is_found_in_a_cluster_in_order(loop: SimulatedLoop) -> None:
    async def more(three: Three) -> None:
        await three.append(5)

    assert run(loop, more) == set()
    assert all(meaning.endswith(".") for meaning in INVARIANTS.values())


async def deleted_between_two_looks(three: Three) -> None:
    await three.append(5)
    for broker_id in (1, 2, 3):
        three.replica(broker_id).log.advance_log_start(13)
    await three.append(3)


def test_records_that_are_committed_and_deleted_between_two_looks_are_not_missed(loop: SimulatedLoop) -> None:
    assert run(loop, deleted_between_two_looks) == set()


def test_a_log_start_that_moves_within_a_segment_is_no_loss(loop: SimulatedLoop) -> None:
    async def delete(three: Three) -> None:
        await three.append(2)
        assert three.found() == set()
        await three.append(2)
        three.leader.log.advance_log_start(13)

    assert run(loop, delete) == {"lost-wake-up"}, "nothing woke the followers, but no record is missed"


def test_what_follows_deleted_records_is_looked_at(loop: SimulatedLoop) -> None:
    async def damage(three: Three) -> None:
        await deleted_between_two_looks(three)
        assert three.found() == set()
        three.leader.log.truncate_to(16)

    assert "committed-prefix" in run(loop, damage)


def test_a_leader_that_lacks_committed_records_is_found(loop: SimulatedLoop) -> None:
    async def damage(three: Three) -> None:
        three.leader.log.truncate_fully_and_start_at(0)

    assert "committed-prefix" in run(loop, damage)


def put_another_batch(partition: Partition, index: int) -> None:
    """Replace a batch of the active segment by one with another checksum."""
    segment = partition.log._segments.active
    start = segment.start_of(segment.batch_count + index)
    block = max((each for each in segment._blocks if each.start <= start), key=lambda each: each.start)
    block.writable[start - block.start + 17 : start - block.start + 21] = b"\0\0\0\0"


def test_a_replica_with_another_committed_record_is_found(loop: SimulatedLoop) -> None:
    async def damage(three: Three) -> None:
        await three.append(1)
        put_another_batch(three.follower, -1)
        await asyncio.sleep(1)  # the follower learns of the high watermark

    assert run(loop, damage) == {"committed-prefix"}


def test_replicas_that_differ_before_their_last_record_are_found(loop: SimulatedLoop) -> None:
    async def damage(three: Three) -> None:
        await three.append(2)
        put_another_batch(three.follower, -2)

    assert run(loop, damage) == {"committed-prefix", "unequal-replicas"}


def test_records_that_were_truncated_are_compared_again(loop: SimulatedLoop) -> None:
    async def damage(three: Three) -> None:
        log = three.follower.log
        truncated = list(log._segments.active.batches(7))
        log.truncate_to(7)
        log.append_as_follower(b"".join(truncated), wall_ms=0, leader_epoch=three.follower.leader_epoch)
        log.commit_to(10)
        put_another_batch(three.follower, -2)

    assert run(loop, damage) == {"committed-prefix", "unequal-replicas"}


def test_replicas_that_know_different_producers_are_found(loop: SimulatedLoop) -> None:
    async def damage(three: Three) -> None:
        state = three.follower.log.producers.get(1)
        assert state is not None
        state.batches = deque(state.batches, maxlen=2)
        await three.append(1)

    assert run(loop, damage) == {"unequal-replicas"}


def test_a_high_watermark_that_goes_back_is_found(loop: SimulatedLoop) -> None:
    async def damage(three: Three) -> None:
        three.leader.log.commit_to(9)

    assert run(loop, damage) == {"watermark-back"}


def test_a_high_watermark_past_the_end_of_the_log_is_found(loop: SimulatedLoop) -> None:
    async def damage(three: Three) -> None:
        three.follower.log.commit_to(11)

    assert run(loop, damage) == {"watermark-back"}


def test_bytes_that_the_memory_budget_does_not_count_are_found(loop: SimulatedLoop) -> None:
    async def damage(three: Three) -> None:
        three.cluster.brokers[2].replicas.memory.release(1)

    assert run(loop, damage) == {"memory-account"}


def test_uncommitted_bytes_that_the_memory_budget_does_not_count_are_found(loop: SimulatedLoop) -> None:
    async def damage(three: Three) -> None:
        three.cluster.brokers[2].replicas.memory.followed.used_bytes += 1

    assert run(loop, damage) == {"memory-account"}


@replaces_functions
def test_an_append_that_does_not_wake_the_followers_is_found(loop: SimulatedLoop) -> None:
    async def damage(three: Three) -> None:
        replicas = three.cluster.brokers[three.leader.broker_id].replicas
        with mock.patch.object(replicas._events, "appended"):
            await three.append(1)

    assert run(loop, damage) == {"lost-wake-up"}


@replaces_functions
def test_a_high_watermark_that_does_not_wake_the_producer_is_found(loop: SimulatedLoop) -> None:
    def wake_fetches(self: ReplicaEvents, tp: TopicPartition, cause: str = "high watermark") -> None:
        self.changed(tp, cause)

    async def damage(three: Three) -> None:
        with mock.patch.object(ReplicaEvents, "high_watermark_moved", wake_fetches):
            await three.append(1)

    assert run(loop, damage) == {"lost-wake-up"}


@pytest.mark.parametrize(
    ("one_process", "disturbed", "found"),
    [(True, False, {"lease-while-slow"}), (True, True, set()), (False, False, set())],
    ids=["only slow", "cut off before", "a process of its own"],
)
def test_a_broker_that_is_fenced_while_it_is_only_slow_is_found(
    loop: SimulatedLoop, one_process: bool, disturbed: bool, found: set[str]
) -> None:
    async def main() -> set[str]:
        cluster = SimulatedCluster(
            loop, SimulatedNetwork(loop, random.Random(1)), random.Random(2), one_process=one_process
        )
        invariants = Invariants(cluster)
        await cluster.start()
        await asyncio.sleep(2.0)
        if disturbed:
            cluster.processes[1].link.cut()
            cluster.processes[1].link.heal()
        for node in cluster.nodes_of(cluster.broker_ids):
            node.slow_down()
        done: asyncio.Future[object] = loop.create_future()
        lease_id = cluster.image.brokers[1].lease_id
        cluster.store.open().submit(
            lambda image: fence_broker(image, lease_id, settings=cluster.topic_settings), done.set_result
        )
        for node in cluster.nodes_of(cluster.broker_ids):
            node.turn()
        await done
        for node in cluster.nodes_of(cluster.broker_ids):
            node.resume()
        return {anomaly.name for anomaly in invariants.anomalies}

    assert loop.run_until_complete(main()) == found


@replaces_functions
def test_a_broker_that_takes_its_lease_for_lost_while_it_is_only_slow_is_found(loop: SimulatedLoop) -> None:
    async def main() -> set[str]:
        cluster = SimulatedCluster(loop, SimulatedNetwork(loop, random.Random(1)), random.Random(2), one_process=True)
        invariants = Invariants(cluster)
        await cluster.start()
        await asyncio.sleep(2.0)
        for node in cluster.nodes_of(cluster.broker_ids):
            node.slow_down()
        invariants.look_at_leases()
        assert invariants.anomalies == []
        with mock.patch.object(BrokerLifecycleManager, "has_lease", return_value=False):
            invariants.look_at_leases()
        for node in cluster.nodes_of(cluster.broker_ids):
            node.resume()
        return {anomaly.name for anomaly in invariants.anomalies}

    assert loop.run_until_complete(main()) == {"lease-while-slow"}


class Ready(DelayedOperation):
    """An operation whose condition is a field."""

    ready = False
    answered = 0

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.answered += 1


def test_to_ask_whether_an_operation_could_be_completed_does_not_complete_it() -> None:
    purgatory: Purgatory[Ready] = Purgatory("test", Timer(lambda: 0), actions=ActionQueue())
    operation = Ready(1_000)
    purgatory.try_complete_else_watch(operation, ["key"])
    assert not could_complete(operation)
    operation.ready = True
    assert could_complete(operation)
    assert (operation.answered, purgatory.num_delayed) == (0, 1)
    purgatory.check_and_complete("key")
    assert (operation.answered, purgatory.num_delayed) == (1, 0)
