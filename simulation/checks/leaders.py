"""What is seen of leaders in a simulation: which broker leads since when, and what a fenced one still answers."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage
from purgatorio.broker.replica.partition import Partition
from purgatorio.simulation.history.history import FencedAnswer, History, LeaderElected, TopicRecreated
from purgatorio.simulation.world.cluster import Process, SimulatedCluster


class _Standstill(NamedTuple):
    """A leader's log end offset and high watermark when it was fenced; neither may advance while it acts as leader."""

    process: Process
    partition: Partition
    leader_epoch: int
    end_offset: int
    high_watermark: int


class FencedWatch:
    """Records a `FencedAnswer` for each leader whose log or high watermark advances after it was fenced."""

    def __init__(self, cluster: SimulatedCluster, history: History) -> None:
        self._cluster = cluster
        self._history = history
        self._standing: dict[tuple[str, TopicPartition], _Standstill] = {}
        cluster.store.committed.append(self._committed)

    async def run(self) -> None:
        """Call `look` every 20 ms until cancelled."""
        while True:
            await asyncio.sleep(0.02)
            self.look()

    def _committed(self, before: ClusterImage, after: ClusterImage) -> None:
        for process in self._cluster.all_processes():
            broker = process.broker
            incarnation = broker.lifecycle.incarnation
            if incarnation is None or not before.is_alive(incarnation) or after.is_alive(incarnation):
                continue
            for tp, partition in broker.replicas.partitions.items():
                if partition.is_leader:
                    self._standing[process.host.name, tp] = _Standstill(
                        process,
                        partition,
                        partition.leader_epoch,
                        partition.log.log_end_offset,
                        partition.high_watermark,
                    )

    def look(self) -> None:
        """Compare every fenced leader with its state when it was fenced."""
        running = list(self._cluster.all_processes())
        for (host, tp), stood in list(self._standing.items()):
            partition, broker = stood.partition, stood.process.broker
            # The log of a deleted replica is emptied, which moves its high watermark to its end.
            is_held = broker.replicas.partitions.get(tp) is partition
            leads = is_held and partition.is_leader and partition.leader_epoch == stood.leader_epoch
            if stood.process not in running or not leads or self._is_alive(broker.lifecycle.incarnation):
                del self._standing[host, tp]
                continue
            at = (partition.log.log_end_offset, partition.high_watermark)
            if at > (stood.end_offset, stood.high_watermark):
                del self._standing[host, tp]
                what = f"it went from {stood.end_offset, stood.high_watermark} to {at} (log end, high watermark)"
                self._history.record(FencedAnswer(self._cluster.clock.now_ms(), broker.broker_id, str(tp), what))

    def _is_alive(self, incarnation: BrokerIncarnation | None) -> bool:
        return incarnation is not None and self._cluster.image.is_alive(incarnation)


def record_leaders(cluster: SimulatedCluster, history: History) -> None:
    """Record each leader epoch and each topic created again that the metadata store commits from now on."""
    ids: dict[str, bytes] = {}

    def committed(before: ClusterImage, after: ClusterImage) -> None:
        for name, topic in after.topics.items():
            earlier = before.topics.get(name)
            if topic is earlier:
                continue
            known = earlier.partitions if earlier is not None and earlier.topic_id == topic.topic_id else ()
            is_new = ids.setdefault(name, topic.topic_id) != topic.topic_id
            ids[name] = topic.topic_id
            for index, state in enumerate(topic.partitions):
                if is_new and index >= len(known):
                    history.record(TopicRecreated(cluster.clock.now_ms(), f"{name}-{index}"))
                if index >= len(known) or known[index].leader_epoch != state.leader_epoch:
                    now_ms = cluster.clock.now_ms()
                    history.record(LeaderElected(now_ms, f"{name}-{index}", state.leader, state.leader_epoch))

    cluster.store.committed.append(committed)
