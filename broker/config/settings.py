"""Configuration: every setting, its default, its bounds and its documentation.

Settings carry Kafka's names in snake_case (``log.retention.ms`` is ``log_retention_ms``) and Kafka's defaults; where a
default differs, or a setting is Purgatorio's own, its documentation says so. Names end in their unit.

`BrokerConfig` is what one broker is told. `ClusterConfig` is what one process is told: how many brokers it runs, where
it serves its admin pages, how it logs, and a `BrokerConfig` that all of its brokers share. Both are immutable.

Reading them from a file, the environment and the command line is in `purgatorio.broker.config.sources`.
"""

from __future__ import annotations

import enum
import json
import textwrap
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_DAY_MS: Final = 24 * 60 * 60 * 1000
_KIB: Final = 1024
_MIB: Final = 1024 * 1024
_WILDCARD_HOSTS: Final = frozenset({"0.0.0.0", "::"})
_CLUSTER_ADDRESS_FIELDS: Final = frozenset({"host", "port", "advertised_host"})
_ADDRESS_FIELDS: Final = _CLUSTER_ADDRESS_FIELDS | {"advertised_port"}


class SettingType(enum.IntEnum):
    """A setting's type, with the codes that DescribeConfigs answers (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class SettingValue(NamedTuple):
    """One setting as DescribeConfigs shows it; `value` is in Kafka's text form (None: not set)."""

    value: str | None
    is_default: bool
    type: SettingType
    doc: str


def _number(
    default: int,
    doc: str,
    *,
    ge: int = 0,
    le: int | None = None,
    long: bool = False,
    topic: str = "",
) -> Any:
    """Declare an integer setting; `topic` names the topic setting that it is the default of."""
    kind = SettingType.LONG if long else SettingType.INT
    bound = le if le is not None else LONG_MAX if long else INT_MAX
    extra: JsonDict = {"type": int(kind), "topic": topic}
    return Field(default=default, ge=ge, le=bound, description=doc, json_schema_extra=extra)


def _other(
    default: object,
    doc: str,
    kind: SettingType,
    *,
    topic: str = "",
    **constraints: Any,
) -> Any:
    """Declare a setting that is not an integer."""
    extra: JsonDict = {"type": int(kind), "topic": topic}
    return Field(default=default, description=doc, json_schema_extra=extra, **constraints)


def _flag(default: bool, doc: str) -> Any:
    return _other(default, doc, SettingType.BOOLEAN)


def _text(default: str | None, doc: str, *, topic: str = "", **constraints: Any) -> Any:
    return _other(default, doc, SettingType.STRING, topic=topic, **constraints)


