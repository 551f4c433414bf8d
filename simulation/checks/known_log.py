"""The batches of one replica's log, read as they come: the cost follows what was appended, deleted or truncated."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import NamedTuple

from purgatorio.broker.log.arena import Block
from purgatorio.broker.log.segments import Segments
from purgatorio.broker.replica.partition import Partition
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.records import read_header

_base_offset = attrgetter("base_offset")
_last_offset = attrgetter("last_offset")


class KnownBatch(NamedTuple):
    """The identity of a batch: two of the same offset and epoch are the same, or a log is broken."""

    base_offset: int
    last_offset: int
    epoch: int
    crc: int


class _Parsed(NamedTuple):
    raw: bytes
    batch: KnownBatch
    hash: int
    producer_id: int


class BatchPool:
    """The batches of all replicas of a partition: those of a replica that is copied anew need not be parsed again."""

    def __init__(self) -> None:
        self._by_last_offset: dict[int, _Parsed] = {}

    def parse(self, raw: Buffer, last_offset: int) -> _Parsed:
        """Return what is in a batch."""
        parsed = self._by_last_offset.get(last_offset)
        if parsed is None or parsed.raw != raw:
            header = read_header(raw)
            batch = KnownBatch(header.base_offset, header.last_offset, header.partition_leader_epoch, header.crc)
            parsed = self._by_last_offset[last_offset] = _Parsed(bytes(raw), batch, hash(batch), header.producer_id)
        return parsed


class KnownLog:
    """The batches and producers of one replica.

    A log appends, drops its oldest batches and truncates its newest ones: while it holds the newest batch that was
    read, it holds all before that. Compaction replaces batches anywhere, so a log that is compacted is not read. The
    first `checked` batches were compared with the committed ones.
    """

    def __init__(self, partition: Partition, pool: BatchPool, host: str) -> None:
        self.partition = partition
        self.host = host
        self._pool = pool
        self.batches: list[KnownBatch] = []
        self.checked = 0
        self._places: list[tuple[Block, int]] = []
        self._sums: list[int] = []  # of the hashes up to and including each batch; only differences have a meaning
        self._cuts = -1
        self._windows: dict[int, int] = {}
        self._windows_sum = 0

    def read_on(self) -> None:
        """Drop the batches that were deleted or truncated, and read the new ones."""
        segments = self.partition.log._segments
        if self.is_compacted:
            self._drop_first(len(self.batches))
            return
        if segments.cuts != self._cuts:
            self._cuts = segments.cuts
            self._drop_first(bisect_left(self.batches, segments[0].base_offset, key=_last_offset))
            self._drop_truncated(segments)
            self._forget_producers()
        self._look_at_producers(self._append_new(segments))

    @property
    def is_compacted(self) -> bool:
        """Whether compaction may replace batches."""
        return self.partition.log.config.compact

    def _drop_first(self, count: int) -> None:
        del self.batches[:count], self._places[:count], self._sums[:count]
        self.checked = max(0, self.checked - count)

    def _drop_truncated(self, segments: Segments) -> None:
        while self.batches and not _holds(segments, self.batches[-1], self._places[-1]):
            del self.batches[-1], self._places[-1], self._sums[-1]
        self.checked = min(self.checked, len(self.batches))

    def _append_new(self, segments: Segments) -> dict[int, None]:
        """Read the new batches, and return their producers' ids."""
        touched: dict[int, None] = {}
        next_offset = self.batches[-1].last_offset + 1 if self.batches else -1
        if self.batches and next_offset == self.partition.log.log_end_offset:
            return touched
        for number in range(segments.number_of(next_offset), len(segments)):
            segment = segments[number]
            for index in range(segment.index_of(next_offset), segment.batch_count):
                parsed = self._pool.parse(segment.batch(index), segment.last_offsets[index])
                self.batches.append(parsed.batch)
                self._places.append(segment.place_of(index))
                self._sums.append((self._sums[-1] if self._sums else 0) + parsed.hash)
                touched[parsed.producer_id] = None
        return touched

    def _forget_producers(self) -> None:
        self._windows, self._windows_sum = {}, 0

    def _look_at_producers(self, touched: dict[int, None]) -> None:
        """Hash what the log knows of the producers with new batches; of all, if any was forgotten or restored."""
        producers = self.partition.log.producers
        for producer_id in touched:
            self._look_at(producer_id)
        if len(self._windows) != len(producers):
            self._forget_producers()
            for producer_id, _ in producers:
                self._look_at(producer_id)

    def _look_at(self, producer_id: int) -> None:
        state = self.partition.log.producers.get(producer_id)
        if state is not None:
            transaction = state.transaction_start, state.marker_offset, state.coordinator_epoch
            new = hash((producer_id, state.epoch, *transaction, *state.batches))
            self._windows_sum = self._windows_sum - self._windows.get(producer_id, 0) + new
            self._windows[producer_id] = new

    # --- what was read ---

    @property
    def memory_bytes(self) -> int:
        """Memory of the log, as its memory budget has to count it."""
        return self.partition.log._segments.memory_bytes

    @property
    def uncommitted_bytes(self) -> int:
        """Memory of the records from the high watermark on, as the memory budget has to count it."""
        log = self.partition.log
        if log.high_watermark >= log.log_end_offset:
            return 0
        return log._segments.memory_between(log.high_watermark, log.log_end_offset)

    def differs_from(self, other: KnownLog) -> bool:
        """Whether two logs that end in the same batch differ from the first offset on that both have."""
        start = max(self.batches[0].base_offset, other.batches[0].base_offset)
        return self._range_from(start) != other._range_from(start)

    def _range_from(self, offset: int) -> tuple[int, int]:
        """Return the number of batches from an offset on, and the sum of their hashes."""
        first = bisect_left(self.batches, offset, key=_base_offset)
        return len(self.batches) - first, self._sums[-1] - self._sums[first] + hash(self.batches[first])

    def producers_differ_from(self, other: KnownLog) -> bool:
        """Whether the logs know different epochs, batches or transactions of their producers.

        A log forgets the aborts before its local start, of which other replicas hear later: what both shall know is
        compared.
        """
        start = max(self.partition.log.local_start_offset, other.partition.log.local_start_offset)
        return self._producers(start) != other._producers(start)

    def _producers(self, start: int) -> tuple[object, ...]:
        aborted = self.partition.log.producers.aborted
        first = bisect_left(aborted._marker_offsets, start)
        return len(self._windows), self._windows_sum, [column[first:] for column in aborted._columns()]

    @property
    def has_first_batch(self) -> bool:
        """Whether no batch was deleted, but for the tier, so that the replica knows every batch of every producer."""
        if self.partition.log.is_tiered:
            return self.partition.log.log_start_offset == 0
        return bool(self.batches) and self.batches[0].base_offset == 0


def _holds(segments: Segments, batch: KnownBatch, place: tuple[Block, int]) -> bool:
    segment = segments[segments.number_of(batch.base_offset)]
    index = segment.index_of(batch.base_offset)
    return index < segment.batch_count and segment.place_of(index) == place
