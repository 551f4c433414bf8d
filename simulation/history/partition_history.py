"""The history of one partition, indexed for the checks in one pass: what lay where, and how far consumers read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import (
    Acked,
    Assigned,
    Cleaned,
    Drained,
    Failed,
    FencedAnswer,
    History,
    LeaderElected,
    Polled,
    Sent,
    SequenceRefused,
    TopicRecreated,
    TxnEnded,
    TxnMarker,
    TxnWrote,
    UncleanElection,
)

ALL_REPLICAS: Final = -1
MAX_OFFSET: Final = 2**63 - 1


class Sighting(NamedTuple):
    """A poll of a value, and the era of the log that it came from (None if that is not known)."""

    offset: int
    value: int
    poll: Polled
    era: int | None

    def __str__(self) -> str:
        return f"{self.value} at offset {self.offset} by {self.poll.consumer} at {self.poll.time_ms} ms"


class Jump(NamedTuple):
    """A poll that skipped offsets within one assignment: it did not continue at `next_offset`."""

    next_offset: int
    offset: int
    poll: Polled
    era: int


@dataclass(slots=True)
class ReadProgress:
    """A consumer's progress on one assignment: it has read from `start` to `last` (None if nothing yet)."""

    start: int
    last: int | None = None

    @property
    def next_offset(self) -> int:
        """The offset that it reads next."""
        return self.start if self.last is None else self.last + 1


@dataclass(slots=True)
class Era:
    """The known content of a partition's log between two unclean elections or creations of its topic.

    Attributes:
        at: by offset, the value that was first polled there.
        rivals: by offset, if several values were polled there, all of them by value.
        read: the ranges that consumers have read, as first and last offset.
        acked: the acknowledgements of values that were sent in this era.
    """

    at: dict[int, Sighting] = field(default_factory=dict)
    markers: dict[int, None] = field(default_factory=dict)
    rivals: dict[int, dict[int, Sighting]] = field(default_factory=dict)
    read: list[tuple[int, int]] = field(default_factory=list)
    acked: list[Acked] = field(default_factory=list)

    def promised(self) -> Iterator[Acked]:
        """Iterate over the acknowledgements by all in-sync replicas."""
        return (ack for ack in self.acked if ack.acks == ALL_REPLICAS)

    def known_offsets(self) -> list[int]:
        """Return the offsets of all values and markers that were read, ascending."""
        return sorted({*self.at, *self.markers})

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


@dataclass(slots=True)
class _Proofs:
    """The answers of one broker in one leader epoch: up to each event, the `highest` high watermark, with its event."""

    places: list[int] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)
    highest: list[tuple[int, Acked | Polled]] = field(default_factory=list)

    def add(self, place: int, high_watermark: int, event: Acked | Polled) -> None:
        before = self.highest[-1] if self.highest else (-1, event)
        self.places.append(place)
        self.times_ms.append(event.time_ms)
        self.highest.append((high_watermark, event) if high_watermark > before[0] else before)

    def before(self, poll: Polled, last_place: int) -> tuple[int, Acked | Polled] | None:
        """Return the highest high watermark in answers before `poll` was requested, and the event of that answer.

        Args:
            last_place: the place of the consumer's event before `poll`, which counts if `poll` has no `asked_ms`.
        """
        if poll.asked_ms >= 0:
            count = bisect_left(self.times_ms, poll.asked_ms)
        else:
            count = bisect_left(self.places, last_place + 1)
        return self.highest[count - 1] if count else None


class ReportedWatermarks:
    """Finds contradictions between the high watermarks in answers about one partition, in one era of its log.

    A leader's high watermark never goes back while its epoch lasts, and an acknowledgement (acks=-1) says that it has
    passed the record. A new leader may know less for a moment, since followers learn the high watermark one fetch
    later. But a former leader has to stop before its lease ends: it answers nothing after its successor's first
    acknowledgement. An answer counts as later than another only if its request was sent after the other had arrived.

    Attributes:
        regressed: polls with a lower high watermark than the same broker had returned before in the same leader epoch.
        stale: polls without a value that a leader of a later epoch had acknowledged before.
    """

    def __init__(self) -> None:
        self.regressed: list[tuple[Polled, int, Acked | Polled]] = []
        self.stale: list[tuple[Polled, int, Acked | Polled]] = []
        self._polled: dict[tuple[int, int, bool], _Proofs] = {}
        self._acked: dict[int, _Proofs] = {}

    def begin_era(self) -> None:
        """Forget all answers from before an unclean election."""
        self._polled.clear()
        self._acked.clear()

    def take_ack(self, place: int, ack: Acked) -> None:
        """Add an acknowledgement by all in-sync replicas, at its place in the history."""
        if ack.offset >= 0:
            self._acked.setdefault(ack.leader_epoch, _Proofs()).add(place, ack.offset + 1, ack)

    def take_poll(self, place: int, last_place: int, poll: Polled) -> None:
        """Compare a poll with all answers before it, and add it; `last_place` as in `_Proofs.before`."""
        if poll.high_watermark < 0:
            return
        proofs = self._polled.setdefault((poll.broker, poll.leader_epoch, poll.follower), _Proofs())
        acked = {} if poll.follower else self._acked
        same = [proofs, *(each for epoch, each in acked.items() if epoch == poll.leader_epoch)]
        later = [each for epoch, each in acked.items() if epoch > poll.leader_epoch >= 0]
        for found, candidates in ((self.regressed, same), (self.stale, later)):
            told = [proof for each in candidates if (proof := each.before(poll, last_place)) is not None]
            highest = max(told, key=lambda proof: proof[0], default=None)
            if highest is not None and highest[0] > poll.high_watermark:
                found.append((poll, *highest))
        proofs.add(place, poll.high_watermark, poll)


