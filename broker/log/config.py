"""The topic configs that a log honours, by Kafka's names, with Kafka's defaults.

Each is one field of `LogConfig`; `TOPIC_CONFIGS` describes them for DescribeConfigs and is made from the fields, so the
two cannot drift. Some of Kafka's configs speak of files and disks. They are accepted, so that scripts that set them
work, but have no effect, and their doc says so.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from purgatorio.protocol.compression import Compression
from purgatorio.protocol.records import TimestampType

MAX_LONG: Final = 2**63 - 1
_MAX_INT: Final = 2**31 - 1
_HOUR_MS: Final = 60 * 60 * 1000
_DAY_MS: Final = 24 * _HOUR_MS
_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
_COMPRESSION_TYPES: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")
_CLEANUP_POLICIES: Final = ("compact", "delete")
_NO_EFFECT: Final = "Accepted, without effect: logs live in memory."


class ConfigType(enum.IntEnum):
    """The type codes of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class InvalidConfig(ValueError):
    """A config that cannot be set.

    Attributes:
        name: its dotted name.
        why: what is wrong, without the name.
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One topic config.

    Attributes:
        name: dotted, as Kafka's.
        type: as DescribeConfigs tells it.
        default: Kafka's default, as text.
        doc: what it does.
        parse: from text to the value of the field; raises ValueError that says why not.
    """

    name: str
    type: ConfigType
    default: str
    doc: str
    parse: Callable[[str], Any]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _config(name: str, kind: ConfigType, default: Any, doc: str, parse: Callable[[str], Any]) -> Any:
    return field(default=default, metadata={"key": ConfigKey(name, kind, _text(default), doc, parse)})


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"'{text}' is not a whole number") from None
        if not low <= value <= high:
            raise ValueError(f"{value} is not between {low} and {high}")
        return value

    return parse


def _int(name: str, default: int, doc: str, low: int) -> Any:
    return _config(name, ConfigType.INT, default, doc, _integer(low, _MAX_INT))


def _long(name: str, default: int, doc: str, low: int) -> Any:
    return _config(name, ConfigType.LONG, default, doc, _integer(low, MAX_LONG))


def _boolean(name: str, default: bool, doc: str) -> Any:
    def parse(text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"'{text}' is neither true nor false")
        return text.lower() == "true"

    return _config(name, ConfigType.BOOLEAN, default, doc, parse)


def _choice(name: str, default: str, doc: str, choices: tuple[str, ...]) -> Any:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"'{text}' is not one of {', '.join(choices)}")
        return text

    return _config(name, ConfigType.STRING, default, doc, parse)


def _ratio(name: str, default: float, doc: str) -> Any:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"'{text}' is not a number") from None
        if not 0 <= value <= 1:
            raise ValueError(f"{text} is not between 0 and 1")
        return value

    return _config(name, ConfigType.DOUBLE, default, doc, parse)


