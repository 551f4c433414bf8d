"""The part of a broker's settings that each room gets: topics, followers, connections, groups, transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.memory_shares import shares_of
from purgatorio.broker.coordinator.broker_calls import Retries
from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.group.config import GroupConfig
from purgatorio.broker.log.config import TOPIC_CONFIGS, LogConfig
from purgatorio.broker.log.setting import ConfigType
from purgatorio.broker.metadata.controller import TopicSettings
from purgatorio.broker.metadata.image import ALL_BROKERS, ClusterImage, Topic
from purgatorio.broker.metadata.releases import release
from purgatorio.broker.replica.following.follower import FetchSettings
from purgatorio.broker.server.limits import ConnectionLimits
from purgatorio.broker.share.dead_letters.destination import DeadLetterRules
from purgatorio.broker.share.state.services import ShareStateConfig
from purgatorio.broker.share.state_client import QUICK_RETRIES_MS
from purgatorio.broker.txn.services import TransactionConfig

DEAD_LETTER_VERSION: Final = 2
"""The share.version from which on share groups may have dead-letter topics (KIP-1191)."""


def fetch_settings(config: BrokerConfig) -> FetchSettings:
    """Return the limits and timeouts of follower fetches from the broker's configs."""
    return FetchSettings(
        wait_max_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
        partition_max_bytes=config.replica_fetch_max_bytes,
        backoff_ms=config.replica_fetch_backoff_ms,
        response_timeout_ms=config.replica_socket_timeout_ms,
    )


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    """Return the limits of connections from the broker's configs."""
    shares, queued = shares_of(config.memory_bytes), config.queued_max_request_bytes
    return ConnectionLimits(
        max_request_bytes=config.socket_request_max_bytes,
        max_in_flight_requests=config.max_in_flight_requests_per_connection,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_of=_overrides(config.max_connections_per_ip_overrides),
        request_memory_bytes=shares.requests if queued < 0 else queued,
        unsent_memory_bytes=shares.answers,
        idle_ms=config.connections_max_idle_ms,
    )


def _overrides(text: str) -> dict[str, int]:
    """Return the connections of each address: from ``127.0.0.1:200,::1:5``."""
    pairs = (each.rpartition(":") for each in text.split(",") if each)
    return {host: int(count) for host, _, count in pairs}


def topic_settings(config: BrokerConfig) -> TopicSettings:
    """The defaults for topics that are created without saying more."""
    settings = TopicSettings(
        config.num_partitions,
        config.default_replication_factor,
        _log_defaults(config),
        has_tier=config.tier_location is not None,
    )
    known = release(config.as_version)
    if known is None:
        return settings
    configs = known.configs["topic"]
    return replace(settings, hidden=configs.absent, lowest=configs.lowest)


def _log_defaults(config: BrokerConfig) -> LogConfig:
    values: dict[str, Any] = {}
    for topic_name, name in topic_synonyms().items():
        topic_config, value = TOPIC_CONFIGS[topic_name], getattr(config, name.replace(".", "_"))
        values[topic_config.name] = _items(value) if topic_config.type is ConfigType.LIST else value
    return LogConfig(**values)


def _items(text: str) -> tuple[str, ...]:
    """Return the items of a list, which a broker's settings have as they were given: ``compact,delete``."""
    return tuple(item for item in text.split(",") if item)


@cache
def topic_synonyms() -> Mapping[str, str]:
    """For each topic config the broker's setting that is its default, both by Kafka's dotted names."""
    return {name: each.broker_name for name, each in TOPIC_CONFIGS.items() if each.broker_name is not None}


_MINUTE_MS = 60_000


def group_config(config: BrokerConfig) -> GroupConfig:
    """Return the settings of the group coordinator from the broker's configs."""
    policy = config.group_consumer_migration_policy.lower()
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
        serves_consumers="consumer" in config.group_coordinator_rebalance_protocols,
        upgrades=policy in ("upgrade", "bidirectional"),
        downgrades=policy in ("downgrade", "bidirectional"),
        consumer_max_size=config.group_consumer_max_size,
        share_max_size=config.group_share_max_size,
        share_initialize_retry_ms=config.group_share_initialize_retry_interval_ms,
    )