def described(found: tuple[Polled, int, Acked | Polled]) -> str:
    """Return a contradiction as text."""
    poll, high_watermark, proof = found
    where = f"broker {poll.broker} in leader epoch {poll.leader_epoch}" if poll.broker >= 0 else "a broker"
    if isinstance(proof, Acked):
        told = f"{proof.value} of {proof.producer} was acknowledged at offset {proof.offset} at {proof.time_ms} ms"
    else:
        told = f"{proof.consumer} was told high watermark {high_watermark} at {proof.time_ms} ms"
    return f"{poll.consumer} was told high watermark {poll.high_watermark} by {where} at {poll.time_ms} ms; {told}"


class PartitionHistory:
    """The events of one partition, indexed for the checks in one pass.

    Args:
        uncommitted: the values of transactions that are not known to be committed; compaction may drop any of them.

    Attributes:
        sent: by value, its send and the era of that.
        moved: by value, if it was polled at several offsets, all of them.
        backward: polls that went back within their assignment, each with the previous offset and its own.
        forward: polls that skipped offsets.
        resets: assignments by which brokers sent consumers back, each with the consumer's position before.
        deletes: whether the oldest records may be deleted.
        keys: if the log is compacted, the number of its keys, else 0.
        owed, final: the acknowledgements of values that the final reader has to poll, and the values that it has.
    """

    def __init__(self, name: str, uncommitted: frozenset[int] = frozenset()) -> None:
        self.name = name
        self._uncommitted = uncommitted
        self.eras = [Era()]
        self.sent: dict[int, tuple[Sent, int]] = {}
        self.seen: dict[int, Sighting] = {}
        self.moved: dict[int, dict[int, Sighting]] = {}
        self.failed: list[Failed] = []
        self.backward: list[tuple[int, int, Polled]] = []
        self.forward: list[Jump] = []
        self.precommitted: list[tuple[int, Polled]] = []
        self.fenced: list[FencedAnswer] = []
        self.refused: list[SequenceRefused] = []
        self.owed: list[Acked] = []
        self.final: set[int] = set()
        self.drained: Drained | None = None
        self.resets: list[tuple[Assigned, int]] = []
        self.watermarks = ReportedWatermarks()
        self.deletes = False
        self.keys = 0
        self._final_read_began = False
        self._readings: dict[str, ReadProgress] = {}
        self._newest: dict[int, dict[int, int]] = {}
        self._taken = 0
        self._latest_epoch = -1  # the highest leader epoch that the history has named
        self._last_taken: dict[str, int] = {}  # by consumer, the number of its last event

    def take(self, event: Event) -> None:
        """Add one event of this partition."""
        self._taken += 1
        if isinstance(event, Polled):
            self._take_poll(event)
        elif isinstance(event, Sent):
            self.sent[event.value] = event, len(self.eras) - 1
        elif isinstance(event, Acked):
            self._take_ack(event)
        elif isinstance(event, Failed):
            self.failed.append(event)
        elif isinstance(event, Assigned):
            self._take_assignment(event)
        elif isinstance(event, Drained):
            self.drained, self._final_read_began = event, True
        else:
            self._take_rare(event)

    def _take_rare(self, event: Event) -> None:
        if isinstance(event, FencedAnswer):
            self.fenced.append(event)
        elif isinstance(event, SequenceRefused):
            self.refused.append(event)
        elif isinstance(event, LeaderElected):
            self._latest_epoch = max(self._latest_epoch, event.leader_epoch)
        elif isinstance(event, UncleanElection):
            self._begin_era()
        elif isinstance(event, TopicRecreated):
            self._begin_era()
            self._latest_epoch = -1
        elif isinstance(event, Cleaned):
            self.deletes, self.keys = event.deletes, event.keys
        elif isinstance(event, TxnMarker):
            self.eras[-1].markers[event.offset] = None

    def _take_assignment(self, event: Assigned) -> None:
        self._last_taken[event.consumer] = self._taken
        reading = self._readings.get(event.consumer)
        if reading is not None and event.reset and 0 <= event.offset < reading.next_offset:
            self.resets.append((event, reading.next_offset))
        self._end_reading(event.consumer)
        if event.offset >= 0:
            self._readings[event.consumer] = ReadProgress(event.offset)

    def end(self) -> None:
        """End all assignments, at the end of the history or of an era."""
        for consumer in list(self._readings):
            self._end_reading(consumer)

    def _begin_era(self) -> None:
        self.end()
        self.owed.clear()
        self.watermarks.begin_era()
        self.eras.append(Era())

    def _era_of(self, value: int) -> int | None:
        """Return the era of a value that is acknowledged or polled now; None if it may be an earlier one."""
        era = len(self.eras) - 1
        sent = self.sent.get(value)
        return era if sent is None or sent[1] == era else None

    def _take_ack(self, ack: Acked) -> None:
        if self._era_of(ack.value) is None:
            return
        if ack.acks == ALL_REPLICAS:
            self.watermarks.take_ack(self._taken, ack)
        self._latest_epoch = max(self._latest_epoch, ack.leader_epoch)
        if ack.leader_epoch < self._latest_epoch:
            # The producer took the broker for the leader of an epoch that had ended. The broker may lead again.
            ack = replace(ack, leader_epoch=-1)
        self.eras[-1].acked.append(ack)
        # A value that is acknowledged during the final read may lie behind that read's end offset.
        if ack.acks == ALL_REPLICAS and not self._final_read_began:
            self.owed.append(ack)

    def _take_poll(self, poll: Polled) -> None:
        self._final_read_began |= poll.final
        self._latest_epoch = max(self._latest_epoch, poll.leader_epoch)
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
        # A late answer may come from the log before an unclean election.
        if len(self.eras) == 1 or poll.leader_epoch >= 0:
            self.watermarks.take_poll(self._taken, self._last_taken.get(poll.consumer, 0), poll)
        self._last_taken[poll.consumer] = self._taken

    def _sight(self, offset: int, value: int, poll: Polled, era: int | None) -> None:
        first = self.seen.get(value)
        if first is not None and first.offset == offset:
            sighting = first
        else:
            sighting = Sighting(offset, value, poll, era)
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
            next_offset = reading.next_offset
            if offset > next_offset:
                self.forward.append(Jump(next_offset, offset, poll, era))
            elif offset < next_offset:
                if reading.last is not None:
                    self.backward.append((reading.last, offset, poll))
                self._end_reading(poll.consumer)
                reading = None
        if reading is None:
            reading = self._readings[poll.consumer] = ReadProgress(offset)
        reading.last = offset

    def _end_reading(self, consumer: str) -> None:
        reading = self._readings.pop(consumer, None)
        if reading is not None and reading.last is not None:
            self.eras[-1].read.append((reading.start, reading.last))

    def was_cleaned(self, value: int, offset: int, era: int = -1) -> bool:
        """Whether a value may be missing in the end: it was deleted, or compaction has kept a later one of its key.

        An offset that is not known is negative; era -1 is the last one.
        """
        end = self.drained
        if self.deletes and end is not None and offset < end.start_offset:
            return True
        if not self.keys:
            return False
        return value in self._uncommitted or offset < self._newest_by_key(era).get(value % self.keys, -1)

    def _newest_by_key(self, era: int) -> dict[int, int]:
        """Return the highest offset of each key that was polled in an era.

        The log of an earlier era may have ended before a consumer polled it to its end: then the highest offset that
        may have been written.
        """
        number = era % len(self.eras)
        newest = self._newest.get(number)
        if newest is None:
            at, acked = self.eras[number].at, self.eras[number].acked
            offsets = {sighting.value: offset for offset, sighting in at.items()}
            if number < len(self.eras) - 1:
                sent = [value for value, (_, of) in self.sent.items() if of == number]
                offsets = {**dict.fromkeys(sent, MAX_OFFSET), **{a.value: a.offset for a in acked}, **offsets}
            newest = self._newest[number] = {}
            for value, offset in offsets.items():
                key = value % self.keys
                newest[key] = max(newest.get(key, -1), offset)
        return newest


def gather(history: History) -> list[PartitionHistory]:
    """Index the history by partition, in the order of their first events."""
    partitions: dict[str, PartitionHistory] = {}
    uncommitted = _uncommitted(history)
    for event in history:
        name: str | None = getattr(event, "partition", None)
        if name is not None:
            partition = partitions.get(name)
            if partition is None:
                partition = partitions[name] = PartitionHistory(name, uncommitted)
            partition.take(event)
    for partition in partitions.values():
        partition.end()
    return list(partitions.values())


def _uncommitted(history: History) -> frozenset[int]:
    committed = {event.txn for event in history.of(TxnEnded) if event.outcome == "committed"}
    return frozenset(event.value for event in history.of(TxnWrote) if event.txn not in committed)