class BrokerConfig(BaseModel):
    """What one broker is told."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True)

    # Who and where
    broker_id: int = _number(1, "The broker's id; in a cluster, the id of its first broker.", le=INT_MAX - 100)
    rack: str | None = _text(None, "The rack, announced in metadata.", min_length=1)
    host: str = _text("127.0.0.1", "The address to listen on for Kafka clients.", min_length=1)
    port: int = _number(9092, "The port to listen on for Kafka clients; 0 takes any free one.", le=65535)
    advertised_host: str | None = _text(
        None,
        "The host that clients are told to connect to. Not set: `host`, or localhost where that is every interface.",
        min_length=1,
    )
    advertised_port: int | None = _other(
        None,
        "The port that clients are told to connect to. Not set: the port listened on.",
        SettingType.INT,
        ge=1,
        le=65535,
    )

    # Topics
    num_partitions: int = _number(1, "Partitions of a topic created without saying how many.", ge=1, le=10_000)
    default_replication_factor: int = _number(
        1,
        "Replicas of a topic created without saying how many. The default of a cluster is 3, or the number of its "
        "brokers when there are fewer.",
        ge=1,
        le=32767,
    )
    auto_create_topics_enable: bool = _flag(True, "Create an unknown topic when a client asks for it.")
    min_insync_replicas: int = _number(
        1,
        "In-sync replicas, the leader among them, without which acks=all is refused (NOT_ENOUGH_REPLICAS).",
        ge=1,
        le=32767,
        topic="min.insync.replicas",
    )

    # Log
    log_segment_bytes: int = _number(
        16 * _MIB,
        "Size at which a segment is closed and a new one begun. Kafka's is 1 GiB; smaller here since retention and the "
        "memory cap free whole segments.",
        ge=1024,
        topic="segment.bytes",
    )
    log_roll_ms: int = _number(
        7 * _DAY_MS,
        "Age at which a segment is closed though not full.",
        ge=1,
        long=True,
        topic="segment.ms",
    )
    log_retention_ms: int = _number(
        7 * _DAY_MS,
        "Age at which a closed segment may be deleted; -1 keeps it.",
        ge=-1,
        long=True,
        topic="retention.ms",
    )
    log_retention_bytes: int = _number(
        -1,
        "Size of a partition past which its oldest segments are deleted; -1 sets no limit.",
        ge=-1,
        long=True,
        topic="retention.bytes",
    )
    log_retention_check_interval_ms: int = _number(
        300_000, "Time between two looks for segments to delete.", ge=1, long=True
    )
    log_memory_bytes: int = _number(
        512 * _MIB,
        "Purgatorio's own: memory that all logs of a broker may hold together. Past it the oldest segments go, "
        "whatever their topics' retention says.",
        ge=_MIB,
        long=True,
    )
    log_cleanup_policy: Literal["delete", "compact", "delete,compact", "compact,delete"] = _other(
        "delete",
        "What becomes of old segments: delete, compact, or both with a comma between.",
        SettingType.LIST,
        topic="cleanup.policy",
    )
    log_cleaner_enable: bool = _flag(True, "Compact the topics whose cleanup policy asks for it.")
    log_cleaner_backoff_ms: int = _number(15_000, "Time between two compaction passes.", ge=1, long=True)
    log_cleaner_delete_retention_ms: int = _number(
        _DAY_MS,
        "Time for which a compacted topic keeps tombstones.",
        long=True,
        topic="delete.retention.ms",
    )
    log_cleaner_min_cleanable_ratio: float = _other(
        0.5,
        "Share of a compacted log that must be dirty before it is compacted.",
        SettingType.DOUBLE,
        topic="min.cleanable.dirty.ratio",
        ge=0.0,
        le=1.0,
    )
    message_max_bytes: int = _number(
        1_048_588, "Largest record batch accepted, after compression.", topic="max.message.bytes"
    )
    log_message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = _text(
        "CreateTime",
        "Whose time a record carries: its producer's (CreateTime) or the broker's (LogAppendTime).",
        topic="message.timestamp.type",
    )
    log_message_timestamp_before_max_ms: int = _number(
        LONG_MAX,
        "How far a record's CreateTime may lie before the broker's time.",
        long=True,
        topic="message.timestamp.before.max.ms",
    )
    log_message_timestamp_after_max_ms: int = _number(
        3_600_000,
        "How far a record's CreateTime may lie after the broker's time.",
        long=True,
        topic="message.timestamp.after.max.ms",
    )
    compression_type: Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"] = _text(
        "producer",
        "Compression of stored batches; producer keeps each batch as it came.",
        topic="compression.type",
    )
    producer_id_expiration_ms: int = _number(
        _DAY_MS, "Idle time after which a producer's sequence numbers are forgotten.", ge=1
    )

    # Replication
    replica_fetch_wait_max_ms: int = _number(500, "Longest wait of a follower's fetch at the leader.", ge=1)
    replica_fetch_min_bytes: int = _number(1, "Bytes that a follower's fetch waits for.")
    replica_fetch_max_bytes: int = _number(
        _MIB, "Bytes per partition in a follower's fetch; a larger first batch still comes."
    )
    replica_fetch_response_max_bytes: int = _number(10 * _MIB, "Bytes in a whole answer to a follower's fetch.")
    replica_fetch_backoff_ms: int = _number(
        1_000,
        "Longest wait of a follower after a failed fetch; the first is 20 ms, each further one twice as long. Kafka "
        "always waits this long.",
        ge=1,
    )
    replica_lag_time_max_ms: int = _number(
        30_000, "Time without having caught up after which a follower leaves the in-sync set.", ge=1, long=True
    )
    replica_socket_timeout_ms: int = _number(30_000, "Longest wait of a follower for an answer of its leader.", ge=1)
    follower_delay_ms: int = _number(
        0,
        "Purgatorio's own: time by which each follower fetch is held back, so that you can watch acks=all wait.",
    )

    # Membership and leadership
    broker_session_timeout_ms: int = _number(
        400,
        "Time without a sign of life after which a broker is fenced and its leaderships move on. Kafka's is 9000; "
        "shorter here, since a broker that dies should hardly be missed.",
        ge=10,
    )
    broker_heartbeat_interval_ms: int = _number(
        100,
        "Time between two signs of life; a good deal shorter than broker.session.timeout.ms. Kafka's is 2000.",
        ge=1,
    )
    auto_leader_rebalance_enable: bool = _flag(
        True, "Give leadership back to a partition's preferred leader once it is in sync again."
    )
    leader_imbalance_check_interval_ms: int = _number(
        1_000,
        "Time between two looks for partitions to lead again. Kafka's setting counts seconds, and is 300.",
        ge=1,
        long=True,
    )

    # Purgatory
    producer_purgatory_purge_interval_requests: int = _number(
        1_000,
        "Completed operations that may stay in the Produce purgatory's watch lists until they are swept out.",
        ge=1,
    )
    fetch_purgatory_purge_interval_requests: int = _number(
        1_000,
        "Completed operations that may stay in the Fetch purgatory's watch lists until they are swept out.",
        ge=1,
    )

    delete_records_purgatory_purge_interval_requests: int = _number(
        1,
        "Completed operations that may stay in the DeleteRecords purgatory's watch lists until they are swept out.",
        ge=1,
    )

    # Connections and requests
    max_connections: int = _number(INT_MAX, "Connections of all clients; further ones are closed at once.", ge=1)
    max_connections_per_ip: int = _number(
        INT_MAX, "Connections from one address; further ones are closed at once.", ge=1
    )
    connections_max_idle_ms: int = _number(600_000, "Idle time after which a connection is closed.", ge=1, long=True)
    socket_request_max_bytes: int = _number(100 * _MIB, "Largest request; a larger one closes its connection.", ge=_KIB)
    queued_max_request_bytes: int = _number(
        512 * _MIB,
        "Request bytes of all connections together being received or worked on; past it no more are read. Kafka's "
        "default is no limit; here memory stays bounded.",
        ge=_MIB,
        long=True,
    )
    max_in_flight_requests_per_connection: int = _number(
        1_000,
        "Purgatorio's own: requests of one connection that may wait for their answers; past it no more are read.",
        ge=1,
    )
    fetch_max_bytes: int = _number(55 * _MIB, "Bytes in a whole answer to any fetch, whatever it asks for.", ge=_KIB)

    # Shutdown
    shutdown_grace_ms: int = _number(
        2_000,
        "Purgatorio's own: time within which a stopping broker answers what is parked and closes its connections.",
    )

    @property
    def advertised(self) -> tuple[str, int]:
        """Host and port that clients are told to connect to; port 0 until the one that was taken is known."""
        host = self.advertised_host or ("localhost" if self.host in _WILDCARD_HOSTS else self.host)
        return host, self.advertised_port or self.port


class ClusterConfig(BaseModel):
    """What one process is told: its brokers, its admin HTTP, its log.

    Broker number i (from 0) gets id ``broker.broker_id + i`` and port ``port + i`` (0 stays 0); see `broker_configs`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True)

    brokers: int = _number(3, "Brokers in this process.", ge=1, le=100)
    host: str = _text("127.0.0.1", "The address to listen on for Kafka clients.", min_length=1)
    port: int = _number(9092, "The first broker's port, the next ones follow; 0 takes any free ones.", le=65535)
    advertised_host: str | None = _text(
        None,
        "The host that clients are told to connect to. Not set: `host`, or localhost where that is every interface.",
        min_length=1,
    )
    racks: str | None = _text(
        None,
        "The racks of the brokers, with commas between, e.g. a,b,c; fewer than brokers are taken in turn. A consumer "
        "that names its rack (client.rack) is sent to a replica there.",
        pattern=r"^[^,\s]+(,[^,\s]+)*$",
    )
    admin_host: str | None = _text(
        None, "The address of the admin HTTP: page, metrics, health. Not set: `host`.", min_length=1
    )
    admin_port: int = _number(9644, "The port of the admin HTTP; 0 takes any free one.", le=65535)
    record_delays: bool = _flag(
        False,
        "Create the topic __delayed_operations, in which the brokers then record each delayed operation when it has "
        "ended; purgatorio-delays makes a report of it.",
    )
    log_format: Literal["console", "json"] = _text(
        "console", "How log lines look: for people (console) or machines (json)."
    )
    log_level: Literal["debug", "info", "warning", "error"] = _text(
        "info", "The least severe log lines that are written."
    )
    broker: BrokerConfig = Field(
        default_factory=BrokerConfig, strict=False, description="What all brokers of this process share."
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_template(cls, data: Any) -> Any:
        """Replicate new topics 3 times, or as often as there are brokers, unless the template says otherwise."""
        if not isinstance(data, Mapping):
            return data
        template = data.get("broker") or {}
        given = template.model_dump(exclude_unset=True) if isinstance(template, BrokerConfig) else dict(template)
        if misplaced := sorted(_CLUSTER_ADDRESS_FIELDS & given.keys()):
            raise ValueError(f"{misplaced[0]} belongs to the cluster, not to what its brokers share")
        brokers = data.get("brokers", cls.model_fields["brokers"].default)
        if "default_replication_factor" not in given and isinstance(brokers, int):
            given["default_replication_factor"] = max(1, min(3, brokers))
        return {**data, "broker": given}

    @model_validator(mode="after")
    def _consistent(self) -> ClusterConfig:
        """Refuse settings that cannot hold together."""
        if self.broker.default_replication_factor > self.brokers:
            wanted = self.broker.default_replication_factor
            raise ValueError(f"default_replication_factor is {wanted}, but the number of brokers is {self.brokers}")
        for name, first in (("port", self.port), ("advertised_port", self.broker.advertised_port)):
            if first and first + self.brokers - 1 > 65535:
                raise ValueError(f"{name} is {first}, but {self.brokers} ports from there on do not fit below 65536")
        if self.broker.broker_heartbeat_interval_ms >= self.broker.broker_session_timeout_ms:
            raise ValueError("broker_heartbeat_interval_ms must be shorter than broker_session_timeout_ms")
        if self.admin_port and self.port <= self.admin_port < self.port + self.brokers:
            raise ValueError(f"admin_port is {self.admin_port}, which is also the port of a broker")
        return self

    def broker_configs(self) -> list[BrokerConfig]:
        """The configuration of each broker of this process, ids and ports counted up from the first."""
        first = self.broker
        racks = self.racks.split(",") if self.racks is not None else [first.rack]
        return [
            first.model_copy(
                update={
                    "broker_id": first.broker_id + index,
                    "rack": racks[index % len(racks)],
                    "host": self.host,
                    "port": self.port and self.port + index,
                    "advertised_host": self.advertised_host,
                    "advertised_port": first.advertised_port and first.advertised_port + index,
                }
            )
            for index in range(self.brokers)
        ]

    @property
    def admin_address(self) -> tuple[str, int]:
        """Host and port that the admin HTTP listens on."""
        return self.admin_host or self.host, self.admin_port


def settings_of_process() -> dict[str, FieldInfo]:
    """All settings a process can be given, by name: the cluster's own, then those that its brokers share."""
    own = {name: field for name, field in ClusterConfig.model_fields.items() if name != "broker"}
    return own | {name: field for name, field in BrokerConfig.model_fields.items() if name not in own}


def _extra(field: FieldInfo) -> dict[str, Any]:
    """What `_number` and `_other` kept beside a field."""
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def setting_type(field: FieldInfo) -> SettingType:
    """The type of a setting declared in this file."""
    return SettingType(_extra(field)["type"])


def kafka_text(value: object) -> str | None:
    """A setting's value in the text form of Kafka's configuration (None: not set)."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def describe(config: BrokerConfig) -> Mapping[str, SettingValue]:
    """All settings of a broker under Kafka's dotted names, sorted, as DescribeConfigs answers them.

    Host and port appear as Kafka's ``listeners`` and ``advertised.listeners``, the id as ``broker.id`` and ``node.id``.
    """
    found: dict[str, SettingValue] = {}
    for name, field in BrokerConfig.model_fields.items():
        if name in _ADDRESS_FIELDS:
            continue
        value = getattr(config, name)
        dotted = "broker.rack" if name == "rack" else name.replace("_", ".")
        doc = field.description or ""
        found[dotted] = SettingValue(kafka_text(value), value == field.default, setting_type(field), doc)
    found["node.id"] = found["broker.id"]
    listeners = {"listeners": (config.host, config.port), "advertised.listeners": config.advertised}
    for dotted, (host, port) in listeners.items():
        doc = "Where clients connect." if dotted == "listeners" else "Where clients are told to connect."
        found[dotted] = SettingValue(f"PLAINTEXT://{_url_host(host)}:{port}", False, SettingType.LIST, doc)
    return dict(sorted(found.items()))


def topic_defaults(config: BrokerConfig) -> dict[str, str]:
    """The broker's defaults of topic settings, by topics' names for them (``retention.ms``: ``log_retention_ms``)."""
    defaults: dict[str, str] = {}
    for name, field in BrokerConfig.model_fields.items():
        if topic := _extra(field)["topic"]:
            defaults[topic] = kafka_text(getattr(config, name)) or ""
    return defaults


def as_toml(config: ClusterConfig) -> str:
    """All settings with their documentation as a file that `load_cluster_config` reads; defaults are commented out."""
    lines: list[str] = []
    template = type(config)(brokers=config.brokers).broker
    for name, field in settings_of_process().items():
        own = name in ClusterConfig.model_fields
        value = getattr(config if own else config.broker, name)
        default = field.default if own else getattr(template, name)
        lines += [f"# {line}" for line in textwrap.wrap(field.description or "", width=100)]
        lines += [f"{'# ' if value == default else ''}{name} ={_toml_value(value)}", ""]
    return "\n".join(lines)


def _toml_value(value: object) -> str:
    """A value as TOML writes it, after a space; nothing where it is not set."""
    if value is None:
        return ""
    return f" {json.dumps(value, ensure_ascii=False)}"


def topic_synonyms() -> dict[str, str]:
    """For each topic setting the broker's setting that is its default, both by Kafka's dotted names."""
    return {
        topic: name.replace("_", ".")
        for name, field in BrokerConfig.model_fields.items()
        if (topic := str(_extra(field)["topic"]))
    }
