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
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from purgatorio.broker.log.setting import (
    MAX_INT,
    MAX_LONG,
    ConfigType,
    InvalidConfig,
    Setting,
    config_text,
    flag,
    number,
    other,
    text,
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
    "ConfigType",
    "InvalidConfig",
    "LogConfig",
    "Setting",
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
_AS_TOTAL: Final = -2
"""The local retention that is the total one."""
_GONE: Final = "Accepted, without effect, where the broker answers as a release before Kafka 4.0, which has removed it."
_NO_EFFECT: Final = "Accepted, without effect: logs live in memory."


def _config(setting: Any, *, broker: str | None = None) -> Any:
    """Declare a topic config, and name the broker's setting that is its default."""
    setting.broker_name = broker
    return field(default=setting.default, metadata={"setting": setting})


def _not_zero(value: int) -> None:
    if value == 0:
        raise ValueError("0 is not allowed")


def _replicas(items: Sequence[str]) -> None:
    """Check a list that names replicas as partition:broker, or all by ``*``."""
    for item in items:
        if items != ("*",) and not re.fullmatch(r"\d+:\d+", item):
            raise ValueError(f"'{item}' names no replica; one is partition:broker, and * alone names all")


def _version(text: str) -> None:
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?(-IV\d+)?", text):
        raise ValueError(f"'{text}' is no version; one is 3.0-IV1")


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The configs of a topic's logs. Sizes are bytes, times milliseconds, −1 is "no limit"."""

    cleanup_policy: tuple[str, ...] = _config(
        other(
            ("delete",),
            "How old records go: delete (by age and size), compact (each key keeps its newest record), or both with a "
            "comma between.",
            ConfigType.LIST,
            only=("compact", "delete"),
        ),
        broker="log.cleanup.policy",
    )
    compression_gzip_level: int = _config(number(-1, _NO_LEVELS, ge=-1, le=9, rule=_not_zero))
    compression_lz4_level: int = _config(number(9, _NO_LEVELS, ge=1, le=17))
    compression_type: str = _config(
        text(
            "producer",
            "Compression of stored batches; producer keeps each batch as its producer compressed it.",
            only=get_args(CompressionTypeText),
        ),
        broker="compression.type",
    )
    compression_zstd_level: int = _config(number(3, _NO_LEVELS, ge=-131_072, le=22))
    delete_retention_ms: int = _config(
        number(_DAY_MS, "Time for which compaction keeps tombstones, so that readers see them.", long=True),
        broker="log.cleaner.delete.retention.ms",
    )
    errors_deadletterqueue_group_enable: bool = _config(
        flag(False, "Whether share groups may have the topic as their dead-letter topic (KIP-1191).")
    )
    file_delete_delay_ms: int = _config(number(60_000, _NO_EFFECT, long=True))
    flush_messages: int = _config(number(MAX_LONG, _NO_EFFECT, ge=1, long=True))
    flush_ms: int = _config(number(MAX_LONG, _NO_EFFECT, long=True))
    follower_replication_throttled_replicas: tuple[str, ...] = _config(
        other(
            (),
            "Replicas, as partition:broker or * for all, whose fetching follower.replication.throttled.rate throttles.",
            ConfigType.LIST,
            rule=_replicas,
        )
    )
    index_interval_bytes: int = _config(number(4096, _NO_EFFECT))
    leader_replication_throttled_replicas: tuple[str, ...] = _config(
        other(
            (),
            "Replicas, as partition:broker or * for all, of whose records leader.replication.throttled.rate throttles "
            "what followers read that are not in sync.",
            ConfigType.LIST,
            rule=_replicas,
        )
    )
    local_retention_bytes: int = _config(
        number(
            -2,
            "Size of a partition in memory past which its oldest segments that the tier has are deleted there; "
            "-2: retention.bytes, -1: no limit.",
            ge=-2,
            long=True,
        ),
        broker="log.local.retention.bytes",
    )
    local_retention_ms: int = _config(
        number(
            -2,
            "Age at which a segment that the tier has is deleted from memory; -2: retention.ms, -1 keeps it.",
            ge=-2,
            long=True,
        ),
        broker="log.local.retention.ms",
    )
    max_compaction_lag_ms: int = _config(
        number(
            MAX_LONG,
            "Age of a record at which its log is compacted, however little of the log is new.",
            ge=1,
            long=True,
        ),
        broker="log.cleaner.max.compaction.lag.ms",
    )
    max_decompressed_message_bytes: int = _config(
        number(
            LARGEST_RECORD_BYTES,
            "Largest record accepted in a compressed batch, unpacked; the default is no limit.",
            ge=1,
            le=LARGEST_RECORD_BYTES,
        ),
        broker="max.decompressed.message.bytes",
    )
    max_message_bytes: int = _config(
        number(1_048_588, "Largest record batch accepted, after compression."), broker="message.max.bytes"
    )
    message_downconversion_enable: bool = _config(flag(True, _GONE))
    message_format_version: str = _config(text("3.0-IV1", _GONE, rule=_version))
    message_timestamp_after_max_ms: int = _config(
        number(_HOUR_MS, "How far a record's CreateTime may lie after the broker's time.", long=True),
        broker="log.message.timestamp.after.max.ms",
    )
    message_timestamp_before_max_ms: int = _config(
        number(MAX_LONG, "How far a record's CreateTime may lie before the broker's time.", long=True),
        broker="log.message.timestamp.before.max.ms",
    )
    message_timestamp_difference_max_ms: int = _config(number(MAX_LONG, _GONE, long=True))
    message_timestamp_type: str = _config(
        text(
            "CreateTime",
            "Whose time a record carries: its producer's (CreateTime) or the broker's (LogAppendTime).",
            only=get_args(TimestampTypeText),
        ),
        broker="log.message.timestamp.type",
    )
    min_cleanable_dirty_ratio: float = _config(
        other(
            0.5,
            "Share of a compacted log that must be new before it is compacted again.",
            ConfigType.DOUBLE,
            ge=0.0,
            le=1.0,
        ),
        broker="log.cleaner.min.cleanable.ratio",
    )
    min_compaction_lag_ms: int = _config(
        number(0, "Time for which a record stays uncompacted at least.", long=True),
        broker="log.cleaner.min.compaction.lag.ms",
    )
    min_insync_replicas: int = _config(
        number(
            1, "In-sync replicas, the leader among them, without which acks=all is refused (NOT_ENOUGH_REPLICAS).", ge=1
        ),
        broker="min.insync.replicas",
    )
    preallocate: bool = _config(flag(False, _NO_EFFECT))
    remote_copy_lag_bytes: int = _config(
        number(
            -1,
            "Bytes of newer records behind which a closed segment is copied to the tier (KIP-1241), if "
            "remote.copy.lag.ms does not say so before; 0: at once, -1: local.retention.bytes.",
            ge=-1,
            long=True,
        ),
        broker="log.remote.copy.lag.bytes",
    )
    remote_copy_lag_ms: int = _config(
        number(
            0,
            "Age of its newest record at which a closed segment is copied to the tier (KIP-1241), if "
            "remote.copy.lag.bytes does not say so before; 0: at once, -1: local.retention.ms.",
            ge=-1,
            long=True,
        ),
        broker="log.remote.copy.lag.ms",
    )
    remote_log_copy_disable: bool = _config(
        flag(
            False,
            "Whether nothing more is copied to the tier (KIP-950): what is there is read and deleted as before, and "
            "what is not is deleted from memory by retention.ms and retention.bytes.",
        )
    )
    remote_log_delete_on_disable: bool = _config(
        flag(
            False,
            "Whether all that the tier has of the topic is deleted when remote.storage.enable becomes false, which "
            "needs it (KIP-950).",
        )
    )
    remote_storage_enable: bool = _config(
        flag(
            False,
            "Whether closed segments are copied to the tier, and may leave memory then (KIP-405); only where brokers "
            "have one (tier.location).",
        )
    )
    retention_bytes: int = _config(
        number(
            -1, "Size of a partition past which its oldest segments are deleted; -1 sets no limit.", ge=-1, long=True
        ),
        broker="log.retention.bytes",
    )
    retention_ms: int = _config(
        number(
            7 * _DAY_MS, "Age of its newest record at which a closed segment is deleted; -1 keeps it.", ge=-1, long=True
        ),
        broker="log.retention.ms",
    )
    segment_bytes: int = _config(
        number(
            16 * 1024 * 1024,
            "Size at which a segment is closed and a new one begun; deletion and compaction work on closed segments. "
            "Kafka's is 1 GiB; smaller here since retention and the memory cap free whole segments.",
            ge=14,
        ),
        broker="log.segment.bytes",
    )
    segment_index_bytes: int = _config(number(10 * 1024 * 1024, _NO_EFFECT, ge=4))
    segment_jitter_ms: int = _config(number(0, _NO_EFFECT, long=True))
    segment_ms: int = _config(
        number(7 * _DAY_MS, "Age at which a segment is closed though it is not full.", ge=1, long=True),
        broker="log.roll.ms",
    )
    unclean_leader_election_enable: bool = _config(
        flag(
            False,
            "Accepted, without effect: a replica that may lack acknowledged records becomes leader only by an unclean "
            "election that an operator asks for (ElectLeaders, purgatorio topics elect --unclean).",
        )
    )

    @classmethod
    def from_strings(cls, configs: Mapping[str, str], defaults: LogConfig | None = None) -> LogConfig:
        """Parse configs by their dotted names, over the broker's defaults.

        Raises:
            InvalidConfig: an unknown name (with the one that may be meant), or a value that is not valid.
        """
        values: dict[str, Any] = {}
        for name, given in configs.items():
            setting = TOPIC_CONFIGS.get(name)
            if setting is None:
                raise InvalidConfig(name, _unknown(name))
            try:
                values[setting.name] = setting.parse(given.strip())
            except ValueError as error:
                raise InvalidConfig(name, str(error)) from error
        config = defaults if defaults is not None else cls()
        return dataclasses.replace(config, **values) if values else config

    def consistent(self) -> LogConfig:
        """Return these configs, which a client wants to set; raises InvalidConfig if they contradict each other.

        Configs that are in effect may: a default of all brokers may have changed after a topic's own were set.
        """
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            why = f"{self.min_compaction_lag_ms} is more than max.compaction.lag.ms, {self.max_compaction_lag_ms}"
            raise InvalidConfig("min.compaction.lag.ms", why)
        if self.remote_storage_enable:
            self._check_tiered()
        return self

    def _check_tiered(self) -> None:
        """Check what Kafka asks of a topic with remote.storage.enable; raises InvalidConfig."""
        if self.compact:
            why = f"cleanup.policy is {','.join(self.cleanup_policy)}; a topic whose policy is compact has no tier"
            raise InvalidConfig("remote.storage.enable", why)
        for local_name, local, total in (
            ("local.retention.ms", self.local_retention_ms, self.retention_ms),
            ("local.retention.bytes", self.local_retention_bytes, self.retention_bytes),
        ):
            name = local_name.removeprefix("local.")
            if local == -1 and total != -1:
                raise InvalidConfig(local_name, f"it is -1, no limit, but {name} is {total}")
            if local > total >= 0:
                raise InvalidConfig(local_name, f"{local} is more than {name}, {total}")
            if self.remote_log_copy_disable and local not in (_AS_TOTAL, total):
                why = f"with remote.log.copy.disable it has to be {name}, {total}, or -2: nothing more is copied"
                raise InvalidConfig(local_name, why)
        lags = (self.remote_copy_lag_ms, self.remote_copy_lag_bytes)
        names = ("remote.copy.lag.ms", "remote.copy.lag.bytes")
        for name, lag, local in zip(names, lags, self.effective_local_retention, strict=True):
            if lag > local >= 0:
                local_name = name.replace("remote.copy.lag", "local.retention")
                raise InvalidConfig(name, f"{lag} is more than {local_name} in effect, {local}")

    def with_broker_configs(self, configs: Mapping[str, str]) -> LogConfig:
        """Return these defaults of topics, changed by configs of a broker that were checked (``log.retention.ms``).

        Configs that are no defaults of topics are ignored.
        """
        names = {each.broker_name: name for name, each in TOPIC_CONFIGS.items()}
        changed = {names[name]: text for name, text in configs.items() if name in names}
        return LogConfig.from_strings(changed, self) if changed else self

    def to_strings(self) -> dict[str, str]:
        """All values by their dotted names, as DescribeConfigs gives them."""
        return {name: config_text(getattr(self, each.name)) for name, each in TOPIC_CONFIGS.items()}

    @property
    def effective_local_retention(self) -> tuple[int, int]:
        """The limits of age and size of what a tiered log has in memory; −1: none."""
        if self.remote_log_copy_disable:  # what is not in the tier is not copied any more (KIP-950)
            return self.retention_ms, self.retention_bytes
        local_ms, local_bytes = self.local_retention_ms, self.local_retention_bytes
        return (
            self.retention_ms if local_ms == _AS_TOTAL else local_ms,
            self.retention_bytes if local_bytes == _AS_TOTAL else local_bytes,
        )

    @property
    def effective_copy_lag(self) -> tuple[int, int]:
        """The age and the newer bytes at which a segment is copied; 0: at once, −1: this does not count."""
        local_ms, local_bytes = self.effective_local_retention
        return (
            local_ms if self.remote_copy_lag_ms < 0 else self.remote_copy_lag_ms,
            local_bytes if self.remote_copy_lag_bytes < 0 else self.remote_copy_lag_bytes,
        )

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


TOPIC_CONFIGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        each.dotted: each
        for each in (item.metadata["setting"].named(item.name) for item in dataclasses.fields(LogConfig))
    }
)
"""Every topic config by its dotted name, in the order of the names."""
