"""Where a stream reads next: what Spark asks a source between two batches, worked out without Spark.

Spark keeps the end of each batch in the query's checkpoint before it runs the batch; the start of the very first one it
does not keep but asks for again after a failure. A start of ``latest`` would then be a later one, and the records in
between would be lost. So a position that moves is not resolved as a start: the first batch is an empty one, from "not
resolved yet" to the offsets that it was resolved to, and these are in the checkpoint from then on.
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
"""Before the first record of a stream whose start moves. No offsets look so: theirs are objects by topic."""

IDLE_SECONDS: Final = 0.25
"""How long nothing is asked after nothing was new: Spark asks every 10 ms by default."""
DISCOVERY_SECONDS: Final = 2.0
"""How long partitions are believed to be all; new ones are found after this time."""


class Topics(Protocol):
    """What a stream asks of the brokers (`purgatorio.pipeline.client.Metadata`)."""

    topic_ids: dict[str, str]
    """The ids of the topics whose partitions were asked for last, by name; without those that are not known."""

    def partitions(self, options: ReadOptions) -> list[TopicPartition]:
        """The partitions that the options mean."""

    def earliest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Where they begin."""

    def latest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Where they end."""

    def by_timestamp(
        self, partitions: list[TopicPartition], position: Position, latest: Offsets
    ) -> dict[TopicPartition, int]:
        """The offsets of those whose position is a timestamp."""


class Progress:
    """The positions of one stream.

    Args:
        options: what is read, and how much at once.
        topics: who is asked.
        now_seconds: monotonic time.
    """

    def __init__(self, options: ReadOptions, topics: Topics, now_seconds: Callable[[], float]) -> None:
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
        """Where the topics ended when they were last looked at."""

    def initial(self) -> dict[str, Any]:
        """Where a new query starts. Spark may ask twice, and must hear the same."""
        if self._options.starting.moves:
            return dict(UNRESOLVED)
        if self._initial is None:
            found = self._partitions()
            earliest = self._topics.earliest(found)
            self._initial = self._to_json(resolve(self._options.starting, earliest, self._topics.latest(found), {}))
        return self._initial

    def stop_at_what_there_is(self) -> None:
        """Read no further than the topics go now (Trigger.AvailableNow)."""
        self._target = self._topics.latest(self._partitions())

    def next_end(self, start: Mapping[str, Any], *, at_most_records: int | None, wait_for_more: bool) -> dict[str, Any]:
        """The end of the batch that begins at `start`; `start` itself if there is nothing to read.

        Args:
            at_most_records: about how many records the batch may have; None: any number.
            wait_for_more: whether to read nothing while there are fewer than minOffsetsPerTrigger.

        Raises:
            DataLoss: a topic was made anew, or a partition is gone or ends before `start`; unless failOnDataLoss is
                off: then the new topic is read from its beginning, the others are read, it is read on from its end.
        """
        asked_at, answer = self._idle
        if answer == start and self._now_seconds() < asked_at + IDLE_SECONDS:
            return dict(start)
        latest = self._latest()
        if start == UNRESOLVED:
            return self._to_json(self._resolve_start(latest))
        begin = self._still_the_same(from_json(start), start)
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
        """What a batch reads.

        Raises:
            DataLoss: some of it is not there any more, unless failOnDataLoss is off: then the rest is read.
        """
        if start == UNRESOLVED:
            return []
        known = dict.fromkeys(self._partitions())
        wanted = self._still_the_same(from_json(end), end)
        begin = {tp: offset for tp, offset in from_json(start).items() if not _anew(tp.topic, start, end)}
        there = {tp: offset for tp, offset in wanted.items() if tp in known}
        return ranges_between(
            begin | {tp: 0 for tp in wanted if tp not in known},
            there,
            self._topics.earliest(list(there)),
            fail_on_data_loss=self._options.fail_on_data_loss,
        )

    def _partitions(self) -> list[TopicPartition]:
        if self._now_seconds() >= self._found_until:
            self._found = self._topics.partitions(self._options)
            self._found_until = self._now_seconds() + DISCOVERY_SECONDS
        return self._found

    def _latest(self) -> dict[TopicPartition, int]:
        """Where the topics end, or where this query is to end."""
        latest = dict(self._target) if self._target is not None else self._topics.latest(self._partitions())
        self.reported = to_json(latest, {})
        return latest

    def _resolve_start(self, latest: Offsets) -> dict[TopicPartition, int]:
        found, starting = list(latest), self._options.starting
        times = self._topics.by_timestamp(found, starting, latest)
        start = resolve(starting, self._topics.earliest(found), latest, times)
        if self._target is not None:  # a time may be found behind where the topics ended a moment ago
            self._target = {tp: max(end, start[tp]) for tp, end in self._target.items()}
        return start

    def _to_json(self, offsets: Offsets) -> dict[str, Any]:
        return to_json(offsets, self._topics.topic_ids)

    def _still_the_same(self, offsets: dict[TopicPartition, int], rows: Mapping[str, Any]) -> dict[TopicPartition, int]:
        """The offsets that mean what they meant when `rows` was written, which those of a topic that was made anew do
        not: its records are others.
        """
        now = {NO_TOPIC: self._topics.topic_ids}
        anew = sorted(tp for tp in offsets if _anew(tp.topic, rows, now))
        if anew and self._options.fail_on_data_loss:
            raise DataLoss(
                f"{anew[0].topic} was made anew: what was not read of it before is lost; with failOnDataLoss=false the "
                "new topic is read from its beginning"
            )
        return {tp: offset for tp, offset in offsets.items() if tp not in anew}

    def _check_not_gone(self, begin: Offsets, latest: Offsets) -> None:
        """See that each partition that was read is there, before its position is left out of the checkpoint: without
        one it would be read from its beginning again, should it come back.
        """
        gone = sorted(begin.keys() - latest.keys())
        if gone and self._options.fail_on_data_loss:
            raise DataLoss(f"{gone[0]} is gone; with failOnDataLoss=false the others are read")

    def _check_not_cut(self, begin: Offsets, latest: Offsets) -> None:
        """See that no partition ends before what was read of it."""
        for tp, read_up_to in begin.items():
            if latest.get(tp, read_up_to) < read_up_to and self._options.fail_on_data_loss:
                raise DataLoss(
                    f"{tp} ends at offset {latest[tp]}, though it was read up to {read_up_to}: its topic was made "
                    "anew, or records were lost; with failOnDataLoss=false it is read on from its end"
                )

    def _too_few(self, begin: Offsets, end: Offsets) -> bool:
        least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None:
            return False
        waited_ms = (self._now_seconds() - self._last_batch_at) * 1000
        records = sum(max(0, offset - begin.get(tp, 0)) for tp, offset in end.items())
        return records < least and waited_ms < self._options.max_trigger_delay_ms


def _anew(topic: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a topic has another id, as far as ids are known."""
    old, new = ids_from_json(before).get(topic), ids_from_json(after).get(topic)
    return old is not None and new is not None and old != new
