"""A run of batches of a log, indexed as it grows."""

# compiled: docs/compiled.md

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

from purgatorio.broker.log.producer_state import ProducerSnapshot
from purgatorio.broker.time.garbage import unvisited

BATCH_OVERHEAD_BYTES: Final = 112
"""Memory of a batch besides its bytes: the object's header, three index entries, a slot, room to grow."""

_OFFSET_BYTES: Final = 8


class Segment:
    """Batches in the order of their offsets, with indexes: an append takes O(1), a look-up O(log n).

    The indexes run parallel to `batches`. They hold last offsets, not base offsets: the first batch whose last offset
    is not below `o` contains `o`, or is the next one if compaction left a gap.

    Attributes:
        base_offset: no offset in the segment is lower.
        base_position: bytes of the log before the segment, counted from an arbitrary point; only differences have a
            meaning.
        ends: bytes of the segment up to the end of each batch.
        max_timestamps: the highest timestamp up to and including each batch, so that they ascend.
        created_ms: wall time of its start.
        appended_ms: wall time of the last append.
        first_timestamp_ms: the max timestamp of the first batch, or −1; a segment's age is counted from it.
        sequence: the order of the segments of all logs by age, for the memory cap.
        producers: the producers' state at the start of the segment, or what is still kept of it; None: nothing.
    """

    __slots__ = (
        "appended_ms",
        "base_offset",
        "base_position",
        "batches",
        "created_ms",
        "ends",
        "first_timestamp_ms",
        "last_offsets",
        "max_timestamps",
        "producers",
        "sequence",
        "size_bytes",
    )

    def __init__(self, base_offset: int, base_position: int, *, created_ms: int, sequence: int) -> None:
        self.base_offset = base_offset
        self.base_position = base_position
        self.created_ms = created_ms
        self.appended_ms = created_ms
        self.first_timestamp_ms = -1
        self.sequence = sequence
        self.producers: ProducerSnapshot | None = None
        self.size_bytes = 0
        self.batches: list[bytes] = unvisited([])
        self.last_offsets = array("q")
        self.ends = array("q")
        self.max_timestamps = array("q")

    def append(self, batch: bytes, last_offset: int, max_timestamp_ms: int, wall_ms: int) -> None:
        """Append a batch."""
        if self.batches:
            highest = self.max_timestamps[-1]
            if highest > max_timestamp_ms:
                max_timestamp_ms = highest
        else:
            self.first_timestamp_ms = max_timestamp_ms
        self.batches.append(batch)
        self.last_offsets.append(last_offset)
        self.size_bytes = end = self.size_bytes + len(batch)
        self.ends.append(end)
        self.max_timestamps.append(max_timestamp_ms)
        self.appended_ms = wall_ms

    @property
    def next_offset(self) -> int:
        """The offset after the last batch."""
        return self.last_offsets[-1] + 1 if self.last_offsets else self.base_offset

    @property
    def memory_bytes(self) -> int:
        """Memory of the segment, with the overhead of its batches."""
        return self.size_bytes + BATCH_OVERHEAD_BYTES * len(self.batches)

    @property
    def max_timestamp_ms(self) -> int:
        """The highest timestamp of its records, or −1."""
        return self.max_timestamps[-1] if self.max_timestamps else -1

    @property
    def newest_ms(self) -> int:
        """The time of its newest record: its highest timestamp, or the time of the last append if no record has one."""
        highest = self.max_timestamp_ms
        return highest if highest >= 0 else self.appended_ms

    def index_of(self, offset: int) -> int:
        """The index of the batch that contains `offset`, or of the next one; the number of batches if there is none."""
        return bisect_left(self.last_offsets, offset)

    def start_of(self, index: int) -> int:
        """Bytes of the segment before the batch at `index`."""
        return self.ends[index - 1] if index else 0

    def base_offset_of(self, index: int) -> int:
        """The base offset of the batch at `index`."""
        return int.from_bytes(self.batches[index][:_OFFSET_BYTES], "big")

    def truncate(self, index: int) -> None:
        """Remove the batch at `index` and all after it."""
        self.size_bytes = self.start_of(index)
        for parallel in (self.batches, self.last_offsets, self.ends, self.max_timestamps):
            del parallel[index:]
        if not index:
            self.first_timestamp_ms = -1
