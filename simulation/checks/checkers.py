"""The checks of histories, with the names of Jepsen's Kafka workload; `CHECKS` has the meaning of each.

The checks use only the clients' view in the history. Behaviour that a cluster does not rule out is no anomaly:

* A write that only its leader has acknowledged (acks=1), or no broker (acks=0), may be lost, and its offset may be
  given to another value. Its offset is known only from polls.
* A response without an offset, as to a duplicate after a lost response, confirms the value but not its offset.
* An unclean election may lose records. The history between two unclean elections is an era. A value counts for an
  era's log only if it was sent, and acknowledged or polled, in that era. A topic that is deleted and created again
  begins an era, too.

Unless a `Cleaned` event says otherwise, the checks assume that no record is deleted (by retention, compaction or
DeleteRecords) while the history is recorded. A history that names no brokers counts as one of a single leader.
The cost is O(n log n) in events and polled records.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from purgatorio.simulation.history.history import Acked, History
from purgatorio.simulation.history.partition_history import ALL_REPLICAS, Era, PartitionHistory, described, gather

NO_ANSWER: Final = 0


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A violation of the cluster's guarantees."""

    name: str
    partition: str
    message: str

    def __str__(self) -> str:
        return f"{self.name} {self.partition}: {self.message}"


def _acked(ack: Acked) -> str:
    where = f"at offset {ack.offset}" if ack.offset >= 0 else "without an offset"
    return f"{ack.value} of {ack.producer} was acknowledged {where} at {ack.time_ms} ms"


def lost_write(partition: PartitionHistory) -> Iterator[str]:
    """An acknowledged value (acks=-1) is in no poll, though a consumer has read on past its offset."""
    for number, era in enumerate(partition.eras):
        firsts, lasts = era.read_ranges()
        for ack in era.promised():
            nth = bisect_right(firsts, ack.offset) - 1
            if ack.value in partition.seen or nth < 0 or ack.offset > lasts[nth]:
                continue
            if not partition.keys or not partition.was_cleaned(ack.value, ack.offset, number):
                yield f"{_acked(ack)}, and was never polled, though offsets {firsts[nth]} to {lasts[nth]} were read"


def unseen(partition: PartitionHistory) -> Iterator[str]:
    """An acknowledged value (acks=-1) was missing in the final read, after all faults were healed."""
    end = partition.drained
    if end is None:
        return
    for ack in partition.owed:
        place = _place(partition, ack, len(partition.eras) - 1)
        if ack.value not in partition.final and not partition.was_cleaned(ack.value, -1 if place is None else place):
            once = f"; it was polled once, {seen}" if (seen := partition.seen.get(ack.value)) else ""
            yield f"{_acked(ack)}, and is not among offsets {end.start_offset} to {end.end_offset} in the end{once}"


def vanished(partition: PartitionHistory) -> Iterator[str]:
    """A value was polled, and was missing in the final read; no acknowledgement is needed for that."""
    end = partition.drained
    if end is None:
        return
    owed = {ack.value for ack in partition.owed}
    for offset, seen in partition.eras[-1].at.items():
        if seen.value in partition.final or seen.value in owed or not end.start_offset <= offset < end.end_offset:
            continue  # an acknowledged one is `unseen`
        if not partition.was_cleaned(seen.value, offset):
            yield f"among offsets {end.start_offset} to {end.end_offset} there is no more {seen}"


def gap(partition: PartitionHistory) -> Iterator[str]:
    """Nothing was ever polled at an offset that a consumer passed, or the log does not start at 0."""
    end = partition.drained
    if end is not None and end.start_offset > 0 and not partition.deletes and len(partition.eras) == 1:
        yield f"the log starts at {end.start_offset}, and no record of it may be deleted"
    if partition.keys:
        return
    known = [era.known_offsets() for era in partition.eras]
    for next_offset, offset, poll, era in partition.forward:
        if offset - next_offset > bisect_left(known[era], offset) - bisect_left(known[era], next_offset):
            told = f"{poll.consumer} was at {next_offset} and received {offset} at {poll.time_ms} ms"
            yield f"{told}; some offsets between them were never polled"


def g1a(partition: PartitionHistory) -> Iterator[str]:
    """A value whose send has certainly failed was polled."""
    for failed in partition.failed:
        seen = partition.seen.get(failed.value)
        if seen is not None:
            told = f"{failed.value} of {failed.producer} failed at {failed.time_ms} ms ({failed.reason})"
            yield f"{told}, and was polled: {seen}"


def phantom(partition: PartitionHistory) -> Iterator[str]:
    """A value was polled that no producer sent to that partition."""
    for value, seen in partition.seen.items():
        if value not in partition.sent:
            yield f"no producer sent the polled value: {seen}"


