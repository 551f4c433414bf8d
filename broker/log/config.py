"""The topic configs, by Kafka's names: one table for a topic's own configs and for the broker's defaults of them.

Each config is one field of `LogConfig`, with its default, its bounds, its documentation and the name of the broker's
setting that is its default (``log.retention.ms`` for ``retention.ms``). `TOPIC_CONFIGS` lists them for
CreateTopics, AlterConfigs and DescribeConfigs; `purgatorio.broker.config` makes the broker's settings from them. The
defaults are Kafka's where the documentation does not say otherwise.

Some of Kafka's configs are about files, disks, tiers and throttles. They are accepted, so that scripts that
set them work, but have no effect, and their documentation says so.
"""

# compiled: docs/compiled.md

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from purgatorio.broker.log.config_keys import (
    MAX_INT,
    MAX_LONG,
    ConfigKey,
    ConfigType,
    InvalidConfig,
    boolean,
    choice,
    choices,
    config_text,
    format_version,
    long_number,
    ratio,
    replica_list,
    whole_number,
)
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.records import TimestampType

__all__ = [
    "GONE_CONFIGS",
    "LARGEST_RECORD_BYTES",
    "MAX_LONG",
    "TOPIC_CONFIGS",
    "CleanupPolicyText",
    "CompressionTypeText",
    "ConfigKey",
    "ConfigType",
    "InvalidConfig",
    "LogConfig",
    "TimestampTypeText",
]

CleanupPolicyText = Literal["delete", "compact", "delete,compact", "compact,delete"]
CompressionTypeText = Literal["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"]
TimestampTypeText = Literal["CreateTime", "LogAppendTime"]

