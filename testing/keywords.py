"""The keywords of the test kit, for type checkers and editors; scripts/keywords.py writes this file.

A cluster knows more names than a type can list: those of one listener (``listener_name_external_…``), and any name with
Kafka's dots. Give these as ``**more``, where `more` is a ``dict[str, Any]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict


class BrokerSettings(TypedDict, total=False):
    """Broker settings by Kafka's names, with underscores for dots."""

    host: str | Sequence[str] | None
    port: int | str | None
    advertised_host: str | Sequence[str] | None
    admin_host: str | Sequence[str] | None
    admin_port: int | str | None
    admin_auth: str | Sequence[str] | None
    admin_token: str | None
    admin_read_token: str | None
    metrics_per_partition: bool | str | None
    record_delays: bool | str | None
    store: str | None
    cluster_secret_file: str | Sequence[str] | None
    log_format: str | Sequence[str] | None
    log_level: str | Sequence[str] | None
    broker_id: int | str | None
    rack: str | Sequence[str] | None
    advertised_port: int | str | None
    listeners: str | Sequence[str] | None
    advertised_listeners: str | Sequence[str] | None
    listener_security_protocol_map: str | Sequence[str] | None
    inter_broker_listener_name: str | Sequence[str] | None
    cluster_port: int | str | None
    security_inter_broker_protocol: str | Sequence[str] | None
    listener_name: str | None
    as_version: str | Sequence[str] | None
    ssl_keystore_type: str | Sequence[str] | None
    ssl_keystore_location: str | Sequence[str] | None
    ssl_key_password: str | None
    ssl_truststore_type: str | Sequence[str] | None
    ssl_truststore_location: str | Sequence[str] | None
    ssl_client_auth: str | Sequence[str] | None
    ssl_enabled_protocols: str | Sequence[str] | None
    ssl_endpoint_identification_algorithm: str | Sequence[str] | None
    ssl_principal_mapping_rules: str | Sequence[str] | None
    authorizer_class_name: str | Sequence[str] | None
    super_users: str | Sequence[str] | None
    allow_everyone_if_no_acl_found: bool | str | None
    sasl_enabled_mechanisms: str | Sequence[str] | None
    sasl_users: str | None
    sasl_jaas_config: str | None
    sasl_oauthbearer_jwks_endpoint_url: str | Sequence[str] | None
    sasl_oauthbearer_expected_audience: str | Sequence[str] | None
    sasl_oauthbearer_expected_issuer: str | Sequence[str] | None
    sasl_oauthbearer_clock_skew_seconds: int | str | None
    sasl_oauthbearer_sub_claim_name: str | Sequence[str] | None
    sasl_oauthbearer_unsecured: bool | str | None
    sasl_server_max_receive_size: int | str | None
    connections_max_reauth_ms: int | str | None
    connection_failed_authentication_delay_ms: int | str | None
    num_partitions: int | str | None
    default_replication_factor: int | str | None
    auto_create_topics_enable: bool | str | None
    delete_topic_enable: bool | str | None
    min_insync_replicas: int | str | None
    log_segment_bytes: int | str | None
    log_roll_ms: int | str | None
    log_roll_hours: int | str | None
    log_retention_ms: int | str | None
    log_retention_minutes: int | str | None
    log_retention_hours: int | str | None
    log_retention_bytes: int | str | None
    log_retention_check_interval_ms: int | str | None
    memory_bytes: int | str | None
    log_memory_bytes: int | str | None
    log_memory_uncommitted_percent: int | str | None
    log_cleanup_policy: str | Sequence[str] | None
    log_cleaner_enable: bool | str | None
    log_cleaner_backoff_ms: int | str | None
    log_cleaner_delete_retention_ms: int | str | None
    log_cleaner_min_cleanable_ratio: float | str | None
    log_cleaner_min_compaction_lag_ms: int | str | None
    log_cleaner_max_compaction_lag_ms: int | str | None
    message_max_bytes: int | str | None
    max_decompressed_message_bytes: int | str | None
    log_message_timestamp_type: str | Sequence[str] | None
    log_message_timestamp_before_max_ms: int | str | None
    log_message_timestamp_after_max_ms: int | str | None
    compression_type: str | Sequence[str] | None
    record_validation: str | Sequence[str] | None
    producer_id_expiration_ms: int | str | None
    tier_location: str | Sequence[str] | None
    remote_log_storage_system_enable: bool | str | None
    log_local_retention_ms: int | str | None
    log_local_retention_bytes: int | str | None
    log_remote_copy_lag_ms: int | str | None
    log_remote_copy_lag_bytes: int | str | None
    remote_fetch_max_wait_ms: int | str | None
    remote_list_offsets_request_timeout_ms: int | str | None
    remote_log_manager_task_interval_ms: int | str | None
    remote_log_manager_copier_thread_pool_size: int | str | None
    remote_log_manager_copy_max_bytes_per_second: int | str | None
    remote_log_manager_copy_quota_window_num: int | str | None
    remote_log_manager_copy_quota_window_size_seconds: int | str | None
    remote_log_manager_fetch_max_bytes_per_second: int | str | None
    remote_log_manager_fetch_quota_window_num: int | str | None
    remote_log_manager_fetch_quota_window_size_seconds: int | str | None
    remote_log_reader_threads: int | str | None
    replica_fetch_wait_max_ms: int | str | None
    replica_fetch_min_bytes: int | str | None
    replica_fetch_max_bytes: int | str | None
    replica_fetch_response_max_bytes: int | str | None
    replica_fetch_backoff_ms: int | str | None
    replica_lag_time_max_ms: int | str | None
    replica_socket_timeout_ms: int | str | None
    traces_endpoint: str | Sequence[str] | None
    follower_delay_ms: int | str | None
    broker_session_timeout_ms: int | str | None
    broker_heartbeat_interval_ms: int | str | None
    auto_leader_rebalance_enable: bool | str | None
    leader_imbalance_check_interval_ms: int | str | None
    leader_imbalance_check_interval_seconds: int | str | None
    offsets_topic_num_partitions: int | str | None
    offsets_topic_replication_factor: int | str | None
    offsets_topic_min_isr: int | str | None
    offsets_commit_timeout_ms: int | str | None
    offset_metadata_max_bytes: int | str | None
    offsets_retention_minutes: int | str | None
    offsets_retention_check_interval_ms: int | str | None
    group_initial_rebalance_delay_ms: int | str | None
    group_min_session_timeout_ms: int | str | None
    group_max_session_timeout_ms: int | str | None
    group_max_size: int | str | None
    group_consumer_session_timeout_ms: int | str | None
    group_consumer_min_session_timeout_ms: int | str | None
    group_consumer_max_session_timeout_ms: int | str | None
    group_consumer_min_heartbeat_interval_ms: int | str | None
    group_consumer_max_heartbeat_interval_ms: int | str | None
    group_consumer_heartbeat_interval_ms: int | str | None
    group_consumer_max_size: int | str | None
    group_coordinator_rebalance_protocols: str | Sequence[str] | None
    group_consumer_migration_policy: str | Sequence[str] | None
    group_coordinator_max_groups: int | str | None
    group_coordinator_max_offsets: int | str | None
    group_coordinator_memory_max_bytes: int | str | None
    group_share_session_timeout_ms: int | str | None
    group_share_min_session_timeout_ms: int | str | None
    group_share_max_session_timeout_ms: int | str | None
    group_share_heartbeat_interval_ms: int | str | None
    group_share_min_heartbeat_interval_ms: int | str | None
    group_share_max_heartbeat_interval_ms: int | str | None
    group_share_max_size: int | str | None
    group_share_max_share_sessions: int | str | None
    group_share_assignment_interval_ms: int | str | None
    group_share_min_assignment_interval_ms: int | str | None
    group_share_max_assignment_interval_ms: int | str | None
    group_share_initialize_retry_interval_ms: int | str | None
    group_share_record_lock_duration_ms: int | str | None
    group_share_min_record_lock_duration_ms: int | str | None
    group_share_max_record_lock_duration_ms: int | str | None
    group_share_delivery_count_limit: int | str | None
    group_share_min_delivery_count_limit: int | str | None
    group_share_max_delivery_count_limit: int | str | None
    group_share_partition_max_record_locks: int | str | None
    group_share_min_partition_max_record_locks: int | str | None
    group_share_max_partition_max_record_locks: int | str | None
    share_version: int | str | None
    errors_deadletterqueue_topic_name_prefix: str | Sequence[str] | None
    errors_deadletterqueue_auto_create_topics_enable: bool | str | None
    share_coordinator_state_topic_num_partitions: int | str | None
    share_coordinator_state_topic_replication_factor: int | str | None
    share_coordinator_state_topic_min_isr: int | str | None
    share_coordinator_state_topic_prune_interval_ms: int | str | None
    share_coordinator_snapshot_update_records_per_snapshot: int | str | None
    share_coordinator_cold_partition_snapshot_interval_ms: int | str | None
    share_coordinator_write_timeout_ms: int | str | None
    share_coordinator_max_partitions: int | str | None
    share_coordinator_max_batches: int | str | None
    share_persister_max_retries: int | str | None
    share_persister_retry_backoff_ms: int | str | None
    share_persister_retry_backoff_max_ms: int | str | None
    transaction_state_log_num_partitions: int | str | None
    transaction_state_log_replication_factor: int | str | None
    transaction_state_log_min_isr: int | str | None
    transaction_max_timeout_ms: int | str | None
    transaction_version: int | str | None
    transaction_max_partitions: int | str | None
    transaction_coordinator_max_ids: int | str | None
    transactional_id_expiration_ms: int | str | None
    transaction_remove_expired_transaction_cleanup_interval_ms: int | str | None
    producer_purgatory_purge_interval_requests: int | str | None
    fetch_purgatory_purge_interval_requests: int | str | None
    share_fetch_purgatory_purge_interval_requests: int | str | None
    delete_records_purgatory_purge_interval_requests: int | str | None
    max_connections: int | str | None
    max_connections_per_ip: int | str | None
    max_connections_per_ip_overrides: str | Sequence[str] | None
    max_connection_creation_rate: int | str | None
    connections_max_idle_ms: int | str | None
    socket_request_max_bytes: int | str | None
    queued_max_request_bytes: int | str | None
    max_in_flight_requests_per_connection: int | str | None
    fetch_max_bytes: int | str | None
    max_request_partition_size_limit: int | str | None
    max_incremental_fetch_session_cache_slots: int | str | None
    quota_window_num: int | str | None
    quota_window_size_seconds: int | str | None
    controller_quota_window_num: int | str | None
    controller_quota_window_size_seconds: int | str | None
    without_effect: str | None
    shutdown_grace_ms: int | str | None


