"""The options of the data source, with the names of Spark's Kafka connector; all are checked before a query runs.

Names are case-insensitive, as everywhere in Spark. Options that begin with ``kafka.`` go to the client (librdkafka);
those of Kafka's Java client are taken where there is something like them. ``kafka.bootstrap.servers`` is required.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from purgatorio.pipeline.java_settings import SettingRefused, for_librdkafka

EARLIEST: Final = -2
LATEST: Final = -1
"""Special offsets, in the option's JSON as in the protocol."""

NO_TOPIC: Final = ""
"""A name that no topic can have; a checkpoint has the topics' ids under it, beside their offsets."""

TopicOffsets = Mapping[str, Mapping[int, int]]
"""Offsets, or milliseconds since 1970, by topic and partition."""

_MOST: Final = 2**63 - 1
"""The largest int64."""
_CLIENT_PREFIX: Final = "kafka."
_SUBSCRIPTIONS: Final = ("subscribe", "subscribepattern", "assign")
_COMMON: Final = {
    "subscribe": "subscribe",
    "subscribepattern": "subscribePattern",
    "assign": "assign",
    "startingoffsets": "startingOffsets",
    "startingtimestamp": "startingTimestamp",
    "startingoffsetsbytimestamp": "startingOffsetsByTimestamp",
    "startingoffsetsbytimestampstrategy": "startingOffsetsByTimestampStrategy",
    "minpartitions": "minPartitions",
    "maxrecordsperpartition": "maxRecordsPerPartition",
    "failondataloss": "failOnDataLoss",
    "includeheaders": "includeHeaders",
}
_BATCH: Final = {
    "endingoffsets": "endingOffsets",
    "endingtimestamp": "endingTimestamp",
    "endingoffsetsbytimestamp": "endingOffsetsByTimestamp",
}
_STREAM: Final = {
    "maxoffsetspertrigger": "maxOffsetsPerTrigger",
    "minoffsetspertrigger": "minOffsetsPerTrigger",
    "maxtriggerdelay": "maxTriggerDelay",
}
_WRITE: Final = {"topic": "topic", "includeheaders": "includeHeaders"}
_SPARKS_OWN: Final = ("path", "checkpointlocation")
"""Spark's own options, which it passes on to data sources."""


_WITHOUT_USE: Final = {
    "groupIdPrefix": "consumers are assigned partitions, and join no group",
    "fetchOffset.numRetries": "offsets are asked for again for 20 s, any number of times",
    "fetchOffset.retryIntervalMs": "offsets are asked for again for 20 s, every tenth of a second",
    "kafkaConsumer.pollTimeoutMs": "a task fails when nothing comes for 20 s",
}
"""Options of Spark's Kafka connector that have nothing to do here, with the reason."""
_REFUSED: Final = {name.lower(): f"{name} has no use here, leave it out: {why}" for name, why in _WITHOUT_USE.items()}


class Refused(Exception):
    """A job cannot be run as it is written, or where it is run; the message is for its author."""


class OptionError(Refused, ValueError):
    """An option is unknown, missing or invalid; the message names it."""


