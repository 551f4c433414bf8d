"""The settings of the share coordinator and of those that ask it, and the services that its parts share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from purgatorio.broker.coordinator.coordinator_log import CoordinatorLog
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.time.long_work import OwnWork
from purgatorio.late import dataclass
from purgatorio.purgatory.clock import Clock

SHARE_GROUP_STATE_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "segment.bytes": str(1024 * 1024),
}
"""The configs that the topic is created with, beside min.insync.replicas: Kafka's, but for its segments of 100 MiB. Old
records are deleted below the snapshots that are needed, which frees whole segments, and these are in memory. Nor does
Kafka keep the brokers' log.retention.bytes from the states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateConfig:
    """The settings of one broker's share coordinator, by Kafka's names; the defaults are Kafka's unless noted.

    Attributes:
        topic_partitions: share.coordinator.state.topic.num.partitions; it never changes once the topic exists.
        topic_replication_factor: share.coordinator.state.topic.replication.factor, at most the number of live brokers.
        topic_min_isr: share.coordinator.state.topic.min.isr, at most the topic's replicas.
        write_timeout_ms: share.coordinator.write.timeout.ms: the longest wait for the replicas.
        updates_per_snapshot: share.coordinator.snapshot.update.records.per.snapshot.
        prune_interval_ms: share.coordinator.state.topic.prune.interval.ms: how often old records are deleted.
        snapshot_interval_ms: share.coordinator.cold.partition.snapshot.interval.ms: the age at which a snapshot is
            made anew, so that the records after it can be deleted.
        max_partitions: share.coordinator.max.partitions, Purgatorio's own: the most share partitions of one partition
            of the topic; further ones are refused.
        max_batches: share.coordinator.max.batches, Purgatorio's own: the most state batches of all share partitions
            that one broker coordinates, some 150 bytes each; further ones are refused.
    """

    topic_partitions: int = 50
    topic_replication_factor: int = 3
    topic_min_isr: int = 2
    write_timeout_ms: int = 5_000
    updates_per_snapshot: int = 500
    prune_interval_ms: int = 300_000
    snapshot_interval_ms: int = 300_000
    max_partitions: int = 10_000
    max_batches: int = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateServices:
    """Services that the parts of one broker's share coordinator share.

    Attributes:
        clock: wall time of snapshots, which outlives a coordinator.
        image: returns this broker's image, which shows whether a topic exists.
    """

    config: ShareStateConfig
    log: CoordinatorLog
    clock: Clock
    image: Callable[[], ClusterImage]
    work: OwnWork
