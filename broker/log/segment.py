"""A run of batches of a log, indexed as it grows."""

# compiled: docs/compiled.md

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from purgatorio.broker.log.arena import Arena, Block
from purgatorio.broker.log.producer_state import ProducerSnapshot
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.records import place_in

BATCH_OVERHEAD_BYTES: Final = 28
"""Memory of a batch besides its bytes: three index entries, with room to grow."""

EXPECTED_DIVISOR: Final = 4
"""The first blocks of a segment are those that it would get with this part of its expected bytes."""

_OFFSET_BYTES: Final = 8
_start = attrgetter("start")


class Segment:
    """Batches in the order of their offsets, with indexes: an append takes O(1), a look-up O(log n).

    The batches lie one after the other in blocks of memory, whole batches in each. The indexes have an entry for each
    batch. They hold last offsets, not base offsets: the first batch whose last offset is not below `o` contains `o`, or
    is the next one if compaction left a gap.

    Args:
        arena: the memory for its batches.
        expected_bytes: bytes that it will probably get: its first blocks are not as small as those of a new log.

    Attributes:
        base_offset: no offset in the segment is lower.
        base_position: bytes of the log before the segment, counted from an arbitrary point; only differences have a
            meaning.
        block_bytes: memory of its blocks.
        ends: bytes of the segment up to the end of each batch.
        max_timestamps: the highest timestamp up to and including each batch, so that they ascend.
        created_ms: wall time of its start.
        appended_ms: wall time of the last append.
        first_timestamp_ms: the max timestamp of the first batch, or −1; a segment's age is counted from it.
        sequence: the order of the segments of all logs by age, for the memory cap.
        producers: the producers' state at the start of the segment, or what is still kept of it; None: nothing.
    """

    __slots__ = (
        "_arena",
        "_blocks",
        "_expected_bytes",
        "_room",
        "_room_end",
        "_room_start",
        "_tail",
        "appended_ms",
        "base_offset",
        "base_position",
        "block_bytes",
        "created_ms",
        "ends",
        "first_timestamp_ms",
        "last_offsets",
        "max_timestamps",
        "producers",
        "sequence",
        "size_bytes",
    )

    def __init__(
        self,
        base_offset: int,
        base_position: int,
        *,
        created_ms: int,
        sequence: int,
        arena: Arena,
        expected_bytes: int = 0,
    ) -> None:
        self.base_offset = base_offset
        self.base_position = base_position
        self.created_ms = created_ms
        self.appended_ms = created_ms
        self.first_timestamp_ms = -1
        self.sequence = sequence
        self.producers: ProducerSnapshot | None = None
        self.size_bytes = 0
        self.block_bytes = 0
        self._arena = arena
        self._expected_bytes = expected_bytes
        self._blocks: list[Block] = []
        self._tail: Block | None = None
        self._room: memoryview | bytearray | None = None  # the tail's memory
        self._room_start = self._room_end = 0
        self.last_offsets = array("q")
        self.ends = array("q")
        self.max_timestamps = array("q")

    def append(
        self,
        batch: Buffer,
        last_offset: int,
        max_timestamp_ms: int,
        wall_ms: int,
        base_offset: int = -1,
        leader_epoch: int = -1,
    ) -> int:
        """Append a copy of a batch; return by how much `memory_bytes` has grown.

        Args:
            base_offset: if it is not negative, the copy gets it and the leader epoch.

        Raises:
            MemoryError: the system has no memory for it. Nothing was appended.
        """
        start = self.size_bytes
        end = start + len(batch)
        grown_bytes = BATCH_OVERHEAD_BYTES
        if end > self._room_end:
            grown_bytes += self._open_block(end - start)
        room = self._room
        assert room is not None, "it was opened"
        at = start - self._room_start
        room[at : end - self._room_start] = batch
        if base_offset >= 0:
            place_in(room, at, base_offset, leader_epoch)
        if start:
            highest = self.max_timestamps[-1]
            if highest > max_timestamp_ms:
                max_timestamp_ms = highest
        else:
            self.first_timestamp_ms = max_timestamp_ms
        self.last_offsets.append(last_offset)
        self.size_bytes = end
        self.ends.append(end)
        self.max_timestamps.append(max_timestamp_ms)
        self.appended_ms = wall_ms
        return grown_bytes

    def _open_block(self, size_bytes: int) -> int:
        """Begin a block for a batch of this size, and end the last one; return by how much `block_bytes` has grown."""
        before_bytes = self.block_bytes
        block = self._arena.block(size_bytes, max(before_bytes, self._expected_bytes // EXPECTED_DIVISOR))
        block.start = self.size_bytes
        if self._tail is not None:
            self.block_bytes -= self._tail.close(block.start - self._tail.start)
        self._blocks.append(block)
        self._tail = block
        self._room = block.room
        self._room_start = block.start
        self._room_end = block.start + block.capacity_bytes
        self.block_bytes += block.capacity_bytes
        return self.block_bytes - before_bytes

    def close(self) -> int:
        """Append nothing any more; return the memory that the last block gives back."""
        tail, self._tail = self._tail, None
        self._room = None
        self._room_end = self.size_bytes
        given_back = 0 if tail is None else tail.close(self.size_bytes - tail.start)
        self.block_bytes -= given_back
        return given_back

    @property
    def batch_count(self) -> int:
        """The number of batches."""
        return len(self.ends)

    def place_of(self, index: int) -> tuple[Block, int]:
        """The block of the batch at `index`, and where it begins in it. No other batch is ever there."""
        start = self.start_of(index)
        block = self._blocks[bisect_right(self._blocks, start, key=_start) - 1]
        return block, start - block.start

    def batch(self, index: int) -> memoryview:
        """The batch at `index`."""
        block, at = self.place_of(index)
        return self._readable(block)[at : self.ends[index] - block.start]

    def _readable(self, block: Block) -> memoryview:
        """A view of a block: most readers want the tail, whose memory has one already."""
        room = self._room if block is self._tail else None
        return room.toreadonly() if isinstance(room, memoryview) else block.readable

    def batches(self, first: int = 0, stop: int | None = None) -> Iterator[memoryview]:
        """Iterate over the batches from `first` to before `stop`."""
        for index in range(first, self.batch_count if stop is None else stop):
            yield self.batch(index)

    def runs(self, first: int, stop: int) -> list[memoryview]:
        """The bytes of the batches from `first` to before `stop`: whole batches in each."""
        start, end = self.start_of(first), self.start_of(stop)
        blocks = self._blocks
        number = bisect_right(blocks, start, key=_start) - 1
        runs = []
        while start < end:
            block = blocks[number]
            number += 1
            stop_at = blocks[number].start if number < len(blocks) else end
            if stop_at > end:
                stop_at = end
            runs.append(self._readable(block)[start - block.start : stop_at - block.start])
            start = stop_at
        return runs

    @property
    def next_offset(self) -> int:
        """The offset after the last batch."""
        return self.last_offsets[-1] + 1 if self.last_offsets else self.base_offset

    @property
    def memory_bytes(self) -> int:
        """Memory of the segment, with the overhead of its batches."""
        return self.block_bytes + BATCH_OVERHEAD_BYTES * len(self.ends)

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
        return int.from_bytes(self.batch(index)[:_OFFSET_BYTES], "big")

    def truncate(self, index: int) -> None:
        """Remove the batch at `index` and all after it.

        The next batch begins a block: an answer that is on its way may have what was removed.
        """
        self.size_bytes = size_bytes = self.start_of(index)
        for parallel in (self.last_offsets, self.ends, self.max_timestamps):
            del parallel[index:]
        blocks = self._blocks
        while blocks and blocks[-1].start >= size_bytes:
            self.block_bytes -= blocks.pop().capacity_bytes
        self._tail = self._room = None
        self._room_end = size_bytes
        if not index:
            self.first_timestamp_ms = -1