def inconsistent_offsets(partition: PartitionHistory) -> Iterator[str]:
    """Two values were polled or acknowledged (acks=-1) at one offset, or by one leader in one epoch (acks=1)."""
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
        yield from _acked_twice(era)


def _acked_twice(era: Era) -> Iterator[str]:
    """Yield pairs of values that one leader acknowledged at one offset in one epoch, one of them by itself (acks=1)."""
    acked: dict[tuple[int, int, int], Acked] = {}
    for ack in era.acked:
        if ack.offset >= 0 and ack.leader_epoch >= 0:
            other = acked.setdefault((ack.broker, ack.leader_epoch, ack.offset), ack)
            if other.value != ack.value and not other.acks == ack.acks == ALL_REPLICAS:
                yield f"{_acked(ack)}, and {_acked(other)}, by broker {ack.broker} in leader epoch {ack.leader_epoch}"


def duplicate(partition: PartitionHistory) -> Iterator[str]:
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


def _place(partition: PartitionHistory, ack: Acked, era: int) -> int | None:
    """Return the offset of an acknowledged value, or None if it is not known."""
    if ack.acks == ALL_REPLICAS and ack.offset >= 0:
        return ack.offset
    seen = partition.seen.get(ack.value)
    return seen.offset if seen is not None and seen.era == era else None


def nonmonotonic_send(partition: PartitionHistory) -> Iterator[str]:
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


def sequence_refused(partition: PartitionHistory) -> Iterator[str]:
    """A broker called sequences out of order that were not; librdkafka then writes again what is written."""
    for event in partition.refused:
        yield f"broker {event.broker} to {event.producer} at {event.time_ms} ms, sequence {event.sequence}"


def nonmonotonic_poll(partition: PartitionHistory) -> Iterator[str]:
    """A consumer received, within one assignment, an offset that is not above the previous one."""
    for before, offset, poll in partition.backward:
        yield f"{poll.consumer} received offset {offset} after {before} at {poll.time_ms} ms"


def poll_skip(partition: PartitionHistory) -> Iterator[str]:
    """A consumer skipped, within one assignment, an offset at which another poll found a value."""
    known = [sorted(era.at) for era in partition.eras]
    for next_offset, offset, poll, era in partition.forward:
        between = known[era][bisect_left(known[era], next_offset) : bisect_left(known[era], offset)]
        skipped = [
            seen
            for each in between
            if not partition.was_cleaned((seen := partition.eras[era].at[each]).value, each, era)
        ]
        if skipped:
            told = f"{poll.consumer} was at {next_offset} and received {offset} at {poll.time_ms} ms"
            yield f"{told}; it skipped {len(skipped)} known values, the first {skipped[0]}"


def consumer_reset(partition: PartitionHistory) -> Iterator[str]:
    """A broker refused a consumer's position, and sent it back to records that it had passed."""
    for event, next_offset in partition.resets:
        yield f"{event.consumer} was at {next_offset} and was sent to {event.offset} at {event.time_ms} ms"


def watermark_regress(partition: PartitionHistory) -> Iterator[str]:
    """A leader returned a high watermark below its own earlier one, or below a record that it had acknowledged
    (acks=-1)."""
    return map(described, partition.watermarks.regressed)


def stale_read(partition: PartitionHistory) -> Iterator[str]:
    """A former leader answered a consumer without a value that its successor had acknowledged before (acks=-1)."""
    return map(described, partition.watermarks.stale)


def precommitted_read(partition: PartitionHistory) -> Iterator[str]:
    """A record was polled at or above the high watermark of the same response."""
    for offset, poll in partition.precommitted:
        told = f"{poll.consumer} received offset {offset} with high watermark {poll.high_watermark}"
        yield f"{told} at {poll.time_ms} ms"


def fenced_answer(partition: PartitionHistory) -> Iterator[str]:
    """A broker acted as leader after the cluster had fenced it."""
    for event in partition.fenced:
        yield f"broker {event.broker} at {event.time_ms} ms: {event.what}"


_ALL: Final[Mapping[str, Callable[[PartitionHistory], Iterator[str]]]] = {
    "lost-write": lost_write,
    "unseen": unseen,
    "vanished": vanished,
    "gap": gap,
    "G1a": g1a,
    "phantom": phantom,
    "inconsistent-offsets": inconsistent_offsets,
    "duplicate": duplicate,
    "nonmonotonic-send": nonmonotonic_send,
    "sequence-refused": sequence_refused,
    "nonmonotonic-poll": nonmonotonic_poll,
    "poll-skip": poll_skip,
    "consumer-reset": consumer_reset,
    "watermark-regress": watermark_regress,
    "stale-read": stale_read,
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
    partitions = gather(history)
    return [
        Anomaly(name, partition.name, message)
        for name, find in _ALL.items()
        if idempotent or name not in _IDEMPOTENT
        for partition in partitions
        for message in find(partition)
    ]