class TopicConfigs(TypedDict, total=False):
    """Topic configs by Kafka's names, with underscores for dots."""

    cleanup_policy: str | Sequence[str] | None
    compression_gzip_level: int | str | None
    compression_lz4_level: int | str | None
    compression_type: str | Sequence[str] | None
    compression_zstd_level: int | str | None
    delete_retention_ms: int | str | None
    errors_deadletterqueue_group_enable: bool | str | None
    file_delete_delay_ms: int | str | None
    flush_messages: int | str | None
    flush_ms: int | str | None
    follower_replication_throttled_replicas: str | Sequence[str] | None
    index_interval_bytes: int | str | None
    leader_replication_throttled_replicas: str | Sequence[str] | None
    local_retention_bytes: int | str | None
    local_retention_ms: int | str | None
    max_compaction_lag_ms: int | str | None
    max_decompressed_message_bytes: int | str | None
    max_message_bytes: int | str | None
    message_downconversion_enable: bool | str | None
    message_format_version: str | Sequence[str] | None
    message_timestamp_after_max_ms: int | str | None
    message_timestamp_before_max_ms: int | str | None
    message_timestamp_difference_max_ms: int | str | None
    message_timestamp_type: str | Sequence[str] | None
    min_cleanable_dirty_ratio: float | str | None
    min_compaction_lag_ms: int | str | None
    min_insync_replicas: int | str | None
    preallocate: bool | str | None
    remote_copy_lag_bytes: int | str | None
    remote_copy_lag_ms: int | str | None
    remote_log_copy_disable: bool | str | None
    remote_log_delete_on_disable: bool | str | None
    remote_storage_enable: bool | str | None
    retention_bytes: int | str | None
    retention_ms: int | str | None
    segment_bytes: int | str | None
    segment_index_bytes: int | str | None
    segment_jitter_ms: int | str | None
    segment_ms: int | str | None
    unclean_leader_election_enable: bool | str | None


