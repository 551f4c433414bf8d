"""The segments of one log, and look-ups by offset among them."""

# compiled: docs/compiled.md

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from purgatorio.broker.log.arena import Arena
from purgatorio.broker.log.memory import ACTIVE, CLOSED, SMALL, Age
from purgatorio.broker.log.producer_state import ProducerSnapshot, ProducerStates
from purgatorio.broker.log.segment import BATCH_OVERHEAD_BYTES, Segment
from purgatorio.protocol.records import read_header

_SNAPSHOTS_KEPT: Final = 2
_base_offset = attrgetter("base_offset")


class LogRead(NamedTuple):
    """The batches of a read: the log's own bytes, not copies. The next read continues at `next_offset`."""

    parts: list[memoryview]
    size_bytes: int
    next_offset: int


class Segments:
    """Segments in the order of their offsets; the last one is the active segment, which always exists.

    Args:
        next_sequence: gives a new segment its place in the age order of all logs' segments.
        arena: the memory for batches.

    Attributes:
        active: the segment that gets new batches.
        cuts: counts deletions and truncations, so that a long compaction pass notices them.
    """

    __slots__ = ("_arena", "_next_sequence", "_segments", "active", "cuts")

    def __init__(self, next_sequence: Callable[[], int], arena: Arena) -> None:
        self._arena = arena
        self._next_sequence = next_sequence
        self.cuts = 0
        self.active = self._new(0, 0, 0)
        self._segments = [self.active]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def inactive(self) -> list[Segment]:
        """All but the active one."""
        return self._segments[:-1]

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return self._end_position - self._segments[0].base_position

    @property
    def memory_bytes(self) -> int:
        """Memory of all segments."""
        return sum(segment.memory_bytes for segment in self._segments)

    @property
    def is_empty(self) -> bool:
        """Whether there is no batch."""
        return not self.active.size_bytes and len(self._segments) == 1

    @property
    def _end_position(self) -> int:
        return self.active.base_position + self.active.size_bytes

    def _new(self, base_offset: int, base_position: int, wall_ms: int, expected_bytes: int = 0) -> Segment:
        return Segment(
            base_offset,
            base_position,
            created_ms=wall_ms,
            sequence=self._next_sequence(),
            arena=self._arena,
            expected_bytes=expected_bytes,
        )

    def number_of(self, offset: int) -> int:
        """The number of the last segment that starts at or before `offset`; of the first one if there is none."""
        if offset >= self.active.base_offset:
            return len(self._segments) - 1
        return max(0, bisect_right(self._segments, offset, key=_base_offset) - 1)

    def position_of(self, offset: int) -> int:
        """The byte position of the batch that contains `offset`; only differences have a meaning."""
        segment = self._segments[self.number_of(offset)]
        return segment.base_position + segment.start_of(segment.index_of(offset))

    def size_between(self, start_offset: int, end_offset: int) -> int:
        """Bytes from the batch that contains `start_offset` to before the batch that contains `end_offset`."""
        active = self.active
        if start_offset >= active.base_offset and end_offset >= active.next_offset:  # the usual case
            return active.size_bytes - active.start_of(active.index_of(start_offset))
        return max(0, self.position_of(end_offset) - self.position_of(start_offset))

    def memory_between(self, start_offset: int, end_offset: int) -> int:
        """Memory of the batches from the one that contains `start_offset` to before the one with `end_offset`."""
        active = self.active
        if start_offset >= active.base_offset:  # the usual case
            start, stop = active.index_of(start_offset), active.index_of(end_offset)
            return active.start_of(stop) - active.start_of(start) + BATCH_OVERHEAD_BYTES * (stop - start)
        memory_bytes = 0
        first, last = self.number_of(start_offset), self.number_of(end_offset)
        for number in range(first, last + 1):
            segment = self._segments[number]
            start = segment.index_of(start_offset) if number == first else 0
            stop = segment.index_of(end_offset) if number == last else segment.batch_count
            memory_bytes += segment.start_of(stop) - segment.start_of(start) + BATCH_OVERHEAD_BYTES * (stop - start)
        return memory_bytes

    def read(self, offset: int, max_bytes: int, end_offset: int, min_one: bool) -> LogRead:
        """Read whole batches from the one that contains `offset` on, as `Log.read` says."""
        parts: list[memoryview] = []
        size_bytes, next_offset = 0, offset
        segments = self._segments
        number = self.number_of(offset)
        segment = segments[number]
        first = segment.index_of(offset)
        while True:
            count = segment.batch_count
            stop = count if segment.next_offset <= end_offset else bisect_left(segment.last_offsets, end_offset, first)
            start = segment.start_of(first)
            fit = bisect_right(segment.ends, start + max_bytes - size_bytes, first, stop)
            if fit == first < stop and min_one and not parts:
                fit += 1
            if fit > first:
                parts += segment.runs(first, fit)
                size_bytes += segment.ends[fit - 1] - start
                next_offset = segment.last_offsets[fit - 1] + 1
            number += 1
            if fit < count or number == len(segments):
                return LogRead(parts, size_bytes, next_offset)
            segment, first = segments[number], 0

    def roll(
        self, base_offset: int, wall_ms: int, producers: ProducerSnapshot, copied_to: int | None = None
    ) -> Segment:
        """Start a new active segment.

        The two newest segments keep the state of all producers at their start, the others that of open transactions.

        Args:
            copied_to: segments that start behind it keep all, too, since it goes into the tier with the segment before;
                and the one before them, since the log may be truncated to there; see `reduce`. None: there is no tier.
        """
        segment = self._new(base_offset, self._end_position, wall_ms, self.active.size_bytes)
        segment.producers = producers
        self._segments.append(segment)
        self.active = segment
        if len(self._segments) > _SNAPSHOTS_KEPT:
            number = len(self._segments) - 1 - _SNAPSHOTS_KEPT
            if copied_to is None or self._segments[number + 1].base_offset <= copied_to:
                self._reduce(number)
        return segment

    def reduce(self, copied_to: int) -> None:
        """Let segments up to an offset keep the state of open transactions only, but the last and the two newest."""
        segments = self._segments
        stop = max(0, min(bisect_right(segments, copied_to, key=_base_offset) - 1, len(segments) - _SNAPSHOTS_KEPT))
        first = stop
        while first and _is_full(segments[first - 1].producers):  # those before these are reduced already
            first -= 1
        for number in range(first, stop):
            self._reduce(number)

    def closed_behind(self, offset: int) -> int:
        """The number of the first closed segment with records from an offset on; −1: there is none."""
        segments = self._segments
        for number in range(self.number_of(offset), len(segments) - 1):
            if segments[number].next_offset > offset and segments[number].size_bytes:
                return number
        return -1

    def _reduce(self, number: int) -> None:
        segment = self._segments[number]
        snapshot = segment.producers
        if snapshot is not None and not snapshot.is_reduced:
            segment.producers = snapshot.reduced(self._segments[number - 1].producers if number else None)

    def rebuild(self, producers: ProducerStates) -> None:
        """Return the producers to their state at the end, from the last snapshot and the batches after it.

        With no snapshot of all producers left, it begins at the log's start: with the transactions that were open then,
        whose first records are deleted.
        """
        segments = self._segments
        first, snapshot = 0, segments[0].producers
        for number in range(len(segments) - 1, 0, -1):
            candidate = segments[number].producers
            if candidate is not None and not candidate.is_reduced:
                first, snapshot = number, candidate
                break
        if snapshot is None:
            producers.clear()
        else:
            producers.restore(snapshot, segments[first].base_offset)
        for segment in segments[first:]:
            for batch in segment.batches():
                header = read_header(batch)
                if header.producer_id >= 0:
                    producers.appended(header, batch, header.base_offset, segment.appended_ms)

    def oldest_age(self, small_bytes: int) -> Age | None:
        """The age of the oldest segment, or None if there is no batch; an active one below `small_bytes` is small."""
        segment = self._segments[0]
        if not segment.size_bytes:
            return None
        kind = CLOSED if segment is not self.active else SMALL if segment.size_bytes < small_bytes else ACTIVE
        return kind, segment.appended_ms, segment.sequence

    def count_outdated(self, retention_ms: int, retention_bytes: int, high_watermark: int, wall_ms: int) -> int:
        """The number of oldest segments that retention deletes; see `Log.apply_retention`.

        Args:
            retention_ms: see there; below 0: no limit.
            retention_bytes: see there; below 0: no limit.
            high_watermark: a segment with records at or above it stays.
            wall_ms: the time, in milliseconds since 1970.
        """
        excess_bytes = self.size_bytes - retention_bytes if retention_bytes >= 0 else 0
        for number, segment in enumerate(self._segments):
            expired = retention_ms >= 0 and 0 <= segment.newest_ms < wall_ms - retention_ms
            too_much = 0 < segment.size_bytes <= excess_bytes
            if not segment.size_bytes or segment.next_offset > high_watermark or not (expired or too_much):
                return number
            excess_bytes -= segment.size_bytes
        return len(self._segments)

    def delete_oldest(self, count: int) -> list[Segment]:
        """Remove the oldest segments; the active one cannot be among them."""
        deleted = self._segments[:count]
        del self._segments[:count]
        self.cuts += 1
        return deleted

    def truncate(self, offset: int) -> int:
        """Remove the batch that contains `offset` and all after it; returns the log's new end offset.

        A segment that loses all its batches is removed too, unless it is the only one.
        """
        segments = self._segments
        del segments[self.number_of(offset) + 1 :]
        index = segments[-1].index_of(offset)
        if index < segments[-1].batch_count:
            offset = min(offset, segments[-1].base_offset_of(index))
            segments[-1].truncate(index)
        if len(segments) > 1 and not segments[-1].size_bytes:
            segments.pop()
        self.active = segments[-1]
        self.cuts += 1
        return offset

    def restart(self, base_offset: int) -> None:
        """Remove all segments, and start again at `base_offset`."""
        self.active = self._new(base_offset, 0, self.active.appended_ms)
        self._segments = [self.active]
        self.cuts += 1

    def replace_oldest(self, count: int, replacement: list[Segment]) -> None:
        """Replace the oldest segments by others, which are smaller."""
        position = self._segments[0].base_position
        self._segments[:count] = replacement
        for segment in self._segments:
            segment.base_position = position
            position += segment.size_bytes
        self.cuts += 1


def _is_full(snapshot: ProducerSnapshot | None) -> bool:
    """Whether it has the state of all producers; None has that of no transaction."""
    return snapshot is not None and not snapshot.is_reduced
