"""The settings of one broker about its replicas: their topics, logs, replication, and who leads them."""

from __future__ import annotations

from typing import Final, Literal

from purgatorio.broker.config.declare import Settings, topic_default
from purgatorio.broker.config.memory_shares import MEMORY_BYTES, shares_of
from purgatorio.broker.log.config import CleanupPolicyText, CompressionTypeText, TimestampTypeText
from purgatorio.broker.log.memory import UNCOMMITTED_PERCENT
from purgatorio.broker.log.setting import MAX_INT, MAX_LONG, ConfigType, flag, number, other, text

_DAY_MS: Final = 24 * 60 * 60 * 1000
_MIB: Final = 1024 * 1024


class ReplicaSettings(Settings):
    """Topics, logs, replication, membership and leadership."""

    # Topics
    num_partitions: int = number(1, "Partitions of a new topic if the client names no number.", ge=1, le=1_000)
    default_replication_factor: int = number(
        1,
        "Replicas of a new topic if the client names no number. The default of a cluster is 3, or the number of its "
        "brokers if there are fewer.",
        ge=1,
        le=32767,
    )
    auto_create_topics_enable: bool = flag(True, "Create an unknown topic when a client asks for its metadata.")
    delete_topic_enable: bool = flag(
        True, "Delete topics when clients ask for it; else they get TOPIC_DELETION_DISABLED. Operators still may."
    )
    min_insync_replicas: int = topic_default("min.insync.replicas")

    # Log
    log_segment_bytes: int = topic_default("segment.bytes")
    log_roll_ms: int = topic_default("segment.ms")
    log_roll_hours: int = number(168, "log.roll.ms in hours, if that is not set.", ge=1)
    log_retention_ms: int = topic_default("retention.ms")
    log_retention_minutes: int | None = other(
        None, "log.retention.ms in minutes, if that is not set; -1: for ever.", ConfigType.INT, ge=-1, le=MAX_INT
    )
    log_retention_hours: int = number(
        168, "log.retention.ms in hours, if neither that is set nor log.retention.minutes; -1: for ever.", ge=-1
    )
    log_retention_bytes: int = topic_default("retention.bytes")
    log_retention_check_interval_ms: int = number(
        300_000, "Time between two checks for segments to delete.", ge=1, long=True
    )
    memory_bytes: int = number(
        MEMORY_BYTES,
        "Purgatorio's own: memory that a broker may take of the system, beyond that of one without records and "
        "clients: three quarters for its logs (log.memory.bytes), an eighth for requests (queued.max.request.bytes), "
        "an eighth for answers that clients have not taken. Unless it is set, it follows log.memory.bytes; and if that "
        "is not set either, the brokers of a process share a third of the memory that the process may use. This "
        "default is for machines that do not tell their memory.",
        ge=_MIB,
        long=True,
    )
    log_memory_bytes: int = number(
        shares_of(MEMORY_BYTES).logs,
        "Purgatorio's own: memory that all logs of a broker may hold together. Past it the broker deletes the oldest "
        "committed segments, even those that retention would keep. Unless it is set, it is three quarters of "
        "memory.bytes; without that the brokers of a process share a quarter of the memory that the process may use, "
        "and each gets from 64 MiB to 2 GiB. This default is for machines that do not tell their memory.",
        ge=_MIB,
        long=True,
    )
    log_memory_uncommitted_percent: int = number(
        UNCOMMITTED_PERCENT,
        "Purgatorio's own: the part of log.memory.bytes that records may take which are not committed yet, in the "
        "partitions that a broker leads; a partition gets as much as is left, so half of it at most. Produce requests "
        "beyond it are refused with KAFKA_STORAGE_ERROR, which producers retry. What the broker replicates has room "
        "for twice as much.",
        ge=1,
        le=30,
    )
    log_cleanup_policy: CleanupPolicyText = topic_default("cleanup.policy")
    log_cleaner_enable: bool = flag(True, "Compact the topics whose cleanup policy is compact.")
    log_cleaner_backoff_ms: int = number(15_000, "Time between two compaction passes.", ge=1, long=True, dynamic=True)
    log_cleaner_delete_retention_ms: int = topic_default("delete.retention.ms")
    log_cleaner_min_cleanable_ratio: float = topic_default("min.cleanable.dirty.ratio")
    log_cleaner_min_compaction_lag_ms: int = topic_default("min.compaction.lag.ms")
    log_cleaner_max_compaction_lag_ms: int = topic_default("max.compaction.lag.ms")
    message_max_bytes: int = topic_default("max.message.bytes")
    max_decompressed_message_bytes: int = topic_default("max.decompressed.message.bytes")
    log_message_timestamp_type: TimestampTypeText = topic_default("message.timestamp.type")
    log_message_timestamp_before_max_ms: int = topic_default("message.timestamp.before.max.ms")
    log_message_timestamp_after_max_ms: int = topic_default("message.timestamp.after.max.ms")
    compression_type: CompressionTypeText = topic_default("compression.type")
    record_validation: Literal["full", "header"] = text(
        "full",
        "Purgatorio's own: how produced batches are checked. full: with their records, as Kafka does, up to "
        "25,000 records of a request (more if they have one size), or 12 MiB unpacked. What follows in the request is "
        "checked by its header; a batch that alone unpacks to more is refused. header: the header and the CRC "
        "only, unless the topic needs the records; malformed records reach consumers.",
    )
    producer_id_expiration_ms: int = number(
        _DAY_MS, "Idle time after which a broker forgets a producer's sequence numbers.", ge=1, dynamic=True
    )

    # Tiered storage
    tier_location: str | None = text(
        None,
        "Purgatorio's own: where closed segments of topics with remote.storage.enable are copied to (KIP-405): a "
        "folder, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX (credentials: environment), or "
        "memory:. It needs the extra tier. Not set: there is no tier.",
        min_length=1,
    )
    remote_log_storage_system_enable: bool = flag(
        False, "Whether there is a tier; it follows tier.location, without which it cannot be true."
    )
    log_local_retention_ms: int = topic_default("local.retention.ms")
    log_local_retention_bytes: int = topic_default("local.retention.bytes")
    log_remote_copy_lag_ms: int = topic_default("remote.copy.lag.ms")
    log_remote_copy_lag_bytes: int = topic_default("remote.copy.lag.bytes")
    remote_fetch_max_wait_ms: int = number(
        500,
        "Longest time that a fetch waits for records from the tier; then it is answered without them, and the read "
        "goes on for the next fetch.",
        ge=1,
        dynamic=True,
    )
    remote_list_offsets_request_timeout_ms: int = number(
        30_000,
        "Longest time that ListOffsets waits for a look-up in the tier, if the request does not say.",
        ge=1,
        long=True,
        dynamic=True,
    )
    remote_log_manager_task_interval_ms: int = number(
        30_000, "Time between two looks for segments to copy to the tier.", ge=1, long=True
    )
    remote_log_manager_copier_thread_pool_size: int = number(
        10, "Partitions whose segments a broker copies to the tier at a time.", ge=1, le=1_000, dynamic=True
    )
    remote_log_manager_copy_max_bytes_per_second: int = number(
        2**63 - 1,
        "Rate above which no copy to the tier begins (KIP-956).",
        ge=1,
        long=True,
        dynamic=True,
    )
    remote_log_manager_copy_quota_window_num: int = number(
        11, "Samples over which the rate of copies to the tier is measured.", ge=1, le=1_000
    )
    remote_log_manager_copy_quota_window_size_seconds: int = number(
        1, "Time that each of these samples takes.", ge=1, le=3_600
    )
    remote_log_manager_fetch_max_bytes_per_second: int = number(
        2**63 - 1,
        "Rate above which no read of the tier begins for consumers (KIP-956): their fetches wait as if there were no "
        "records. What the broker has in its cache is sent all the same.",
        ge=1,
        long=True,
        dynamic=True,
    )
    remote_log_manager_fetch_quota_window_num: int = number(
        11, "Samples over which the rate of reads from the tier is measured.", ge=1, le=1_000
    )
    remote_log_manager_fetch_quota_window_size_seconds: int = number(
        1, "Time that each of these samples takes.", ge=1, le=3_600
    )
    remote_log_reader_threads: int = number(
        10, "Reads of the tier that a broker makes at a time.", ge=1, le=1_000, dynamic=True
    )

    # Replication
    replica_fetch_wait_max_ms: int = number(
        500, "Longest time that the leader holds a follower's fetch for new records.", ge=1
    )
    replica_fetch_min_bytes: int = number(1, "Bytes that a follower's fetch waits for at the leader.")
    replica_fetch_max_bytes: int = number(
        _MIB, "Bytes per partition in an answer to a follower; a larger first batch is sent all the same."
    )
    replica_fetch_response_max_bytes: int = number(
        10 * _MIB, "Bytes of all partitions in an answer to a follower, which asks for 240,000 at most."
    )
    replica_fetch_backoff_ms: int = number(
        1_000,
        "Longest wait of a follower after a failed fetch; the first wait is 20 ms, each further one twice as long. "
        "Kafka's followers always wait this long.",
        ge=1,
    )
    replica_lag_time_max_ms: int = number(
        30_000, "Time after which the leader removes a follower that has not caught up from the ISR.", ge=1, long=True
    )
    replica_socket_timeout_ms: int = number(
        30_000, "Longest time that a follower waits for an answer of the leader.", ge=1
    )
    traces_endpoint: str | None = text(
        None,
        "Where spans of delayed operations are sent by OTLP over HTTP, such as http://localhost:4318; needs the extra "
        "otel. Not set: for `purgatorio cluster` and `serve` OTEL_EXPORTER_OTLP_ENDPOINT, if that is set; else there "
        "are none.",
        pattern=r"^https?://[^\s?#]+$",
    )
    follower_delay_ms: int = number(
        0,
        "Purgatorio's own: time by which followers delay each fetch, so that you can watch acks=all wait.",
    )

    # Membership and leadership
    broker_session_timeout_ms: int = number(
        400,
        "Time without a heartbeat after which a broker is fenced and its leaderships move to other replicas. Kafka's "
        "is 9000; shorter here, so that clients notice little of a broker's death. Below 400 a lease may lapse in an "
        "event loop whose turns are slow, though the broker lives.",
        ge=10,
    )
    broker_heartbeat_interval_ms: int = number(
        100,
        "Time between two heartbeats; must be shorter than broker.session.timeout.ms. Kafka's is 2000.",
        ge=1,
    )
    auto_leader_rebalance_enable: bool = flag(
        True, "Make the preferred replica the leader again as soon as it is in sync."
    )
    leader_imbalance_check_interval_ms: int = number(
        1_000,
        "Time between two checks for such partitions. Kafka's setting counts seconds; its default is 300.",
        ge=1,
        long=True,
    )
    leader_imbalance_check_interval_seconds: int | None = other(
        None,
        "leader.imbalance.check.interval.ms in seconds, if that is not set.",
        ConfigType.LONG,
        ge=1,
        le=MAX_LONG // 1_000,
    )