class FaultRule(TypedDict, total=False):
    """A fault rule; see `purgatorio.broker.layers.faults.rule.Rule`."""

    api: str | None
    version: int | None
    client: str | None
    topic: str | None
    topic_id: str | None
    partition: int | None
    group: str | None
    transactional_id: str | None
    broker: int | None
    replica: int | None
    nth: int | None
    count: int | None
    probability: float | None
    when: Callable[[Any], object] | None
    error: str | None
    errors: Sequence[str]
    reply: Callable[[Any], Any] | None
    delay_ms: int | None
    answer_delay_ms: int
    hold: bool
    disconnect: Literal["before", "after"] | None
    drop: Literal["request", "answer"] | None
    throttle_ms: int
    corrupt: bool
    hide: int | None
    observe: bool
    name: str
    truncate_bytes: int | None
    lose: bool
    toxic: str
    tier: Literal["get", "put", "list", "delete"]
    stream: Literal["downstream", "upstream"]
    toxicity: float
    latency_ms: int | None
    jitter_ms: int | None
    rate_kb: int | None
    timeout_ms: int | None
    average_size_bytes: int | None
    size_variation_bytes: int | None
    limit_bytes: int | None


class ToxicRule(TypedDict, total=False):
    """A toxic; see `purgatorio.broker.layers.faults.toxic.Toxic`."""

    stream: Literal["downstream", "upstream"]
    toxicity: float
    client: str | None
    broker: int | None
    replica: int | None
    latency_ms: int | None
    jitter_ms: int | None
    rate_kb: int | None
    delay_ms: int | None
    timeout_ms: int | None
    average_size_bytes: int | None
    size_variation_bytes: int | None
    limit_bytes: int | None
    name: str


class TierRule(TypedDict, total=False):
    """A fault of the tier; see `purgatorio.broker.layers.faults.tier_rule.TierRule`."""

    topic: str | None
    partition: int | None
    broker: int | None
    nth: int | None
    count: int | None
    probability: float | None
    delay_ms: int
    hold: bool
    error: str | None
    truncate_bytes: int | None
    corrupt: bool
    lose: bool
    name: str
