"""The progress of a stream: the start and end offsets of its batches, computed without Spark.

Spark writes the end of each batch to the query's checkpoint before it runs the batch. The start of the first batch it
does not write, but asks for it again after a failure. A start of ``latest`` would then be resolved to later offsets,
and the records in between would be lost. So a position that moves is not resolved as a start: the first batch is empty,
from "not resolved yet" to the resolved offsets, which are in the checkpoint from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from purgatorio.pipeline.offsets import (
    DataLoss,
    OffsetRange,
    Offsets,
    TopicPartition,
    at_most,
    from_json,
    ids_from_json,
    ranges_between,
    resolve,
    to_json,
)
from purgatorio.pipeline.options import NO_TOPIC, Position, ReadOptions

UNRESOLVED: Final = {"startingOffsets": "not resolved yet"}
"""The start of a stream whose starting position moves; offsets look different, as they are objects by topic."""

IDLE_SECONDS: Final = 0.25
"""The time between two requests to brokers while there is no new record; Spark asks every 10 ms by default."""
DISCOVERY_SECONDS: Final = 2.0
"""The time after which new partitions are looked up."""


class TopicsMetadata(Protocol):
    """The brokers' metadata that a stream needs (`purgatorio.pipeline.client.Metadata`; tests have a fake)."""

    topic_ids: dict[str, str]
    """The known ids of the topics that `partitions` found last, by name."""

    def partitions(self, options: ReadOptions) -> list[TopicPartition]:
        """Return the partitions that the options select."""

    def earliest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the earliest offset of each partition."""

    def latest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the latest offset of each partition."""

    def by_timestamp(
        self, partitions: list[TopicPartition], position: Position, latest: Offsets
    ) -> dict[TopicPartition, int]:
        """Return the offsets of partitions whose position is a timestamp."""