def _choices(name: str, default: tuple[str, ...], doc: str, choices: tuple[str, ...]) -> Any:
    def parse(text: str) -> tuple[str, ...]:
        items = tuple(dict.fromkeys(item.strip() for item in text.split(",") if item.strip()))
        unknown = [item for item in items if item not in choices]
        if unknown:
            raise ValueError(f"'{unknown[0]}' is not one of {', '.join(choices)}")
        return items

    return _config(name, ConfigType.LIST, default, doc, parse)


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What is configured for the logs of a topic. Sizes are bytes, times milliseconds, −1 is "no limit"."""

    cleanup_policy: tuple[str, ...] = _choices(
        "cleanup.policy",
        ("delete",),
        "What happens to old records: 'delete' by time and size, 'compact' to the newest of each key, both or neither.",
        _CLEANUP_POLICIES,
    )
    compression_type: str = _choice(
        "compression.type",
        "producer",
        "How batches are stored: as the producer compressed them ('producer'), or compressed anew by the broker.",
        _COMPRESSION_TYPES,
    )
    delete_retention_ms: int = _long(
        "delete.retention.ms", _DAY_MS, "How long compaction keeps tombstones, so that readers can see them.", 0
    )
    file_delete_delay_ms: int = _long("file.delete.delay.ms", 60_000, _NO_EFFECT, 0)
    flush_messages: int = _long("flush.messages", MAX_LONG, _NO_EFFECT, 1)
    flush_ms: int = _long("flush.ms", MAX_LONG, _NO_EFFECT, 0)
    index_interval_bytes: int = _int("index.interval.bytes", 4096, _NO_EFFECT, 0)
    max_compaction_lag_ms: int = _long(
        "max.compaction.lag.ms", MAX_LONG, "Compact at the latest when a record is this old, however few there are.", 1
    )
    max_message_bytes: int = _int("max.message.bytes", 1_048_588, "The largest batch, as it is stored.", 0)
    message_timestamp_after_max_ms: int = _long(
        "message.timestamp.after.max.ms",
        _HOUR_MS,
        "How far a record's timestamp may be ahead of the broker's clock.",
        0,
    )
    message_timestamp_before_max_ms: int = _long(
        "message.timestamp.before.max.ms",
        MAX_LONG,
        "How far a record's timestamp may be behind the broker's clock.",
        0,
    )
    message_timestamp_type: str = _choice(
        "message.timestamp.type",
        "CreateTime",
        "Whose time records carry: the producer's (CreateTime) or the broker's (LogAppendTime).",
        _TIMESTAMP_TYPES,
    )
    min_cleanable_dirty_ratio: float = _ratio(
        "min.cleanable.dirty.ratio", 0.5, "Compact when at least this part of the compactable log is new."
    )
    min_compaction_lag_ms: int = _long(
        "min.compaction.lag.ms", 0, "How long records stay in the log uncompacted at least.", 0
    )
    min_insync_replicas: int = _int(
        "min.insync.replicas", 1, "How many replicas must be in sync for acks=all to be accepted.", 1
    )
    preallocate: bool = _boolean("preallocate", False, _NO_EFFECT)
    retention_bytes: int = _long(
        "retention.bytes", -1, "Past this size of a partition its oldest segments are deleted; -1: no limit.", -1
    )
    retention_ms: int = _long(
        "retention.ms", 7 * _DAY_MS, "Segments are deleted when their newest record is this old; -1: never.", -1
    )
    segment_bytes: int = _int(
        "segment.bytes",
        1024 * 1024 * 1024,
        "Size of a segment: deletion and compaction work on whole segments, and not on the newest.",
        14,
    )
    segment_index_bytes: int = _int("segment.index.bytes", 10 * 1024 * 1024, _NO_EFFECT, 4)
    segment_jitter_ms: int = _long("segment.jitter.ms", 0, _NO_EFFECT, 0)
    segment_ms: int = _long(
        "segment.ms", 7 * _DAY_MS, "A new segment starts after this time even if the last is not full.", 1
    )
    unclean_leader_election_enable: bool = _boolean(
        "unclean.leader.election.enable",
        False,
        "Whether a replica that may lack acknowledged records can become leader when no other is left.",
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
                values[_field_name(name)] = key.parse(text.strip())
            except ValueError as error:
                raise InvalidConfig(name, str(error)) from error
        config = dataclasses.replace(defaults if defaults is not None else cls(), **values)
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            why = f"{config.min_compaction_lag_ms} is more than max.compaction.lag.ms, {config.max_compaction_lag_ms}"
            raise InvalidConfig("min.compaction.lag.ms", why)
        return config

    def to_strings(self) -> dict[str, str]:
        """All values by their dotted names, as DescribeConfigs gives them."""
        return {name: _text(getattr(self, _field_name(name))) for name in TOPIC_CONFIGS}

    @property
    def compact(self) -> bool:
        """Whether the log is compacted."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether the log's oldest segments are deleted by time and size."""
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
        return TimestampType(_TIMESTAMP_TYPES.index(self.message_timestamp_type))


def _field_name(name: str) -> str:
    return name.replace(".", "_")


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, TOPIC_CONFIGS, n=1)
    return f"there is no such topic config{f'; is {near[0]} meant?' if near else ''}"


TOPIC_CONFIGS: Final[Mapping[str, ConfigKey]] = MappingProxyType(
    {key.name: key for key in (item.metadata["key"] for item in dataclasses.fields(LogConfig))}
)
"""Every topic config by its dotted name, in the order of the names."""