LARGEST_RECORD_BYTES: Final = MAX_INT - 8
"""The largest array of Java's: no record can be larger in Kafka."""
GONE_CONFIGS: Final = frozenset(
    ("message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms")
)
"""The configs that no topic has unless the broker answers as a release that has them."""
_HOUR_MS: Final = 60 * 60 * 1000
_DAY_MS: Final = 24 * _HOUR_MS
_NO_LEVELS: Final = "Accepted, without effect: where the broker compresses, it uses one level per codec."
_NO_TIERS: Final = "Accepted, without effect: there is no tiered storage."
_GONE: Final = "Accepted, without effect, where the broker answers as a release before Kafka 4.0, which has removed it."
_NO_EFFECT: Final = "Accepted, without effect: logs live in memory."


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The configs of a topic's logs. Sizes are bytes, times milliseconds, −1 is "no limit"."""

    cleanup_policy: tuple[str, ...] = choices(
        "cleanup.policy",
        ("delete",),
        "How old records go: delete (by age and size), compact (each key keeps its newest record), or both with a "
        "comma between.",
        ("compact", "delete"),
        broker="log.cleanup.policy",
    )
    compression_gzip_level: int = whole_number("compression.gzip.level", -1, _NO_LEVELS, low=-1, high=9, without=(0,))
    compression_lz4_level: int = whole_number("compression.lz4.level", 9, _NO_LEVELS, low=1, high=17)
    compression_type: str = choice(
        "compression.type",
        "producer",
        "Compression of stored batches; producer keeps each batch as its producer compressed it.",
        get_args(CompressionTypeText),
        broker="compression.type",
    )
    compression_zstd_level: int = whole_number("compression.zstd.level", 3, _NO_LEVELS, low=-131_072, high=22)
    delete_retention_ms: int = long_number(
        "delete.retention.ms",
        _DAY_MS,
        "Time for which compaction keeps tombstones, so that readers see them.",
        low=0,
        broker="log.cleaner.delete.retention.ms",
    )
    errors_deadletterqueue_group_enable: bool = boolean(
        "errors.deadletterqueue.group.enable",
        False,
        "Whether share groups may have the topic as their dead-letter topic (KIP-1191).",
    )
    file_delete_delay_ms: int = long_number("file.delete.delay.ms", 60_000, _NO_EFFECT, low=0)
    flush_messages: int = long_number("flush.messages", MAX_LONG, _NO_EFFECT, low=1)
    flush_ms: int = long_number("flush.ms", MAX_LONG, _NO_EFFECT, low=0)
    follower_replication_throttled_replicas: tuple[str, ...] = replica_list(
        "follower.replication.throttled.replicas",
        "Replicas, as partition:broker or * for all, whose fetching follower.replication.throttled.rate throttles.",
    )
    index_interval_bytes: int = whole_number("index.interval.bytes", 4096, _NO_EFFECT, low=0)
    leader_replication_throttled_replicas: tuple[str, ...] = replica_list(
        "leader.replication.throttled.replicas",
        "Replicas, as partition:broker or * for all, of whose records leader.replication.throttled.rate throttles what "
        "followers read that are not in sync.",
    )
    local_retention_bytes: int = long_number("local.retention.bytes", -2, _NO_TIERS, low=-2)
    local_retention_ms: int = long_number("local.retention.ms", -2, _NO_TIERS, low=-2)
    max_compaction_lag_ms: int = long_number(
        "max.compaction.lag.ms",
        MAX_LONG,
        "Age of a record at which its log is compacted, however little of the log is new.",
        low=1,
        broker="log.cleaner.max.compaction.lag.ms",
    )
    max_decompressed_message_bytes: int = whole_number(
        "max.decompressed.message.bytes",
        LARGEST_RECORD_BYTES,
        "Largest record accepted in a compressed batch, unpacked; the default is no limit.",
        low=1,
        high=LARGEST_RECORD_BYTES,
        broker="max.decompressed.message.bytes",
    )
    max_message_bytes: int = whole_number(
        "max.message.bytes",
        1_048_588,
        "Largest record batch accepted, after compression.",
        low=0,
        broker="message.max.bytes",
    )
    message_downconversion_enable: bool = boolean("message.downconversion.enable", True, _GONE)
    message_format_version: str = format_version("message.format.version", "3.0-IV1", _GONE)
    message_timestamp_after_max_ms: int = long_number(
        "message.timestamp.after.max.ms",
        _HOUR_MS,
        "How far a record's CreateTime may lie after the broker's time.",
        low=0,
        broker="log.message.timestamp.after.max.ms",
    )
    message_timestamp_before_max_ms: int = long_number(
        "message.timestamp.before.max.ms",
        MAX_LONG,
        "How far a record's CreateTime may lie before the broker's time.",
        low=0,
        broker="log.message.timestamp.before.max.ms",
    )
    message_timestamp_difference_max_ms: int = long_number(
        "message.timestamp.difference.max.ms", MAX_LONG, _GONE, low=0
    )
    message_timestamp_type: str = choice(
        "message.timestamp.type",
        "CreateTime",
        "Whose time a record carries: its producer's (CreateTime) or the broker's (LogAppendTime).",
        get_args(TimestampTypeText),
        broker="log.message.timestamp.type",
    )
    min_cleanable_dirty_ratio: float = ratio(
        "min.cleanable.dirty.ratio",
        0.5,
        "Share of a compacted log that must be new before it is compacted again.",
        broker="log.cleaner.min.cleanable.ratio",
    )
    min_compaction_lag_ms: int = long_number(
        "min.compaction.lag.ms",
        0,
        "Time for which a record stays uncompacted at least.",
        low=0,
        broker="log.cleaner.min.compaction.lag.ms",
    )
    min_insync_replicas: int = whole_number(
        "min.insync.replicas",
        1,
        "In-sync replicas, the leader among them, without which acks=all is refused (NOT_ENOUGH_REPLICAS).",
        low=1,
        broker="min.insync.replicas",
    )
    preallocate: bool = boolean("preallocate", False, _NO_EFFECT)
    remote_copy_lag_bytes: int = long_number("remote.copy.lag.bytes", -1, _NO_TIERS, low=-1)
    remote_copy_lag_ms: int = long_number("remote.copy.lag.ms", 0, _NO_TIERS, low=-1)
    remote_log_copy_disable: bool = boolean("remote.log.copy.disable", False, _NO_TIERS)
    remote_log_delete_on_disable: bool = boolean("remote.log.delete.on.disable", False, _NO_TIERS)
    remote_storage_enable: bool = boolean(
        "remote.storage.enable",
        False,
        "Only false: there is no tiered storage. Kafka too refuses true where brokers have none.",
        only=False,
    )
    retention_bytes: int = long_number(
        "retention.bytes",
        -1,
        "Size of a partition past which its oldest segments are deleted; -1 sets no limit.",
        low=-1,
        broker="log.retention.bytes",
    )
    retention_ms: int = long_number(
        "retention.ms",
        7 * _DAY_MS,
        "Age of its newest record at which a closed segment is deleted; -1 keeps it.",
        low=-1,
        broker="log.retention.ms",
    )
    segment_bytes: int = whole_number(
        "segment.bytes",
        16 * 1024 * 1024,
        "Size at which a segment is closed and a new one begun; deletion and compaction work on closed segments. "
        "Kafka's is 1 GiB; smaller here since retention and the memory cap free whole segments.",
        low=14,
        broker="log.segment.bytes",
    )
    segment_index_bytes: int = whole_number("segment.index.bytes", 10 * 1024 * 1024, _NO_EFFECT, low=4)
    segment_jitter_ms: int = long_number("segment.jitter.ms", 0, _NO_EFFECT, low=0)
    segment_ms: int = long_number(
        "segment.ms",
        7 * _DAY_MS,
        "Age at which a segment is closed though it is not full.",
        low=1,
        broker="log.roll.ms",
    )
    unclean_leader_election_enable: bool = boolean(
        "unclean.leader.election.enable",
        False,
        "Accepted, without effect: a replica that may lack acknowledged records becomes leader only by an unclean "
        "election that an operator asks for (ElectLeaders, purgatorio topics elect --unclean).",
    )

    @classmethod
    def from_strings(cls, configs: Mapping[str, str], defaults: LogConfig | None = None) -> LogConfig:
        """Parse configs by their dotted names, over the broker's defaults.

        Raises:
            InvalidConfig: an unknown name (with the one that may be meant), or a value that is not valid.
        """
        values: dict[str, Any] = {}
        for name, text in configs.items():
            key = TOPIC_CONFIGS.get(name)
            if key is None:
                raise InvalidConfig(name, _unknown(name))
            try:
                values[key.field_name] = key.parse(text.strip())
            except ValueError as error:
                raise InvalidConfig(name, str(error)) from error
        config = defaults if defaults is not None else cls()
        if values:
            config = dataclasses.replace(config, **values)
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            why = f"{config.min_compaction_lag_ms} is more than max.compaction.lag.ms, {config.max_compaction_lag_ms}"
            raise InvalidConfig("min.compaction.lag.ms", why)
        return config

    def with_broker_configs(self, configs: Mapping[str, str]) -> LogConfig:
        """Return these defaults of topics, changed by configs of a broker that were checked (``log.retention.ms``).

        Configs that are no defaults of topics are ignored.
        """
        names = {key.broker_name: name for name, key in TOPIC_CONFIGS.items()}
        changed = {names[name]: text for name, text in configs.items() if name in names}
        return LogConfig.from_strings(changed, self) if changed else self

    def to_strings(self) -> dict[str, str]:
        """All values by their dotted names, as DescribeConfigs gives them."""
        return {name: config_text(getattr(self, key.field_name)) for name, key in TOPIC_CONFIGS.items()}

    @property
    def compact(self) -> bool:
        """Whether cleanup.policy has "compact"."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether cleanup.policy has "delete", so that the oldest segments are deleted by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def compression(self) -> Compression | None:
        """How the broker stores batches, or None to leave them as they come."""
        if self.compression_type == "producer":
            return None
        return (
            Compression.NONE if self.compression_type == "uncompressed" else Compression[self.compression_type.upper()]
        )

    @property
    def timestamp_type(self) -> TimestampType:
        """Whose time records carry."""
        return TimestampType(get_args(TimestampTypeText).index(self.message_timestamp_type))


@functools.lru_cache(maxsize=256)
def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, TOPIC_CONFIGS, n=1)
    return f"there is no such topic config{f'; is {near[0]} meant?' if near else ''}"


TOPIC_CONFIGS: Final[Mapping[str, ConfigKey]] = MappingProxyType(
    {key.name: key for key in (item.metadata["key"] for item in dataclasses.fields(LogConfig))}
)
"""Every topic config by its dotted name, in the order of the names."""