class Progress:
    """The positions of one stream.

    Args:
        options: the options of the reader.
        topics: the brokers' metadata.
        now_seconds: returns monotonic seconds.
    """

    def __init__(self, options: ReadOptions, topics: TopicsMetadata, now_seconds: Callable[[], float]) -> None:
        self._options = options
        self._topics = topics
        self._now_seconds = now_seconds
        self._initial: dict[str, Any] | None = None
        self._target: Offsets | None = None
        self._found: list[TopicPartition] = []
        self._found_until = 0.0
        self._idle: tuple[float, Mapping[str, Any]] = (0.0, {})
        self._last_batch_at = now_seconds()
        self.reported: dict[str, Any] | None = None
        """The topics' latest offsets at the last look-up."""

    def initial(self) -> dict[str, Any]:
        """Return the start of a new query. Spark may ask twice, and must get the same answer."""
        if self._options.starting.moves:
            return dict(UNRESOLVED)
        if self._initial is None:
            found = self._partitions()
            earliest = self._topics.earliest(found)
            self._initial = self._to_json(resolve(self._options.starting, earliest, self._topics.latest(found), {}))
        return self._initial

    def stop_at_present_end(self) -> None:
        """Read no further than the topics' present latest offsets (Trigger.AvailableNow)."""
        self._target = self._topics.latest(self._partitions())

    def next_end(self, start: Mapping[str, Any], *, at_most_records: int | None, wait_for_more: bool) -> dict[str, Any]:
        """Return the end of the batch that begins at `start`; `start` itself if there is nothing to read.

        Args:
            at_most_records: the approximate limit of records in the batch; None for no limit.
            wait_for_more: whether to read nothing while there are fewer records than minOffsetsPerTrigger.

        Raises:
            DataLoss: a topic was deleted and created again, or a partition was deleted, or it ends before `start`.
                Without failOnDataLoss the new topic is read from its beginning, a deleted partition is left out, and
                a partition that ends before `start` is read from its end on.
        """
        asked_at, answer = self._idle
        if answer == start and self._now_seconds() < asked_at + IDLE_SECONDS:
            return dict(start)
        latest = self._latest()
        if start == UNRESOLVED:
            return self._to_json(self._resolve_start(latest))
        begin = self._without_recreated(from_json(start), start)
        new = [tp for tp in latest if tp not in begin]
        if new:
            begin |= self._topics.earliest(new)
        self._check_not_gone(begin, latest)
        self._check_not_cut(begin, latest)
        end = latest if at_most_records is None else at_most(begin, latest, at_most_records)
        answer = dict(start) if wait_for_more and self._too_few(begin, end) else self._to_json(end)
        if answer == start:
            self._idle = (self._now_seconds(), answer)
        else:
            self._last_batch_at = self._now_seconds()
        return answer

    def ranges(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[OffsetRange]:
        """Return the ranges that a batch reads.

        Raises:
            DataLoss: some records of the batch were deleted. Without failOnDataLoss the others are read.
        """
        if start == UNRESOLVED:
            return []
        known = dict.fromkeys(self._partitions())
        wanted = self._without_recreated(from_json(end), end)
        begin = {tp: offset for tp, offset in from_json(start).items() if not _is_recreated(tp.topic, start, end)}
        existing = {tp: offset for tp, offset in wanted.items() if tp in known}
        return ranges_between(
            begin | {tp: 0 for tp in wanted if tp not in known},
            existing,
            self._topics.earliest(list(existing)),
            fail_on_data_loss=self._options.fail_on_data_loss,
        )

    def _partitions(self) -> list[TopicPartition]:
        if self._now_seconds() >= self._found_until:
            self._found = self._topics.partitions(self._options)
            self._found_until = self._now_seconds() + DISCOVERY_SECONDS
        return self._found

    def _latest(self) -> dict[TopicPartition, int]:
        """Return the topics' latest offsets, or the offsets at which this query ends."""
        latest = dict(self._target) if self._target is not None else self._topics.latest(self._partitions())
        self.reported = to_json(latest, {})
        return latest

    def _resolve_start(self, latest: Offsets) -> dict[TopicPartition, int]:
        found, starting = list(latest), self._options.starting
        times = self._topics.by_timestamp(found, starting, latest)
        start = resolve(starting, self._topics.earliest(found), latest, times)
        if self._target is not None:  # a timestamp may be found in records that came after `_target` was set
            self._target = {tp: max(end, start[tp]) for tp, end in self._target.items()}
        return start

    def _to_json(self, offsets: Offsets) -> dict[str, Any]:
        return to_json(offsets, self._topics.topic_ids)

    def _without_recreated(
        self, offsets: dict[TopicPartition, int], rows: Mapping[str, Any]
    ) -> dict[TopicPartition, int]:
        """Return the offsets without those of topics that were deleted and created again since `rows` was written."""
        now = {NO_TOPIC: self._topics.topic_ids}
        recreated = sorted(tp for tp in offsets if _is_recreated(tp.topic, rows, now))
        if recreated and self._options.fail_on_data_loss:
            raise DataLoss(
                f"{recreated[0].topic} was deleted and created again: its unread records are lost; with "
                "failOnDataLoss=false the new topic is read from its beginning"
            )
        return {tp: offset for tp, offset in offsets.items() if tp not in recreated}

    def _check_not_gone(self, begin: Offsets, latest: Offsets) -> None:
        """Check that all partitions that were read still exist.

        The next checkpoint would leave out the position of a missing one, and a partition without a position is read
        from its beginning if it comes back.
        """
        missing = sorted(begin.keys() - latest.keys())
        if missing and self._options.fail_on_data_loss:
            raise DataLoss(f"{missing[0]} is gone; with failOnDataLoss=false the others are read")

    def _check_not_cut(self, begin: Offsets, latest: Offsets) -> None:
        """Check that no partition ends before the offset up to which it was read."""
        for tp, read_up_to in begin.items():
            if latest.get(tp, read_up_to) < read_up_to and self._options.fail_on_data_loss:
                raise DataLoss(
                    f"{tp} ends at offset {latest[tp]}, though it was read up to {read_up_to}: its topic was created "
                    "again, or records were lost; with failOnDataLoss=false it is read on from its end"
                )

    def _too_few(self, begin: Offsets, end: Offsets) -> bool:
        least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None:
            return False
        waited_ms = (self._now_seconds() - self._last_batch_at) * 1000
        records = sum(max(0, offset - begin.get(tp, 0)) for tp, offset in end.items())
        return records < least and waited_ms < self._options.max_trigger_delay_ms


def _is_recreated(topic: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a topic's id has changed; False if one of the ids is not known."""
    old, new = ids_from_json(before).get(topic), ids_from_json(after).get(topic)
    return old is not None and new is not None and old != new