def share_settings(config: BrokerConfig) -> ShareSettings:
    """Return the settings of share groups without configs of their own from the broker's configs."""
    return ShareSettings(
        session_timeout_ms=config.group_share_session_timeout_ms,
        heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
        assignment_interval_ms=config.group_share_assignment_interval_ms,
        record_lock_duration_ms=config.group_share_record_lock_duration_ms,
        delivery_count_limit=config.group_share_delivery_count_limit,
        max_record_locks=config.group_share_partition_max_record_locks,
    )


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    """Return the settings of the transaction coordinator from the broker's configs."""
    return TransactionConfig(
        topic_partitions=config.transaction_state_log_num_partitions,
        topic_replication_factor=config.transaction_state_log_replication_factor,
        topic_min_isr=config.transaction_state_log_min_isr,
        max_timeout_ms=config.transaction_max_timeout_ms,
        version=_transaction_version(config),
        max_ids=config.transaction_coordinator_max_ids,
        max_partitions=config.transaction_max_partitions,
        expiration_ms=config.transactional_id_expiration_ms,
        expiration_check_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
    )


def _transaction_version(config: BrokerConfig) -> int:
    """Return the level of transaction.version that the release of Kafka has; below 2 all clients do as with 1."""
    known = release(config.as_version)
    levels = None if known is None else known.features.get("transaction.version")
    return config.transaction_version if levels is None else max(1, min(config.transaction_version, levels.level))


def share_state_config(config: BrokerConfig) -> ShareStateConfig:
    """Return the settings of the share coordinator from the broker's configs."""
    return ShareStateConfig(
        topic_partitions=config.share_coordinator_state_topic_num_partitions,
        topic_replication_factor=config.share_coordinator_state_topic_replication_factor,
        topic_min_isr=config.share_coordinator_state_topic_min_isr,
        write_timeout_ms=config.share_coordinator_write_timeout_ms,
        updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
        prune_interval_ms=config.share_coordinator_state_topic_prune_interval_ms,
        snapshot_interval_ms=config.share_coordinator_cold_partition_snapshot_interval_ms,
        max_partitions=config.share_coordinator_max_partitions,
        max_batches=config.share_coordinator_max_batches,
    )


def share_version(config: BrokerConfig) -> int:
    """Return the level of share.version that the release of Kafka has; 0: share groups are switched off."""
    known = release(config.as_version)
    if known is None:
        return config.share_version
    levels = known.features.get("share.version")
    return 0 if levels is None else min(config.share_version, levels.level)


def dead_letter_rules(config: BrokerConfig, defaults: LogConfig, image: Callable[[], ClusterImage]) -> DeadLetterRules:
    """Return what brokers allow of dead-letter topics from the broker's configs, and the defaults of topics now.

    Args:
        defaults: those of topics, without dynamic configs.
    """

    def log_config(topic: Topic) -> LogConfig:
        return LogConfig.from_strings(
            topic.configs, defaults.with_broker_configs(image().broker_configs.get(ALL_BROKERS, {}))
        )

    return DeadLetterRules(
        is_on=share_version(config) >= DEAD_LETTER_VERSION,
        prefix=config.errors_deadletterqueue_topic_name_prefix,
        creates_topics=config.errors_deadletterqueue_auto_create_topics_enable,
        log_config=log_config,
    )


def retry_settings(config: BrokerConfig) -> Retries:
    """Return how calls to share coordinators are made again from the broker's configs."""
    return Retries(
        config.share_persister_retry_backoff_ms,
        config.share_persister_retry_backoff_max_ms,
        times=config.share_persister_max_retries,
        quick_ms=QUICK_RETRIES_MS,
    )
