"""The checks of histories, with the names of Jepsen's Kafka workload; `CHECKS` has the meaning of each.

The checks use only the clients' view in the history. Behaviour that a cluster does not rule out is no anomaly:

* A write that only its leader has acknowledged (acks=1), or no broker (acks=0), may be lost, and its offset may be
  given to another value. Its offset is known only from polls.
* A response without an offset, as to a duplicate after a lost response, confirms the value but not its offset.
* An unclean election may lose records. The history between two unclean elections is an era. A value counts for an
  era's log only if it was sent, and acknowledged or polled, in that era.

The checks assume that no record is deleted (by retention, compaction or DeleteRecords) while the history is recorded.
The cost is O(n log n) in events and polled records.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from purgatorio.broker.simulation.history import (
    Acked,
    Assigned,
    Drained,
    Event,
    Failed,
    FencedAnswer,
    History,
    Polled,
    Sent,
    UncleanElection,
)

ALL_REPLICAS: Final = -1
NO_ANSWER: Final = 0


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A violation of the cluster's guarantees."""

    name: str
    partition: str
    message: str

    def __str__(self) -> str:
        return f"{self.name} {self.partition}: {self.message}"


class _Sighting(NamedTuple):
    """A poll of a value, and the era of the log that it came from (None if that is not known)."""

    offset: int
    value: int
    poll: Polled
    era: int | None

    def __str__(self) -> str:
        return f"{self.value} at offset {self.offset} by {self.poll.consumer} at {self.poll.time_ms} ms"


class _Jump(NamedTuple):
    """A poll that skipped offsets within one assignment: it did not continue at `next_offset`."""

    next_offset: int
    offset: int
    poll: Polled
    era: int


@dataclass(slots=True)
class _Reading:
    """A consumer's progress on one assignment: it has read from `start` to `last` (None if nothing yet)."""

    start: int
    last: int | None = None


@dataclass(slots=True)
class _Era:
    """The known content of a partition's log between two unclean elections.

    Attributes:
        at: by offset, the value that was first polled there.
        rivals: by offset, if several values were polled there, all of them by value.
        read: the ranges that consumers have read, as first and last offset.
        acked: the acknowledgements of values that were sent in this era.
    """

    at: dict[int, _Sighting] = field(default_factory=dict)
    rivals: dict[int, dict[int, _Sighting]] = field(default_factory=dict)
    read: list[tuple[int, int]] = field(default_factory=list)
    acked: list[Acked] = field(default_factory=list)

    def promised(self) -> Iterator[Acked]:
        """Iterate over the acknowledgements by all in-sync replicas."""
        return (ack for ack in self.acked if ack.acks == ALL_REPLICAS)

    def read_ranges(self) -> tuple[list[int], list[int]]:
        """Return the first and last offsets of the ranges that were read, ascending and merged."""
        firsts: list[int] = []
        lasts: list[int] = []
        for first, last in sorted(self.read):
            if lasts and first <= lasts[-1] + 1:
                lasts[-1] = max(last, lasts[-1])
            else:
                firsts.append(first)
                lasts.append(last)
        return firsts, lasts


