"""The description of a copied segment: what its object has to hold, and what a log knew of it.

The batches of a segment are cut into parts of whole batches, which are read one at a time. The description has each
part's place, size and CRC, so that an object that is short or damaged is noticed whatever is read of it; and before
anything is allocated for it, since the sizes have to agree with the size that the store gives for the object. The
description has a CRC of its own.

With the batches go all leader epochs up to their end, the aborted transactions whose markers are among them, and the
producers' state at their end: a replica that begins behind the segment needs them (KIP-405).
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from fastcrc import crc32

from purgatorio.broker.log.epochs import UNDEFINED_EPOCH
from purgatorio.broker.log.producer_state import ProducerBatch, ProducerSnapshot, ProducerState
from purgatorio.broker.log.segment import Segment
from purgatorio.broker.log.transactions import AbortedTxn, EndedTransaction
from purgatorio.broker.tier.names import SegmentName
from purgatorio.broker.time.long_work import Steps
from purgatorio.late import dataclass
from purgatorio.protocol.compression import Buffer

FORMAT: Final = 1
PART_BYTES: Final = 1024 * 1024
"""The largest part of several batches: as much as a consumer asks for at once by default."""
MAX_DESCRIPTION_BYTES: Final = 8 * 1024 * 1024
PART_COST: Final = 400
"""The cost of the CRC of a part (see `LongWork`)."""
_start_offset = attrgetter("start_offset")


class DamagedObject(Exception):
    """An object of the tier is not what was written."""


class Part(NamedTuple):
    """Whole batches of a segment that are read together.

    Attributes:
        start_offset: the base offset of its first batch.
        position: bytes of the object before it.
        crc: the CRC-32C of its bytes.
        max_timestamp_ms: the highest timestamp up to its end.
    """

    start_offset: int
    position: int
    size_bytes: int
    crc: int
    max_timestamp_ms: int

    def check(self, data: Buffer) -> None:
        """Check that these are the bytes of the part.

        Raises:
            DamagedObject: they are fewer, or others.
        """
        if len(data) != self.size_bytes:
            raise DamagedObject(f"{len(data)} bytes came of {self.size_bytes} at {self.position}")
        if crc32.iscsi(data) != self.crc:
            raise DamagedObject(f"the {self.size_bytes} bytes at {self.position} have another CRC than was written")


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A copied segment.

    Attributes:
        end_offset: the offset after its last record.
        size_bytes: the size of its object.
        epochs: the leader epochs up to its end, with their start offsets, from the log's start on.
        parts: all of its batches; at least one.
        aborted: the aborted transactions whose markers it has, in the order of the markers.
        producers: the producers' state at its end, as far as the log had kept it.
    """

    name: SegmentName
    end_offset: int
    size_bytes: int
    epochs: tuple[tuple[int, int], ...]
    parts: tuple[Part, ...]
    aborted: tuple[AbortedTxn, ...]
    producers: ProducerSnapshot | None

    @property
    def start_offset(self) -> int:
        """Its first offset."""
        return self.name.start_offset

    @property
    def max_timestamp_ms(self) -> int:
        """The highest timestamp of its records."""
        return self.parts[-1].max_timestamp_ms

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch in which a record of the segment was written; −1: it is not known."""
        following = bisect_right(self.epochs, offset, key=itemgetter(1))
        return self.epochs[following - 1][0] if following else UNDEFINED_EPOCH

    def part_of(self, offset: int) -> int:
        """Return the number of the part that has an offset of the segment."""
        return max(0, bisect_right(self.parts, offset, key=_start_offset) - 1)

    def part_since(self, timestamp_ms: int) -> int:
        """Return the number of the first part with a timestamp that is not before; the number of parts: none has."""
        return bisect_left(self.parts, timestamp_ms, key=attrgetter("max_timestamp_ms"))

    def end_of_part(self, number: int) -> int:
        """Return the offset after a part."""
        return self.parts[number + 1].start_offset if number + 1 < len(self.parts) else self.end_offset


class PartsMaker:
    """Cuts a closed segment into parts, in steps, each of which takes the CRC of one.

    Attributes:
        parts: those that are done.
    """

    def __init__(self, segment: Segment, part_bytes: int = PART_BYTES) -> None:
        self._segment = segment
        self._part_bytes = part_bytes
        self.parts: list[Part] = []

    def steps(self) -> Steps:
        """Yield what each part has cost."""
        segment = self._segment
        first, count = 0, segment.batch_count
        while first < count:
            start = segment.start_of(first)
            stop = max(first + 1, bisect_right(segment.ends, start + self._part_bytes, first))
            crc = 0
            for number, run in enumerate(segment.runs(first, stop)):
                crc = crc32.iscsi(run, crc) if number else crc32.iscsi(run)
            size_bytes = segment.start_of(stop) - start
            start_offset = segment.base_offset_of(first)
            self.parts.append(Part(start_offset, start, size_bytes, crc, segment.max_timestamps[stop - 1]))
            first = stop
            yield PART_COST


def to_bytes(segment: RemoteSegment) -> bytes:
    """Return the description as it lies in the store."""
    body = {
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "size_bytes": segment.size_bytes,
        "epochs": segment.epochs,
        "parts": segment.parts,
        "aborted": segment.aborted,
        "producers": None if segment.producers is None else _of_producers(segment.producers),
    }
    text = _canonical(body)
    return _canonical({"format": FORMAT, "crc32c": crc32.iscsi(text), "segment": body})


def from_bytes(data: Buffer, name: SegmentName, object_bytes: int) -> RemoteSegment:
    """Return the segment that a description describes.

    Args:
        data: the description.
        name: the segment's.
        object_bytes: the size of the object with the batches, as the store gives it.

    Raises:
        DamagedObject: the description is damaged, of a newer format, or the object has another size than it says.
    """
    try:
        document = json.loads(bytes(data))
        if document["format"] != FORMAT:
            raise DamagedObject(f"{name} is described in format {document['format']}; this release knows {FORMAT}")
        body = document["segment"]
        if crc32.iscsi(_canonical(body)) != document["crc32c"]:
            raise DamagedObject(f"the description of {name} has another CRC than was written")
        found = _of_body(name, body)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedObject(f"the description of {name} cannot be read: {error!r}") from error
    _check_sizes(found, object_bytes)
    return found


def _canonical(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _of_body(name: SegmentName, body: Any) -> RemoteSegment:
    producers = body["producers"]
    return RemoteSegment(
        name,
        int(body["end_offset"]),
        int(body["size_bytes"]),
        tuple((int(epoch), int(start)) for epoch, start in body["epochs"]),
        tuple(Part(*map(int, each)) for each in body["parts"]),
        tuple(AbortedTxn(*map(int, each)) for each in body["aborted"]),
        None if producers is None else _to_producers(producers),
    )


def _check_sizes(segment: RemoteSegment, object_bytes: int) -> None:
    """Check that the parts follow each other, and are the whole object.

    Raises:
        DamagedObject: they do not, or are not.
    """
    name = segment.name
    if segment.size_bytes != object_bytes:
        raise DamagedObject(f"{name} has {object_bytes} bytes, but {segment.size_bytes} were written")
    position, offset = 0, segment.start_offset
    for part in segment.parts:
        if part.position != position or part.size_bytes <= 0 or part.start_offset < offset:
            raise DamagedObject(f"the parts of {name} do not follow each other")
        position += part.size_bytes
        offset = part.start_offset + 1
    if not segment.parts or position != object_bytes or segment.end_offset < offset:
        raise DamagedObject(f"the parts of {name} are not the whole of it")


def _of_producers(snapshot: ProducerSnapshot) -> dict[str, Any]:
    states = [
        [
            producer_id,
            state.epoch,
            state.coordinator_epoch,
            state.appended_ms,
            state.marker_offset,
            state.transaction_start,
            state.transaction_start_ms,
            state.transactional_id,
            list(state.batches),
        ]
        for producer_id, state in snapshot.states.items()
    ]
    return {"states": states, "ended": snapshot.ended, "is_reduced": snapshot.is_reduced}


def _to_producers(document: Any) -> ProducerSnapshot:
    states: dict[int, ProducerState] = {}
    for producer_id, epoch, *numbers, transactional_id, batches in document["states"]:
        state = states[int(producer_id)] = ProducerState(int(epoch))
        state.coordinator_epoch, state.appended_ms, state.marker_offset = map(int, numbers[:3])
        state.transaction_start, state.transaction_start_ms = map(int, numbers[3:])
        state.transactional_id = str(transactional_id)
        state.batches.extend(ProducerBatch(*map(int, each)) for each in batches)
    ended = [EndedTransaction(*map(int, each)) for each in document["ended"]]
    return ProducerSnapshot(states, ended, bool(document["is_reduced"]))


def epochs_up_to(entries: Sequence[tuple[int, int]], end_offset: int) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs of a log that begin before an offset."""
    return tuple(entry for entry in entries if entry[1] < end_offset)
