"""The settings of one broker: defaults, bounds and documentation.

Settings carry Kafka's names in snake_case (``log.retention.ms`` is ``log_retention_ms``) and Kafka's defaults; where a
default differs, or a setting is Purgatorio's own, its documentation says so. Names end in their unit. The defaults of
topic configs come from the table in `purgatorio.broker.log.config`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from purgatorio.broker.config.declare import Settings, flag, number, other, text, topic_default
from purgatorio.broker.log.config import CleanupPolicyText, CompressionTypeText, TimestampTypeText
from purgatorio.broker.log.config_keys import MAX_INT, ConfigType
from purgatorio.broker.log.memory import UNCOMMITTED_PERCENT

_DAY_MS: Final = 24 * 60 * 60 * 1000
_KIB: Final = 1024
_MIB: Final = 1024 * 1024
WILDCARD_HOSTS: Final = frozenset({"0.0.0.0", "::"})
"""Every address of this machine: to listen on, not to connect to."""
AuthorizerText = Literal["", "StandardAuthorizer", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"]
_MECHANISM: Final = "(PLAIN|SCRAM-SHA-256|SCRAM-SHA-512|OAUTHBEARER)"
_PER_LISTENER: Final = ("ssl_", "sasl_", "connections_max_reauth_ms")


def is_per_listener(name: str) -> bool:
    """Return whether a listener may have a setting of this field name for itself (`listener.name.external.…`)."""
    return name.startswith(_PER_LISTENER)


class BrokerConfig(Settings):
    """The settings of one broker."""

    # Identity and address
    broker_id: int = number(1, "The broker's id; in a cluster, the id of its first broker.", le=MAX_INT - 100)
    rack: str | None = text(None, "The rack, announced in metadata.", min_length=1)
    host: str = text("127.0.0.1", "The address to listen on for Kafka clients.", min_length=1)
    port: int = number(9092, "The port to listen on for Kafka clients; 0 takes any free one.", le=65535)
    advertised_host: str | None = text(
        None,
        "The host that clients are told to connect to. Not set: `host`, or localhost if that is every interface.",
        min_length=1,
    )
    advertised_port: int | None = other(
        None,
        "The port that clients are told to connect to. Not set: the port listened on.",
        ConfigType.INT,
        ge=1,
        le=65535,
    )

    # Listeners
    listeners: str | None = text(
        None,
        "The listeners for clients, e.g. INTERNAL://0.0.0.0:29092,EXTERNAL://0.0.0.0:9092; those of the next brokers "
        "of a cluster are one port higher each. Not set: one listener PLAINTEXT on `host` and `port`.",
        min_length=1,
    )
    advertised_listeners: str | None = text(
        None,
        "The addresses that clients of each listener are told to connect to, e.g. INTERNAL://broker:29092,"
        "EXTERNAL://localhost:9092; counted up like `listeners`. Not set: those of `listeners`.",
        min_length=1,
    )
    listener_security_protocol_map: str | None = text(
        None,
        "The security protocol of each listener, e.g. INTERNAL:PLAINTEXT,EXTERNAL:SASL_SSL. The protocols PLAINTEXT, "
        "SSL, SASL_PLAINTEXT and SASL_SSL are listener names of their own.",
    )
    inter_broker_listener_name: str | None = text(
        None,
        "Must be a listener's name, as in Kafka. The brokers of one process use it only while no listener has "
        "security; otherwise they have a listener of their own on loopback, with credentials of their own.",
    )
    cluster_port: int | None = other(
        None,
        "With a store: the port on which the other brokers of a cluster on several hosts connect to this one, with the "
        "cluster's secret; 0 takes any free one. They connect to `advertised.host`, or `host`.",
        ConfigType.INT,
        ge=0,
        le=65535,
    )
    listener_name: dict[str, Any] = other(
        {},
        "Settings of one listener, e.g. listener.name.external.ssl.client.auth, which win over those of all listeners.",
        ConfigType.PASSWORD,  # there may be some among them
    )

    # TLS
    ssl_keystore_type: Literal["PEM"] = text("PEM", "The form of ssl.keystore.location. Kafka's default is JKS.")
    ssl_keystore_location: str | None = text(
        None, "The PEM file with the broker's private key and certificate chain.", min_length=1
    )
    ssl_key_password: str | None = other(None, "The password of the private key, if it has one.", ConfigType.PASSWORD)
    ssl_truststore_type: Literal["PEM"] = text("PEM", "The form of ssl.truststore.location. Kafka's default is JKS.")
    ssl_truststore_location: str | None = text(
        None, "The PEM file with the certificates of the authorities that sign clients' certificates.", min_length=1
    )
    ssl_client_auth: Literal["none", "requested", "required"] = text(
        "none", "Whether clients show a certificate: required, requested (without one they are anonymous), or none."
    )
    ssl_enabled_protocols: str = text(
        "TLSv1.2,TLSv1.3", "The versions of TLS that are spoken.", pattern=r"^TLSv1\.[23](,TLSv1\.[23])*$"
    )
    ssl_principal_mapping_rules: str = text(
        "DEFAULT",
        "How a client's name is made from its certificate: rules like RULE:^CN=(.*?),.*$/$1/L with commas between; "
        "the first that matches counts, and DEFAULT takes the whole distinguished name (KIP-371).",
    )

    # Access control
    authorizer_class_name: AuthorizerText = text(
        "",
        "StandardAuthorizer, or Kafka's full name of it: each request needs permissions, which ACLs give. Not set: "
        "every client may do everything.",
    )
    super_users: str = text(
        "",
        "Principals that may do everything, with semicolons between, e.g. User:admin;User:CN=root,C=DE. The brokers "
        "themselves need not be among them.",
        pattern=r"^\s*([^:;]+:[^;]+(;\s*[^:;]+:[^;]+)*;?)?\s*$",
    )
    allow_everyone_if_no_acl_found: bool = flag(
        False, "Whether every client may use a resource that no ACL is about. Otherwise only super users may."
    )

    # SASL
    sasl_enabled_mechanisms: str = text(
        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "The mechanisms by which clients of SASL listeners authenticate. Kafka's default is GSSAPI, which is not here.",
        pattern=rf"^{_MECHANISM}(,{_MECHANISM})*$",
    )
    sasl_users: str | None = other(
        None,
        "Purgatorio's own: the first users, e.g. alice=alice-secret,bob=bob-secret, for PLAIN and SCRAM. Those of "
        "SCRAM can be changed later.",
        ConfigType.PASSWORD,
    )
    sasl_jaas_config: str | None = other(
        None,
        "Users of PLAIN as Kafka's brokers have them; of one listener: listener.name.external.plain.sasl.jaas.config.",
        ConfigType.PASSWORD,
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = text(
        None, "Where the public keys of the tokens' issuer are, as a JSON Web Key Set: an https, http or file URL."
    )
    sasl_oauthbearer_expected_audience: str | None = text(
        None, "Audiences, with commas between, of which a token must name one.", min_length=1
    )
    sasl_oauthbearer_expected_issuer: str | None = text(None, "The issuer that a token must name.", min_length=1)
    sasl_oauthbearer_clock_skew_seconds: int = number(
        30, "How much the clocks of brokers and issuer may differ.", le=3_600
    )
    sasl_oauthbearer_sub_claim_name: str = text("sub", "The claim of a token that has the user's name.", min_length=1)
    sasl_oauthbearer_unsecured: bool = flag(
        False,
        "Purgatorio's own: take tokens without a signature (KIP-255), which everybody can make for any name. In Kafka "
        "that is the default.",
    )
    sasl_server_max_receive_size: int = number(
        512 * _KIB, "Largest request of a client that has not authenticated.", ge=_KIB
    )
    connections_max_reauth_ms: int = number(
        0, "Time after which clients must authenticate again (KIP-368); 0: their sessions last.", long=True
    )
    connection_failed_authentication_delay_ms: int = number(
        100, "Time that the answer to a failed authentication waits (KIP-306)."
    )

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
    min_insync_replicas: int = topic_default("min.insync.replicas")

    # Log
    log_segment_bytes: int = topic_default("segment.bytes")
    log_roll_ms: int = topic_default("segment.ms")
    log_retention_ms: int = topic_default("retention.ms")
    log_retention_bytes: int = topic_default("retention.bytes")
    log_retention_check_interval_ms: int = number(
        300_000, "Time between two checks for segments to delete.", ge=1, long=True
    )
    log_memory_bytes: int = number(
        512 * _MIB,
        "Purgatorio's own: memory that all logs of a broker may hold together. Past it the broker deletes the oldest "
        "committed segments, even those that retention would keep. Unless it is set, the brokers of a process share a "
        "quarter of the memory that the process may use, and each gets from 64 MiB to 2 GiB; this default is for "
        "machines that do not tell their memory.",
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
    log_cleaner_backoff_ms: int = number(15_000, "Time between two compaction passes.", ge=1, long=True)
    log_cleaner_delete_retention_ms: int = topic_default("delete.retention.ms")
    log_cleaner_min_cleanable_ratio: float = topic_default("min.cleanable.dirty.ratio")
    message_max_bytes: int = topic_default("max.message.bytes")
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
        _DAY_MS, "Idle time after which a broker forgets a producer's sequence numbers.", ge=1
    )

    # Replication
    replica_fetch_wait_max_ms: int = number(
        500, "Longest time that the leader holds a follower's fetch for new records.", ge=1
    )
    replica_fetch_min_bytes: int = number(1, "Bytes that a follower's fetch waits for at the leader.")
    replica_fetch_max_bytes: int = number(
        _MIB, "Bytes per partition in an answer to a follower; a larger first batch is sent all the same."
    )
    replica_fetch_response_max_bytes: int = number(10 * _MIB, "Bytes of all partitions in an answer to a follower.")
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

    # Purgatory
    producer_purgatory_purge_interval_requests: int = number(
        1_000,
        "Completed operations that may stay in the Produce purgatory's watch lists before they are removed.",
        ge=1,
    )
    fetch_purgatory_purge_interval_requests: int = number(
        1_000,
        "Completed operations that may stay in the Fetch purgatory's watch lists before they are removed.",
        ge=1,
    )

    delete_records_purgatory_purge_interval_requests: int = number(
        1,
        "Completed operations that may stay in the DeleteRecords purgatory's watch lists before they are removed.",
        ge=1,
    )

    # Connections and requests
    max_connections: int = number(
        20_000,
        "Connections of all clients together; the broker closes further ones at once. Kafka's default is no limit; "
        "a process lowers it so that its brokers share three quarters of the files that it may open, at most.",
        ge=1,
    )
    max_connections_per_ip: int = number(
        15_000,
        "Connections from one IP address; the broker closes further ones at once. Kafka's default is no limit. Where "
        "open files lower max.connections, the default is three quarters of that.",
        ge=1,
    )
    max_connections_per_ip_overrides: str = text(
        "",
        "Addresses with another number of connections, such as 127.0.0.1:200,192.0.2.1:5. Kafka resolves names, too.",
        pattern=r"^([0-9a-fA-F.:]+:[0-9]{1,9}(,[0-9a-fA-F.:]+:[0-9]{1,9})*)?$",
    )
    max_connection_creation_rate: int = number(
        MAX_INT, "Connections that the broker accepts per second; it reads further ones up to a second later.", ge=1
    )
    connections_max_idle_ms: int = number(
        600_000, "Idle time after which the broker closes a connection.", ge=1, long=True
    )
    socket_request_max_bytes: int = number(
        100 * _MIB, "Largest request; the broker closes the connection of a larger one.", ge=_KIB
    )
    queued_max_request_bytes: int = number(
        512 * _MIB,
        "Bytes of the requests that the broker receives or works on, of all connections together; past it the broker "
        "stops reading. Kafka's default is no limit; here memory stays bounded.",
        ge=_MIB,
        long=True,
    )
    max_in_flight_requests_per_connection: int = number(
        1_000,
        "Purgatorio's own: unanswered requests of one connection, past which the broker stops reading from it.",
        ge=1,
    )
    fetch_max_bytes: int = number(
        55 * _MIB, "Bytes in an answer to any fetch, even if the client asks for more.", ge=_KIB
    )
    max_incremental_fetch_session_cache_slots: int = number(
        1_000, "Fetch sessions that the broker keeps; clients without one name all their partitions each time.", ge=0
    )

    # Quotas
    quota_window_num: int = number(
        11, "Samples over which the rates of client quotas are measured; the newest of them is filling.", ge=2, le=1_000
    )
    quota_window_size_seconds: int = number(1, "Time that each of these samples takes.", ge=1, le=3_600)
    controller_quota_window_num: int = number(
        11, "Samples for the quotas of controller mutations: a client's bucket holds as many.", ge=2, le=1_000
    )
    controller_quota_window_size_seconds: int = number(1, "Time that each of these samples takes.", ge=1, le=3_600)

    # Shutdown
    shutdown_grace_ms: int = number(
        2_000,
        "Purgatorio's own: time that a stopping broker has to answer parked requests and close its connections.",
    )

    @property
    def advertised(self) -> tuple[str, int]:
        """Host and port that clients are told to connect to; port 0 if the broker has yet to take a free one."""
        host = self.advertised_host or ("localhost" if self.host in WILDCARD_HOSTS else self.host)
        return host, self.advertised_port or self.port