class _Partition:
    """The events of one partition, indexed for the checks in one pass.

    Attributes:
        sent: by value, its send and the era of that.
        seen: by value, its first poll.
        moved: by value, if it was polled at several offsets, all of them.
        backward: polls that went back within their assignment, each with the previous offset and its own.
        forward: polls that skipped offsets.
        owed: the acknowledgements of values that the final reader has to poll.
        final: the values that the final reader has polled.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.eras = [_Era()]
        self.sent: dict[int, tuple[Sent, int]] = {}
        self.seen: dict[int, _Sighting] = {}
        self.moved: dict[int, dict[int, _Sighting]] = {}
        self.failed: list[Failed] = []
        self.backward: list[tuple[int, int, Polled]] = []
        self.forward: list[_Jump] = []
        self.precommitted: list[tuple[int, Polled]] = []
        self.fenced: list[FencedAnswer] = []
        self.owed: list[Acked] = []
        self.final: set[int] = set()
        self.drained: Drained | None = None
        self._final_read_began = False
        self._readings: dict[str, _Reading] = {}

    def take(self, event: Event) -> None:
        """Add one event of this partition."""
        if isinstance(event, Polled):
            self._take_poll(event)
        elif isinstance(event, Sent):
            self.sent[event.value] = event, len(self.eras) - 1
        elif isinstance(event, Acked):
            self._take_ack(event)
        elif isinstance(event, Failed):
            self.failed.append(event)
        elif isinstance(event, Assigned):
            self._end_reading(event.consumer)
            if event.offset >= 0:
                self._readings[event.consumer] = _Reading(event.offset)
        elif isinstance(event, Drained):
            self.drained, self._final_read_began = event, True
        elif isinstance(event, FencedAnswer):
            self.fenced.append(event)
        elif isinstance(event, UncleanElection):
            self._begin_era()

    def end(self) -> None:
        """End all assignments, at the end of the history or of an era."""
        for consumer in list(self._readings):
            self._end_reading(consumer)

    def _begin_era(self) -> None:
        self.end()
        self.owed.clear()
        self.eras.append(_Era())

    def _era_of(self, value: int) -> int | None:
        """Return the era of a value that is acknowledged or polled now; None if it may be an earlier one."""
        era = len(self.eras) - 1
        sent = self.sent.get(value)
        return era if sent is None or sent[1] == era else None

    def _take_ack(self, ack: Acked) -> None:
        if self._era_of(ack.value) is None:
            return
        self.eras[-1].acked.append(ack)
        # A value that is acknowledged during the final read may lie behind that read's end offset.
        if ack.acks == ALL_REPLICAS and not self._final_read_began:
            self.owed.append(ack)

    def _take_poll(self, poll: Polled) -> None:
        self._final_read_began |= poll.final
        highest = -1
        for offset, value in poll.records:
            highest = max(highest, offset)
            if poll.final:
                self.final.add(value)
            era = self._era_of(value)
            self._sight(offset, value, poll, era)
            if era is None:
                # The era is not known, so neither is the consumer's progress in this era's log.
                self._end_reading(poll.consumer)
            else:
                self._read_on(offset, poll, era)
        if 0 <= poll.high_watermark <= highest:
            self.precommitted.append((highest, poll))

    def _sight(self, offset: int, value: int, poll: Polled, era: int | None) -> None:
        first = self.seen.get(value)
        if first is not None and first.offset == offset:
            sighting = first
        else:
            sighting = _Sighting(offset, value, poll, era)
            if first is None:
                self.seen[value] = sighting
            elif era is not None and first.era == era:
                self.moved.setdefault(value, {first.offset: first}).setdefault(offset, sighting)
        if era is not None:
            there = self.eras[era].at.setdefault(offset, sighting)
            if there.value != value:
                self.eras[era].rivals.setdefault(offset, {there.value: there}).setdefault(value, sighting)

    def _read_on(self, offset: int, poll: Polled, era: int) -> None:
        reading = self._readings.get(poll.consumer)
        if reading is not None:
            next_offset = reading.start if reading.last is None else reading.last + 1
            if offset > next_offset:
                self.forward.append(_Jump(next_offset, offset, poll, era))
            elif offset < next_offset:
                if reading.last is not None:
                    self.backward.append((reading.last, offset, poll))
                self._end_reading(poll.consumer)
                reading = None
        if reading is None:
            reading = self._readings[poll.consumer] = _Reading(offset)
        reading.last = offset

    def _end_reading(self, consumer: str) -> None:
        reading = self._readings.pop(consumer, None)
        if reading is not None and reading.last is not None:
            self.eras[-1].read.append((reading.start, reading.last))


def _gather(history: History) -> list[_Partition]:
    """Index the history by partition, in the order of their first events."""
    partitions: dict[str, _Partition] = {}
    for event in history:
        name: str | None = getattr(event, "partition", None)
        if name is not None:
            partition = partitions.get(name)
            if partition is None:
                partition = partitions[name] = _Partition(name)
            partition.take(event)
    for partition in partitions.values():
        partition.end()
    return list(partitions.values())


def _acked(ack: Acked) -> str:
    where = f"at offset {ack.offset}" if ack.offset >= 0 else "without an offset"
    return f"{ack.value} of {ack.producer} was acknowledged {where} at {ack.time_ms} ms"


def lost_write(partition: _Partition) -> Iterator[str]:
    """An acknowledged value (acks=-1) is in no poll, though a consumer has read on past its offset."""
    for era in partition.eras:
        firsts, lasts = era.read_ranges()
        for ack in era.promised():
            nth = bisect_right(firsts, ack.offset) - 1
            if ack.value not in partition.seen and nth >= 0 and ack.offset <= lasts[nth]:
                yield f"{_acked(ack)}, and was never polled, though offsets {firsts[nth]} to {lasts[nth]} were read"


def unseen(partition: _Partition) -> Iterator[str]:
    """An acknowledged value (acks=-1) was missing in the final read, after all faults were healed."""
    end = partition.drained
    if end is None:
        return
    for ack in partition.owed:
        if ack.value not in partition.final:
            once = f"; it was polled once, {seen}" if (seen := partition.seen.get(ack.value)) else ""
            yield f"{_acked(ack)}, and is not among offsets {end.start_offset} to {end.end_offset} in the end{once}"


def g1a(partition: _Partition) -> Iterator[str]:
    """A value whose send has certainly failed was polled."""
    for failed in partition.failed:
        seen = partition.seen.get(failed.value)
        if seen is not None:
            told = f"{failed.value} of {failed.producer} failed at {failed.time_ms} ms ({failed.reason})"
            yield f"{told}, and was polled: {seen}"


def phantom(partition: _Partition) -> Iterator[str]:
    """A value was polled that no producer sent to that partition."""
    for value, seen in partition.seen.items():
        if value not in partition.sent:
            yield f"no producer sent the polled value: {seen}"


def inconsistent_offsets(partition: _Partition) -> Iterator[str]:
    """Two values were polled or acknowledged (acks=-1) at one offset."""
    for era in partition.eras:
        for offset, rivals in era.rivals.items():
            yield f"offset {offset} held several values: {', '.join(map(str, rivals.values()))}"
        acked: dict[int, Acked] = {}
        for ack in era.promised():
            if ack.offset < 0:
                continue
            seen = era.at.get(ack.offset)
            if seen is not None and seen.value != ack.value and ack.value not in era.rivals.get(ack.offset, {}):
                yield f"{_acked(ack)}; polled there was {seen}"
            other = acked.setdefault(ack.offset, ack)
            if other.value != ack.value:
                yield f"{_acked(ack)}, and {_acked(other)}"


def duplicate(partition: _Partition) -> Iterator[str]:
    """One value of an idempotent producer was polled or acknowledged (acks=-1) at two offsets."""
    for sightings in partition.moved.values():
        yield f"a value was polled more than once: {', '.join(map(str, sightings.values()))}"
    for number, era in enumerate(partition.eras):
        for ack in era.promised():
            seen = partition.seen.get(ack.value)
            if ack.offset < 0 or seen is None or seen.era != number:
                continue
            if ack.offset != seen.offset and ack.offset not in partition.moved.get(ack.value, {}):
                yield f"{_acked(ack)}, and was polled elsewhere: {seen}"


def _place(partition: _Partition, ack: Acked, era: int) -> int | None:
    """Return the offset of an acknowledged value, or None if it is not known."""
    if ack.acks == ALL_REPLICAS and ack.offset >= 0:
        return ack.offset
    seen = partition.seen.get(ack.value)
    return seen.offset if seen is not None and seen.era == era else None


def nonmonotonic_send(partition: _Partition) -> Iterator[str]:
    """An idempotent producer's acknowledged value has a lower offset than a value that it sent before."""
    for number, era in enumerate(partition.eras):
        rows: dict[str, list[tuple[int, int, Acked]]] = {}
        for ack in era.acked:
            sent, place = partition.sent.get(ack.value), _place(partition, ack, number)
            # With acks=0 there is no response, so an earlier value may still be in flight to a former leader.
            if sent is not None and place is not None and ack.acks != NO_ANSWER:
                rows.setdefault(ack.producer, []).append((sent[0].sequence, place, ack))
        for producer, row in rows.items():
            row.sort(key=lambda entry: entry[:2])
            for (_, before, earlier), (_, after, later) in itertools.pairwise(row):
                if after < before:
                    told = f"{producer} sent {earlier.value} before {later.value}; they lie at {before} and {after}"
                    yield f"{told}, acknowledged at {earlier.time_ms} and {later.time_ms} ms"


