"""The description of a copied segment: what its object has to hold, and what a log knew of it.

The batches of a segment are cut into parts of whole batches, which are read one at a time. The description has each
part's place, size and CRC, so that an object that is short or damaged is noticed whatever is read of it; and before
anything is allocated for it, since the sizes have to agree with the size that the store gives for the object. The
description has a CRC of its own. It is lines of JSON, each of which is short work: the format and the CRC of what
follows, then the offsets and sizes, then lists.

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
ENTRIES: Final = 100
"""The epochs, parts, transactions of a line of a description."""
STATES: Final = 25
"""The producers of a line."""
ENTRY_COST: Final = 4
STATE_COST: Final = 20
"""The costs of reading one of each (see `LongWork`)."""
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


class DescriptionMaker:
    """Writes the description of a segment, in steps.

    Attributes:
        data: the description, when they are done.
    """

    def __init__(self, segment: RemoteSegment) -> None:
        self._segment = segment
        self.data = b""

    def steps(self) -> Steps:
        """Yield what each line has cost."""
        segment, producers = self._segment, self._segment.producers
        head: dict[str, Any] = {"start_offset": segment.start_offset, "end_offset": segment.end_offset}
        head |= {"size_bytes": segment.size_bytes, "producers": _kind_of(producers)}
        lines = [_line(head)]
        crc = crc32.iscsi(lines[0])
        lists: dict[str, Sequence[Any]] = {each: getattr(segment, each) for each in ("epochs", "parts", "aborted")}
        if producers is not None:
            lists |= {"ended": producers.ended, "states": list(producers.states.items())}
        for kind, entries in lists.items():
            at_once, cost = (STATES, STATE_COST) if kind == "states" else (ENTRIES, ENTRY_COST)
            for first in range(0, len(entries), at_once):
                some = entries[first : first + at_once]
                lines.append(_line({kind: [_of_state(*each) for each in some] if kind == "states" else some}))
                crc = crc32.iscsi(lines[-1], crc)
                yield cost * len(some)
        self.data = b"".join([_line({"format": FORMAT, "crc32c": crc}), *lines])


def _kind_of(producers: ProducerSnapshot | None) -> str:
    return "none" if producers is None else "reduced" if producers.is_reduced else "all"


def _line(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def to_bytes(segment: RemoteSegment) -> bytes:
    """Return the description as it lies in the store, in one step."""
    maker = DescriptionMaker(segment)
    for _ in maker.steps():
        pass
    return maker.data


class DescriptionReader:
    """Reads a description, in steps.

    Args:
        data: the description.
        name: the segment's.
        object_bytes: the size of the object with the batches, as the store gives it.

    Attributes:
        segment: what it describes, when they are done.
    """

    def __init__(self, data: Buffer, name: SegmentName, object_bytes: int) -> None:
        self.segment: RemoteSegment | None = None
        self._data = data
        self._name = name
        self._object_bytes = object_bytes
        self._position, self._offset = 0, name.start_offset
        self._found: dict[str, list[Any]] = {kind: [] for kind in ("epochs", "parts", "aborted", "ended", "states")}

    def steps(self) -> Steps:
        """Yield what each line has cost.

        Raises:
            DamagedObject: the description is damaged, of a newer format, or the object has another size than it says.
        """
        try:
            yield from self._steps()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DamagedObject(f"the description of {self._name} cannot be read: {error!r}") from error

    def _steps(self) -> Steps:
        data = bytes(self._data)
        start = data.index(b"\n") + 1
        about = json.loads(data[:start])
        if about["format"] != FORMAT:
            raise DamagedObject(
                f"{self._name} is described in format {about['format']}; this release knows {FORMAT}: "
                "upgrade the brokers"
            )
        crc, view = 0, memoryview(data)
        for position in range(start, len(data), PART_BYTES):
            crc = crc32.iscsi(view[position : position + PART_BYTES], crc)
            yield ENTRY_COST if len(data) < PART_BYTES else PART_COST
        if crc != about["crc32c"]:
            raise DamagedObject(f"the description of {self._name} has another CRC than was written")
        head: dict[str, Any] = {}
        while start < len(data):
            end = data.index(b"\n", start)
            line = json.loads(data[start:end])
            if head:
                yield self._take(line)
            head, start = head or line, end + 1
        self._finish(head)

    def _take(self, line: dict[str, list[Any]]) -> int:
        ((kind, entries),) = line.items()
        found = self._found[kind]
        if kind == "states":
            found += [(int(each[0]), _to_state(*each[1:])) for each in entries]
            return STATE_COST * len(entries)
        types: dict[str, Any] = {"parts": Part, "aborted": AbortedTxn, "ended": EndedTransaction, "epochs": _Epoch}
        entry = types[kind]
        taken = [entry(*map(int, each)) for each in entries]
        if kind == "parts":
            self._check_parts(taken)
        found += taken
        return ENTRY_COST * len(entries)

    def _check_parts(self, parts: list[Part]) -> None:
        for part in parts:
            if part.position != self._position or part.size_bytes <= 0 or part.start_offset < self._offset:
                raise DamagedObject(f"the parts of {self._name} do not follow each other")
            self._position += part.size_bytes
            self._offset = part.start_offset + 1

    def _finish(self, head: dict[str, Any]) -> None:
        found, name = self._found, self._name
        end_offset, size_bytes = int(head["end_offset"]), int(head["size_bytes"])
        if size_bytes != self._object_bytes:
            raise DamagedObject(f"{name} has {self._object_bytes} bytes, but {size_bytes} were written")
        if not found["parts"] or self._position != size_bytes or end_offset < self._offset:
            raise DamagedObject(f"the parts of {name} are not the whole of it")
        kind = head["producers"]
        states = ProducerSnapshot(dict(found["states"]), found["ended"], kind == "reduced")
        producers = None if kind == "none" else states
        parts, aborted = tuple(found["parts"]), tuple(found["aborted"])
        epochs = tuple((epoch, start_offset) for epoch, start_offset in found["epochs"])
        self.segment = RemoteSegment(name, end_offset, size_bytes, epochs, parts, aborted, producers)


def from_bytes(data: Buffer, name: SegmentName, object_bytes: int) -> RemoteSegment:
    """Return the segment that a description describes, in one step; see `DescriptionReader`.

    Raises:
        DamagedObject: as its steps.
    """
    reader = DescriptionReader(data, name, object_bytes)
    for _ in reader.steps():
        pass
    assert reader.segment is not None, "its steps are done"
    return reader.segment


class _Epoch(NamedTuple):
    epoch: int
    start_offset: int


def _of_state(producer_id: int, state: ProducerState) -> list[Any]:
    return [
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


def _to_state(epoch: Any, *others: Any) -> ProducerState:
    *numbers, transactional_id, batches = others
    state = ProducerState(int(epoch))
    state.coordinator_epoch, state.appended_ms, state.marker_offset = map(int, numbers[:3])
    state.transaction_start, state.transaction_start_ms = map(int, numbers[3:])
    state.transactional_id = str(transactional_id)
    state.batches.extend(ProducerBatch(*map(int, each)) for each in batches)
    return state


def epochs_up_to(entries: Sequence[tuple[int, int]], end_offset: int) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs of a log that begin before an offset."""
    return tuple(entry for entry in entries if entry[1] < end_offset)
