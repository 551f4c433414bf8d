"""Detects brokers that act as leader after they are fenced; a leader must stop before its lease expires."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from purgatorio.broker.broker import Broker
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.simulation.cluster import SimulatedCluster
from purgatorio.broker.simulation.history import FencedAnswer, History


class _Standstill(NamedTuple):
    """A leader's log end offset and high watermark when it was fenced; neither may advance while it acts as leader."""

    broker: Broker
    partition: Partition
    leader_epoch: int
    end_offset: int
    high_watermark: int


class FencedWatch:
    """Records a `FencedAnswer` for each leader whose log or high watermark advances after it was fenced."""

    def __init__(self, cluster: SimulatedCluster, history: History) -> None:
        self._cluster = cluster
        self._history = history
        self._standing: dict[tuple[int, TopicPartition], _Standstill] = {}
        cluster.store.committed.append(self._committed)

    async def run(self) -> None:
        """Call `look` every 20 ms until cancelled."""
        while True:
            await asyncio.sleep(0.02)
            self.look()

    def _committed(self, before: ClusterImage, after: ClusterImage) -> None:
        for broker_id, broker in self._cluster.brokers.items():
            incarnation = broker.lifecycle.incarnation
            if incarnation is None or not before.is_alive(incarnation) or after.is_alive(incarnation):
                continue
            for tp, partition in broker.replicas.partitions.items():
                if partition.is_leader:
                    self._standing[broker_id, tp] = _Standstill(
                        broker,
                        partition,
                        partition.leader_epoch,
                        partition.log.log_end_offset,
                        partition.high_watermark,
                    )

    def look(self) -> None:
        """Compare every fenced leader with its state when it was fenced."""
        for (broker_id, tp), stood in list(self._standing.items()):
            partition, incarnation = stood.partition, stood.broker.lifecycle.incarnation
            running = self._cluster.brokers.get(broker_id) is stood.broker
            leads = partition.is_leader and partition.leader_epoch == stood.leader_epoch
            if not running or not leads or (incarnation is not None and self._cluster.image.is_alive(incarnation)):
                del self._standing[broker_id, tp]
                continue
            at = (partition.log.log_end_offset, partition.high_watermark)
            if at > (stood.end_offset, stood.high_watermark):
                del self._standing[broker_id, tp]
                what = f"it went from {stood.end_offset, stood.high_watermark} to {at} (log end, high watermark)"
                self._history.record(FencedAnswer(self._cluster.clock.now_ms(), broker_id, str(tp), what))
