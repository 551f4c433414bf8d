"""What a broker's settings say about groups."""

from __future__ import annotations

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.group.config import GroupConfig

_MINUTE_MS = 60_000


def group_config(config: BrokerConfig) -> GroupConfig:
    """Return the settings of the group coordinator from the broker's configs."""
    return GroupConfig(
        offsets_topic_partitions=config.offsets_topic_num_partitions,
        offsets_topic_replication_factor=config.offsets_topic_replication_factor,
        offsets_topic_min_isr=config.offsets_topic_min_isr,
        offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * _MINUTE_MS,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        max_groups=config.group_coordinator_max_groups,
        max_offsets=config.group_coordinator_max_offsets,
        max_memory_bytes=config.group_coordinator_memory_max_bytes,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_max_size=config.group_consumer_max_size,
    )
