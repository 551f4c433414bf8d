"""The settings of one broker about groups, the records that share groups acquire, and transactions."""

from __future__ import annotations

from typing import Final

from purgatorio.broker.config.declare import Settings
from purgatorio.broker.log.setting import ConfigType, flag, number, other, text

_PROTOCOL: Final = "(classic|consumer|share|streams)"


class CoordinatorSettings(Settings):
    """Consumer groups, share groups and transactions."""

    # Consumer groups
    offsets_topic_num_partitions: int = number(
        50, "Partitions of __consumer_offsets, which the first group creates.", ge=1, le=1_000
    )
    offsets_topic_replication_factor: int = number(
        3, "Replicas of __consumer_offsets; at most the number of live brokers.", ge=1, le=32767
    )
    offsets_topic_min_isr: int = number(
        2,
        "Purgatorio's own: in-sync replicas that __consumer_offsets needs, at most its replicas but one; never fewer "
        "than min.insync.replicas, which alone counts in Kafka. Logs are in memory: a broker's are lost with it.",
        ge=1,
    )
    offsets_commit_timeout_ms: int = number(
        5_000, "Longest wait for the replicas when a group or its offsets are written.", ge=1
    )
    offset_metadata_max_bytes: int = number(4_096, "Longest metadata of a committed offset.")
    offsets_retention_minutes: int = number(
        10_080, "Time after which committed offsets are deleted, once nobody consumes.", ge=1
    )
    offsets_retention_check_interval_ms: int = number(
        600_000, "Time between two checks for such offsets.", ge=1, long=True
    )
    group_initial_rebalance_delay_ms: int = number(
        0,
        "Time that an empty group waits for more members before its first rebalance. Kafka's is 3000; 0 here, so that "
        "a first poll takes milliseconds.",
    )
    group_min_session_timeout_ms: int = number(6_000, "Shortest session timeout that a member may ask for.", ge=1)
    group_max_session_timeout_ms: int = number(1_800_000, "Longest session timeout that a member may ask for.", ge=1)
    group_max_size: int = number(
        10_000, "Most members of a group. Kafka's default is no limit; here memory stays bounded.", ge=1
    )
    group_consumer_session_timeout_ms: int = number(
        45_000, "Session timeout of members of the consumer protocol (KIP-848).", ge=1
    )
    group_consumer_min_session_timeout_ms: int = number(
        45_000, "Shortest consumer.session.timeout.ms of one group, unless the brokers' own is shorter.", ge=1
    )
    group_consumer_max_session_timeout_ms: int = number(
        60_000, "Longest consumer.session.timeout.ms of one group, unless the brokers' own is longer.", ge=1
    )
    group_consumer_min_heartbeat_interval_ms: int = number(
        5_000, "Shortest consumer.heartbeat.interval.ms of one group, unless the brokers' own is shorter.", ge=1
    )
    group_consumer_max_heartbeat_interval_ms: int = number(
        15_000, "Longest consumer.heartbeat.interval.ms of one group, unless the brokers' own is longer.", ge=1
    )
    group_consumer_heartbeat_interval_ms: int = number(
        5_000,
        "Longest time between two heartbeats of members of the consumer protocol. A broker with few members asks for "
        "one each 250 ms, so that partitions move fast.",
        ge=1,
    )
    group_consumer_max_size: int = number(
        10_000, "Most members of a group of the consumer protocol. Kafka's default is no limit.", ge=1
    )
    group_coordinator_rebalance_protocols: str = other(
        "classic,consumer,streams",
        "The protocols of groups that are served: without consumer its heartbeats get UNSUPPORTED_VERSION. Share "
        "groups depend on share.version alone, and there are no streams groups.",
        ConfigType.LIST,
        pattern=rf"{_PROTOCOL}(,{_PROTOCOL})*",
    )
    group_consumer_migration_policy: str = text(
        "bidirectional",
        "Whether a group of the classic protocol becomes one of the consumer protocol when a member of that joins "
        "(upgrade), whether it becomes a classic one again when its last such member leaves (downgrade), both "
        "(bidirectional), or neither (disabled).",
        pattern="(?i)disabled|downgrade|upgrade|bidirectional",
    )
    group_coordinator_max_groups: int = number(
        10_000,
        "Purgatorio's own: most groups of one partition of __consumer_offsets; further ones are refused. A list of all "
        "groups is one message.",
        ge=1,
    )
    group_coordinator_max_offsets: int = number(
        500_000,
        "Purgatorio's own: most committed offsets of all groups that one broker coordinates, some 300 bytes each; "
        "further ones are refused.",
        ge=1,
    )
    group_coordinator_memory_max_bytes: int = number(
        128 * 1024 * 1024,
        "Purgatorio's own: most bytes that the groups of one broker keep of what clients have sent: ids of groups, "
        "members and clients, subscriptions, assignments, the metadata of committed offsets. What has no room is "
        "refused with GROUP_MAX_SIZE_REACHED, a commit with INVALID_COMMIT_OFFSET_SIZE.",
        ge=1,
        long=True,
    )

    # Share groups
    group_share_session_timeout_ms: int = number(45_000, "Session timeout of members of share groups (KIP-932).", ge=1)
    group_share_min_session_timeout_ms: int = number(
        45_000, "Shortest share.session.timeout.ms of one group, unless the brokers' own is shorter.", ge=1
    )
    group_share_max_session_timeout_ms: int = number(
        60_000, "Longest share.session.timeout.ms of one group, unless the brokers' own is longer.", ge=1
    )
    group_share_heartbeat_interval_ms: int = number(
        5_000,
        "Longest time between two heartbeats of members of share groups. A broker with few members asks for one each "
        "250 ms, so that they get their partitions fast.",
        ge=1,
    )
    group_share_min_heartbeat_interval_ms: int = number(
        5_000, "Shortest share.heartbeat.interval.ms of one group, unless the brokers' own is shorter.", ge=1
    )
    group_share_max_heartbeat_interval_ms: int = number(
        15_000, "Longest share.heartbeat.interval.ms of one group, unless the brokers' own is longer.", ge=1
    )
    group_share_max_size: int = number(200, "Most members of a share group.", ge=1, le=1_000)
    group_share_max_share_sessions: int = number(
        2_000, "Most share sessions of a broker: members of share groups that fetch from it.", ge=1, le=100_000
    )
    group_share_assignment_interval_ms: int = number(
        0,
        "Shortest time between two target assignments of a share group. Kafka's is 1000; 0 here, so that a member need "
        "not wait for its partitions.",
        dynamic=True,
    )
    group_share_min_assignment_interval_ms: int = number(
        0, "Shortest share.assignment.interval.ms of one group, unless the brokers' own is shorter."
    )
    group_share_max_assignment_interval_ms: int = number(
        15_000, "Longest share.assignment.interval.ms of one group, unless the brokers' own is longer."
    )
    group_share_initialize_retry_interval_ms: int = number(
        30_000,
        "Time after which the group coordinator asks again for the state of share partitions that should have been "
        "initialized by then.",
        ge=1,
    )
    group_share_record_lock_duration_ms: int = number(
        30_000,
        "Time that a member of a share group has for a record that it acquired; then others may have it. Kafka allows "
        "no less than 1000.",
        ge=1,
        le=3_600_000,
    )
    group_share_min_record_lock_duration_ms: int = number(
        15_000,
        "Shortest share.record.lock.duration.ms of one group, unless the brokers' own is shorter.",
        ge=1,
        le=3_600_000,
    )
    group_share_max_record_lock_duration_ms: int = number(
        60_000,
        "Longest share.record.lock.duration.ms of one group, unless the brokers' own is longer.",
        ge=1,
        le=3_600_000,
    )
    group_share_delivery_count_limit: int = number(
        5, "How often a record is delivered to a share group, at most; then it is given up.", ge=2, le=25
    )
    group_share_min_delivery_count_limit: int = number(
        2, "Smallest share.delivery.count.limit of one group, unless the brokers' own is smaller.", ge=2, le=25
    )
    group_share_max_delivery_count_limit: int = number(
        10, "Largest share.delivery.count.limit of one group, unless the brokers' own is larger.", ge=2, le=25
    )
    group_share_partition_max_record_locks: int = number(
        2_000,
        "Records of one partition that a share group may have acquired, or in between these, at a time.",
        ge=100,
        le=10_000,
    )
    group_share_min_partition_max_record_locks: int = number(
        100,
        "Smallest share.partition.max.record.locks of one group, unless the brokers' own is smaller.",
        ge=100,
        le=10_000,
    )
    group_share_max_partition_max_record_locks: int = number(
        4_000,
        "Largest share.partition.max.record.locks of one group, unless the brokers' own is larger.",
        ge=100,
        le=10_000,
    )

    share_version: int = number(
        2,
        "Purgatorio's own, a feature in Kafka: 0 switches share groups off, and what clients ask of them is answered "
        "with UNSUPPORTED_VERSION; with 2 they may have dead-letter topics (KIP-1191), with 1 they have none. All "
        "brokers need the same.",
        le=2,
    )

    errors_deadletterqueue_topic_name_prefix: str = text(
        "dlq.",
        "How the name of a share group's dead-letter topic has to begin; an empty text allows all names. As in Kafka "
        "it is looked at when records are given up, not when the group's config is set.",
    )
    errors_deadletterqueue_auto_create_topics_enable: bool = flag(
        False, "Create a share group's dead-letter topic that does not exist when the first record is given up."
    )

    # The state of share groups
    share_coordinator_state_topic_num_partitions: int = number(
        50, "Partitions of __share_group_state, which the first share group creates.", ge=1, le=1_000
    )
    share_coordinator_state_topic_replication_factor: int = number(
        3, "Replicas of __share_group_state; at most the number of live brokers.", ge=1, le=32767
    )
    share_coordinator_state_topic_min_isr: int = number(
        2, "In-sync replicas that __share_group_state needs; at most its replicas.", ge=1
    )
    share_coordinator_state_topic_prune_interval_ms: int = number(
        300_000, "Time between two deletions of records of __share_group_state that are not needed any more.", ge=1
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = number(
        500, "Changes of a share partition's state that are written before the whole state is written again.", le=500
    )
    share_coordinator_cold_partition_snapshot_interval_ms: int = number(
        300_000,
        "Time after which the state of a share partition is written again, so that records before it can be deleted.",
        ge=1,
    )
    share_coordinator_write_timeout_ms: int = number(
        5_000, "Longest wait for the replicas when the state of a share partition is written.", ge=1
    )
    share_coordinator_max_partitions: int = number(
        10_000,
        "Purgatorio's own: most share partitions (a partition as one group consumes it) of one partition of "
        "__share_group_state; further ones are refused.",
        ge=1,
    )
    share_coordinator_max_batches: int = number(
        500_000,
        "Purgatorio's own: most ranges of records with a state of their own in all share partitions that one broker "
        "coordinates, some 150 bytes each; further ones are refused.",
        ge=1,
    )
    share_persister_max_retries: int = number(
        5, "Purgatorio's own, as Kafka's constant: how often a broker asks again that cannot reach a share coordinator."
    )
    share_persister_retry_backoff_ms: int = number(
        1_000, "Purgatorio's own, as Kafka's constant: time until it asks again; doubled each time.", ge=1
    )
    share_persister_retry_backoff_max_ms: int = number(
        30_000, "Purgatorio's own, as Kafka's constant: the longest of these times.", ge=1
    )

    # Transactions
    transaction_state_log_num_partitions: int = number(
        50, "Partitions of __transaction_state, which the first transactional producer creates.", ge=1, le=1_000
    )
    transaction_state_log_replication_factor: int = number(
        3, "Replicas of __transaction_state; at most the number of live brokers.", ge=1, le=32767
    )
    transaction_state_log_min_isr: int = number(
        2, "In-sync replicas that __transaction_state needs; at most its replicas.", ge=1
    )
    transaction_max_timeout_ms: int = number(900_000, "Longest transaction timeout that a producer may ask for.", ge=1)
    transaction_version: int = number(
        2,
        "Purgatorio's own, a feature in Kafka: with 2, clients that know it (Java 4.0, franz-go) use a producer epoch "
        "for each transaction, so that nothing late gets into the next one, and add no partitions themselves "
        "(KIP-890); with 1 they do as all others. All brokers need the same.",
        ge=1,
        le=2,
    )
    transaction_max_partitions: int = number(
        5_000, "Purgatorio's own: most partitions of one transaction; further ones are refused.", ge=1
    )
    transaction_coordinator_max_ids: int = number(
        10_000,
        "Purgatorio's own: most transactional ids of one partition of __transaction_state; further ones are refused "
        "until one expires.",
        ge=1,
    )
    transactional_id_expiration_ms: int = number(
        604_800_000, "Time after which an unused transactional id is forgotten.", ge=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = number(
        3_600_000, "Time between two checks for such ids.", ge=1, long=True
    )