def nonmonotonic_poll(partition: _Partition) -> Iterator[str]:
    """A consumer received, within one assignment, an offset that is not above the previous one."""
    for before, offset, poll in partition.backward:
        yield f"{poll.consumer} received offset {offset} after {before} at {poll.time_ms} ms"


def poll_skip(partition: _Partition) -> Iterator[str]:
    """A consumer skipped, within one assignment, an offset at which another poll found a value."""
    known = [sorted(era.at) for era in partition.eras]
    for next_offset, offset, poll, era in partition.forward:
        first, end = bisect_left(known[era], next_offset), bisect_left(known[era], offset)
        if first < end:
            skipped = partition.eras[era].at[known[era][first]]
            told = f"{poll.consumer} was at {next_offset} and received {offset} at {poll.time_ms} ms"
            yield f"{told}; it skipped {end - first} known values, the first {skipped}"


def precommitted_read(partition: _Partition) -> Iterator[str]:
    """A record was polled at or above the high watermark of the same response."""
    for offset, poll in partition.precommitted:
        told = f"{poll.consumer} received offset {offset} with high watermark {poll.high_watermark}"
        yield f"{told} at {poll.time_ms} ms"


def fenced_answer(partition: _Partition) -> Iterator[str]:
    """A broker acted as leader after the cluster had fenced it."""
    for event in partition.fenced:
        yield f"broker {event.broker} at {event.time_ms} ms: {event.what}"