@dataclass(frozen=True, slots=True)
class Position:
    """A starting or ending position.

    Attributes:
        default: EARLIEST or LATEST, for partitions without a position of their own.
        offsets: by topic and partition; EARLIEST and LATEST are allowed.
        timestamp_ms: for all partitions, in milliseconds since 1970, or None.
        timestamps_ms: by topic and partition, in milliseconds since 1970.
        needs_records: whether a partition without a record of that time or later is an error; else its end is taken.
    """

    default: int
    offsets: TopicOffsets = field(default_factory=dict)
    timestamp_ms: int | None = None
    timestamps_ms: TopicOffsets = field(default_factory=dict)
    needs_records: bool = False

    @property
    def moves(self) -> bool:
        """Whether it may resolve to other offsets at another time, even if no record is deleted."""
        named = [offset for partitions in self.offsets.values() for offset in partitions.values()]
        return LATEST in (self.default, *named) or self.timestamp_ms is not None or bool(self.timestamps_ms)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options of a reader.

    Attributes:
        topics, pattern, partitions: exactly one of them is set: topic names, a regular expression that whole names
            match, or partition numbers by topic.
        ending: the ending position; None for a stream.
        max_offsets_per_trigger, min_offsets_per_trigger: limits of a batch; None for no limit.
        max_trigger_delay_ms: how long a stream waits for `min_offsets_per_trigger` records before it reads fewer.
        min_partitions: the least number of tasks; None for as many as `max_records_per_partition` needs.
        max_records_per_partition: the limit of records per task; None for the default.
        client: settings of the client.
    """

    client: Mapping[str, str]
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    starting: Position = field(default_factory=lambda: Position(EARLIEST))
    ending: Position | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The checked options of a writer. If `topic` is None, each row names its topic."""

    client: Mapping[str, str]
    topic: str | None = None


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Check the options of a reader.

    Raises:
        OptionError: an option is unknown, missing or invalid.
    """
    given, client = _split(
        options, {**_COMMON, **(_STREAM if streaming else _BATCH)}, "a stream" if streaming else "a batch"
    )
    subscriptions = [name for name in _SUBSCRIPTIONS if name in given]
    if len(subscriptions) != 1:
        raise OptionError("exactly one of subscribe, subscribePattern and assign says what is read")
    starting = _position(given, "starting", LATEST if streaming else EARLIEST)
    if not streaming and (starting.default == LATEST and "startingoffsets" in given):
        raise OptionError("startingOffsets cannot be latest in a batch, which would read nothing")
    ending = None if streaming else _position(given, "ending", LATEST)
    if ending is not None and ending.default == EARLIEST:
        raise OptionError("endingOffsets cannot be earliest, which would read nothing")
    least, most = _whole_number(given, "minOffsetsPerTrigger"), _whole_number(given, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger is {least}, which is more than maxOffsetsPerTrigger, {most}")
    return ReadOptions(
        client=client,
        topics=_names(given["subscribe"]) if "subscribe" in given else (),
        pattern=_pattern(given["subscribepattern"]) if "subscribepattern" in given else None,
        partitions=_assignment(given["assign"]) if "assign" in given else {},
        starting=starting,
        ending=ending,
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=_duration_ms(given, "maxTriggerDelay", "15m"),
        min_partitions=_whole_number(given, "minPartitions"),
        max_records_per_partition=_whole_number(given, "maxRecordsPerPartition"),
        fail_on_data_loss=_boolean(given, "failOnDataLoss", True),
        include_headers=_boolean(given, "includeHeaders", False),
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Check the options of a writer.

    Raises:
        OptionError: an option is unknown, missing or invalid.
    """
    given, client = _split(options, _WRITE, "a writer")
    topic = given.get("topic")
    if topic == "":
        raise OptionError("topic is empty")
    return WriteOptions(client, topic)


