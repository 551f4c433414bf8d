"""Detects brokers that act as leader after they are fenced; a leader must stop before its lease expires."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage
from purgatorio.broker.replica.partition import Partition
from purgatorio.simulation.history.history import FencedAnswer, History
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