_ALL: Final[Mapping[str, Callable[[_Partition], Iterator[str]]]] = {
    "lost-write": lost_write,
    "unseen": unseen,
    "G1a": g1a,
    "phantom": phantom,
    "inconsistent-offsets": inconsistent_offsets,
    "duplicate": duplicate,
    "nonmonotonic-send": nonmonotonic_send,
    "nonmonotonic-poll": nonmonotonic_poll,
    "poll-skip": poll_skip,
    "precommitted-read": precommitted_read,
    "fenced-answer": fenced_answer,
}
_IDEMPOTENT: Final = ("duplicate", "nonmonotonic-send")

CHECKS: Final[Mapping[str, str]] = {name: (found.__doc__ or "").strip() for name, found in _ALL.items()}
"""Each anomaly's name, and its meaning in one sentence."""


def check(history: History, *, idempotent: bool = True) -> list[Anomaly]:
    """Find all anomalies of a history, by check and then by partition.

    Args:
        idempotent: whether the history's producers were idempotent, so that no value may be duplicated or out of
            order. A producer that sends each value once, and the next only after the response, counts as idempotent.
    """
    partitions = _gather(history)
    return [
        Anomaly(name, partition.name, message)
        for name, find in _ALL.items()
        if idempotent or name not in _IDEMPOTENT
        for partition in partitions
        for message in find(partition)
    ]


def events_about(history: History, value: int) -> list[Event]:
    """Return the events that mention a value, to investigate an anomaly."""
    return [
        event
        for event in history
        if getattr(event, "value", None) == value
        or (isinstance(event, Polled) and any(polled == value for _, polled in event.records))
    ]