def _split(options: Mapping[str, str], known: Mapping[str, str], owner: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options by their lower-case names, and the client's settings."""
    given: dict[str, str] = {}
    client: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower.startswith(_CLIENT_PREFIX):
            client[lower.removeprefix(_CLIENT_PREFIX)] = value
        elif lower in known:
            given[lower] = value
        elif lower in _REFUSED:
            raise OptionError(_REFUSED[lower])  # Spark hands on names in lower case
        elif lower not in _SPARKS_OWN:
            near = difflib.get_close_matches(lower, [*known, "kafka.bootstrap.servers"], n=1)
            hint = f"; did you mean {known.get(near[0], near[0])}?" if near else ""
            raise OptionError(f"{owner} has no option {name}{hint}")
    if not client.get("bootstrap.servers", "").strip():
        raise OptionError("kafka.bootstrap.servers is required: host:port of brokers, with commas between")
    try:
        return given, for_librdkafka(client)
    except SettingRefused as refused:
        raise OptionError(str(refused)) from None


def _position(given: Mapping[str, str], which: str, default: int) -> Position:
    """Return the starting or ending position; it may be given in one way only."""
    ways = [name for name in (f"{which}offsets", f"{which}timestamp", f"{which}offsetsbytimestamp") if name in given]
    shown = {f"{which}offsets": f"{which}Offsets", f"{which}timestamp": f"{which}Timestamp"}
    if len(ways) > 1:
        said = " and ".join(shown.get(way, f"{which}OffsetsByTimestamp") for way in ways)
        raise OptionError(f"{said} contradict each other: give one")
    if not ways:
        return Position(default)
    value = given[ways[0]].strip()
    strict = _is_strict(given) if which == "starting" else False
    if ways[0].endswith("bytimestamp"):
        times = _by_partition(f"{which}OffsetsByTimestamp", value, least=0)
        return Position(default, timestamps_ms=times, needs_records=strict)
    if ways[0].endswith("timestamp"):
        return Position(default, timestamp_ms=_number(f"{which}Timestamp", value, least=0), needs_records=strict)
    if value.lower() in ("earliest", "latest"):
        return Position(EARLIEST if value.lower() == "earliest" else LATEST)
    return Position(default, offsets=_by_partition(f"{which}Offsets", value, least=EARLIEST))


def _is_strict(given: Mapping[str, str]) -> bool:
    """Return whether a start at a time is refused where no record is as late; Spark's own default is that it is."""
    strategy = given.get("startingoffsetsbytimestampstrategy", "latest").strip().lower()
    if strategy not in ("error", "latest"):
        raise OptionError(f"startingOffsetsByTimestampStrategy must be error or latest, not {strategy!r}")
    return strategy == "error"


def _by_partition(name: str, text: str, *, least: int) -> TopicOffsets:
    """Parse numbers by topic and partition, such as ``{"orders": {"0": 23, "1": -2}}``."""
    parsed = _json_object(name, text)
    parsed.pop(NO_TOPIC, None)  # the topic ids, in offsets copied from a query's progress
    offsets: dict[str, dict[int, int]] = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, dict):
            raise OptionError(f'{name}: {topic} must have an object such as {{"0": 23}}, not {partitions!r}')
        offsets[topic] = {}
        for partition, number in partitions.items():
            if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= _MOST:
                raise OptionError(f"{name}: {topic}-{partition} must have a whole number from {least}, not {number!r}")
            offsets[topic][_number(f"{name}: a partition of {topic}", partition, least=0)] = number
    return offsets


def _assignment(text: str) -> dict[str, tuple[int, ...]]:
    """Parse partition numbers by topic, such as ``{"orders": [0, 1]}``."""
    parsed = _json_object("assign", text)
    for topic, partitions in parsed.items():
        right = isinstance(partitions, list) and all(
            isinstance(p, int) and not isinstance(p, bool) and p >= 0 for p in partitions
        )
        if not right or not partitions:
            raise OptionError(f"assign: {topic} must have a list of partition numbers, not {partitions!r}")
    if not parsed:
        raise OptionError("assign names no topic")
    return {topic: tuple(sorted(set(partitions))) for topic, partitions in parsed.items()}


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        words = "neither earliest, latest nor JSON" if name in ("startingOffsets", "endingOffsets") else "no JSON"
        raise OptionError(f"{name} is {words}: {error}") from error
    if not isinstance(parsed, dict):
        raise OptionError(f"{name} must be a JSON object by topic, not {text}")
    return parsed


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise OptionError("subscribe names no topic")
    return names


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"subscribePattern is no regular expression: {error}") from error
    return text


def _whole_number(given: Mapping[str, str], name: str) -> int | None:
    value = given.get(name.lower())
    return None if value is None else _number(name, value, least=1)


def _number(name: str, text: str, *, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= _MOST:
        raise OptionError(f"{name} must be a whole number from {least}, not {text!r}")
    return number


def _duration_ms(given: Mapping[str, str], name: str, default: str) -> int:
    """Parse a duration such as ``500ms``, ``30s``, ``15m`` or ``2h``."""
    value = given.get(name.lower(), default).strip().lower()
    found = re.fullmatch(r"(\d+)\s*(ms|s|m|min|h)", value)
    if found is None:
        raise OptionError(f"{name} must be a time such as 30s or 15m, not {value!r}")
    return int(found[1]) * {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}[found[2]]


def _boolean(given: Mapping[str, str], name: str, default: bool) -> bool:
    value = given.get(name.lower())
    if value is None:
        return default
    if value.strip().lower() not in ("true", "false"):
        raise OptionError(f"{name} must be true or false, not {value!r}")
    return value.strip().lower() == "true"
