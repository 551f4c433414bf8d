"""The settings of the group coordinator."""

from __future__ import annotations

from typing import Final

from purgatorio.late import dataclass

OFFSETS_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(1024 * 1024),
    "delete.retention.ms": str(60 * 60_000),
}
"""The configs that the topic is created with: Kafka's, but for its segments of 100 MiB and its delete.retention.ms of
a day. Only closed segments are compacted, and these records are in memory: the end markers of one producer that
commits ten times a second take 67 MB in a day. Coordinators alone read them, when they are elected, and no replica that
was away for an hour is in sync."""

CONSUMER_SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
"""The config of one group that takes the place of group.consumer.session.timeout.ms."""
CONSUMER_HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
"""The config of one group that takes the place of group.consumer.heartbeat.interval.ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The settings of one broker's group coordinator, by Kafka's names; the defaults are Kafka's unless noted.

    Attributes:
        offsets_topic_partitions: offsets.topic.num.partitions; it never changes once the topic exists.
        offsets_topic_replication_factor: offsets.topic.replication.factor, at most the number of live brokers.
        offsets_topic_min_isr: offsets.topic.min.isr, Purgatorio's own: the topic's min.insync.replicas, at most its
            replicas but one.
        offsets_commit_timeout_ms: the longest wait for the replicas when a group's records are written.
        offset_metadata_max_bytes: the longest metadata of a committed offset.
        offsets_retention_ms: how long committed offsets are kept once no member consumes (offsets.retention.minutes).
        offsets_retention_check_interval_ms: the time between two checks for expired offsets and empty groups.
        initial_rebalance_delay_ms: how long an empty group waits for more members (Kafka: 3000; 0 here).
        min_session_timeout_ms: the shortest session timeout that a member may ask for.
        max_session_timeout_ms: the longest session timeout that a member may ask for.
        max_groups: group.coordinator.max.groups, Purgatorio's own: the most groups of one partition of the topic;
            further ones are refused.
        max_offsets: group.coordinator.max.offsets, Purgatorio's own: the most committed offsets of all groups that one
            broker coordinates, some 300 bytes each; further ones are refused.
        max_memory_bytes: group.coordinator.memory.max.bytes, Purgatorio's own: the most bytes that the groups of one
            broker keep of requests (see `GroupMemory`); a request that needs more is refused.
        consumer_session_timeout_ms: the session timeout of members of the consumer protocol (KIP-848).
        consumer_heartbeat_interval_ms: the longest time between their heartbeats.
        serves_consumers: whether the consumer protocol is served (group.coordinator.rebalance.protocols).
        upgrades: whether a classic group becomes a consumer group when a member of the consumer protocol joins.
        downgrades: whether it becomes a classic group again when its last such member leaves.
        consumer_max_size: the most members of a group of the consumer protocol.
        share_max_size: the most members of a share group.
        share_initialize_retry_ms: the longest wait for the states of share partitions to be initialized, before they
            are asked for again (group.share.initialize.retry.interval.ms).
    """

    offsets_topic_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_min_isr: int = 2
    offsets_commit_timeout_ms: int = 5_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    initial_rebalance_delay_ms: int = 0
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 10_000
    max_groups: int = 10_000
    max_offsets: int = 500_000
    max_memory_bytes: int = 128 * 1024 * 1024
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    serves_consumers: bool = True
    upgrades: bool = True
    downgrades: bool = True
    consumer_max_size: int = 10_000
    share_max_size: int = 200
    share_initialize_retry_ms: int = 30_000
