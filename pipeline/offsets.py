"""Arithmetic on offsets: positions, the ranges of a batch, and their division into tasks; no Spark, no client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from purgatorio.pipeline.options import EARLIEST, LATEST, NO_TOPIC, OptionError, Position, Refused

TASK_RECORDS: Final = 100_000
"""The default number of records per task. A task of this size takes some tenths of a second: far more than the 10 ms in
which its client connects, and little enough to keep all cores busy to the end."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Offsets = Mapping[TopicPartition, int]


class OffsetRange(NamedTuple):
    """The records of a partition from `start` on and before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets; compacted topics have fewer records."""
        return self.end - self.start


class DataLoss(Refused):
    """Records were deleted before they were read."""


def to_json(offsets: Offsets, topic_ids: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return offsets in the format of Spark's checkpoint, in a fixed order, since Spark compares them as strings.

    Args:
        topic_ids: the known ids of topics, by name.
    """
    rows: dict[str, dict[str, Any]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        rows.setdefault(topic, {})[str(partition)] = offset
    ids = {topic: topic_ids[topic] for topic in rows if topic in topic_ids}
    return {NO_TOPIC: ids, **rows} if ids else rows


def ids_from_json(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the topic ids from the output of `to_json`."""
    return dict(rows.get(NO_TOPIC, {}))


def from_json(rows: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """Return the offsets from the output of `to_json`."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in rows.items()
        if topic != NO_TOPIC
        for partition, offset in partitions.items()
    }


def resolve(position: Position, earliest: Offsets, latest: Offsets, by_timestamp: Offsets) -> dict[TopicPartition, int]:
    """Return the offset of each existing partition at a position.

    Args:
        by_timestamp: for partitions whose position is a timestamp, the first offset with that timestamp or a later
            one; the latest offset if there is none.

    Raises:
        OptionError: the position names a partition that does not exist, or an offset after a partition's end.
    """
    named = {
        TopicPartition(topic, partition)
        for given in (position.offsets, position.timestamps_ms)
        for topic, partitions in given.items()
        for partition in partitions
    }
    if unknown := sorted(named - earliest.keys()):
        raise OptionError(f"an offset or time is given for {unknown[0]}, which is not there or not read")
    resolved = {}
    for tp in earliest:
        wanted = position.offsets.get(tp.topic, {}).get(tp.partition, position.default)
        if tp in by_timestamp:  # may be above `latest`, which was looked up earlier
            resolved[tp] = by_timestamp[tp]
            continue
        resolved[tp] = {EARLIEST: earliest[tp], LATEST: latest[tp]}.get(wanted, wanted)
        if resolved[tp] > latest[tp]:
            raise OptionError(f"{tp} ends at offset {latest[tp]}, before the offset {wanted} that is given for it")
    return resolved


def ranges_between(start: Offsets, end: Offsets, earliest: Offsets, *, fail_on_data_loss: bool) -> list[OffsetRange]:
    """Return the ranges to read, in the order of the partitions, without empty ones.

    Raises:
        DataLoss: records between start and end were deleted, or a partition that was read was deleted. Without
            `fail_on_data_loss` the remaining records are read.
    """
    ranges = []
    for tp in sorted(end):
        first, last = start.get(tp, earliest.get(tp, 0)), end[tp]
        oldest = earliest.get(tp, last)
        if first < oldest and first < last:
            if fail_on_data_loss:
                raise DataLoss(
                    f"{tp} begins at offset {oldest}: offsets {first} to {min(oldest, last) - 1} were deleted before "
                    "they were read; with failOnDataLoss=false the rest is read"
                )
            first = oldest
        if first < last:
            ranges.append(OffsetRange(*tp, first, last))
    missing = [tp for tp in sorted(start) if tp not in end]
    if missing and fail_on_data_loss:
        raise DataLoss(f"{missing[0]} is gone; with failOnDataLoss=false the others are read")
    return ranges


def at_most(start: Offsets, end: Offsets, limit: int) -> dict[TopicPartition, int]:
    """Return the end of a batch of about `limit` records, divided between partitions in proportion to their records.

    Each partition with records gives at least one, so that none starves; so the batch may have up to one record per
    partition more than `limit`.
    """
    waiting = {tp: max(0, last - start.get(tp, 0)) for tp, last in end.items()}
    total = sum(waiting.values())
    if total <= limit:
        return dict(end)
    return {tp: start.get(tp, 0) + min(count, -(-count * limit // total)) for tp, count in waiting.items()}


def tasks_of(
    ranges: list[OffsetRange], *, min_tasks: int | None = None, max_records: int | None = None
) -> list[list[OffsetRange]]:
    """Pack ranges into tasks of about the same size; large ranges are split, small ones share a task.

    Args:
        min_tasks: the least number of tasks, however small they get.
        max_records: the limit of records per task; None for TASK_RECORDS.
    """
    total = sum(each.size for each in ranges)
    tasks = max(-(-total // (max_records or TASK_RECORDS)), min_tasks or 0, 1)
    share = -(-total // tasks)
    packed: list[list[OffsetRange]] = []
    room = 0
    for each in ranges:
        start = each.start
        while start < each.end:
            if room == 0:
                packed.append([])
                room = share
            end = min(each.end, start + room)
            packed[-1].append(each._replace(start=start, end=end))
            room -= end - start
            start = end
    return packed
