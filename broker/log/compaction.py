"""Compaction: the log keeps only the newest record of each key.

One pass reads the records that were not compacted yet (the dirty ones) into a map from key to newest offset. Then it
writes all compactable segments anew without the records that the map supersedes, and merges small segments. Batches
keep their offsets, sequences and timestamps. A batch that loses all its records is dropped, unless it is one of the
last five of a known producer (a replica that copies the log must recognise retries) or the last one of the pass
(replicas must agree where the log ends); then its header stays. Batches whose records cannot be read, and those that
unpack to more than `MAX_UNPACKED_BYTES`, stay as they are.

Records of aborted transactions go, and supersede none. An end marker stays until its transaction has no batch any more,
and for delete.retention.ms after the pass that found so, for consumers that have read the batches. The last marker of
each known producer stays: it is what a replica that copies the log learns the coordinator's epoch from.

A batch may have a million records, so a pass reads, encodes and compresses it in steps of bounded work.

A tombstone (a key without a value) stays for delete.retention.ms after the first pass that kept it, so that slow
consumers see it. Its batch carries the time after which it may be dropped (the delete horizon, KIP-534).
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from purgatorio.broker.log.arena import Arena
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.producer_state import ProducerStates, end_marker_in
from purgatorio.broker.log.segment import Segment
from purgatorio.broker.log.transactions import CompactedTransactions
from purgatorio.broker.time.long_work import SLICE, Steps
from purgatorio.protocol.compression import Buffer, compress_steps
from purgatorio.protocol.errors import CorruptRecordError
from purgatorio.protocol.record import Record, RecordsEncoder
from purgatorio.protocol.records import (
    NO_TIMESTAMP,
    BatchHeader,
    TimestampType,
    build_batch,
    iter_records,
    iter_unpacked,
    read_header,
    seal_batch,
    unpack_records,
)

MAX_KEYS: Final = 1_000_000
"""Keys that one pass remembers; a pass that finds more ends with the segment that it is reading."""


MAX_UNPACKED_BYTES: Final = 8 * 1024 * 1024
"""Records of one batch, which a pass unpacks at once: 10 ms for zstd, 25 ms for gzip. Packed, a batch has at most
max.message.bytes, 1 MB by default."""

UNPACKED_PER_COST: Final = 300
"""The bytes that gzip unpacks in a microsecond."""

RECORD_COST: Final = 3
BATCH_COST: Final = 20
"""The cost of reading or writing a record, and that of a batch besides (see `LongWork`)."""


class Compaction:
    """How far a log is compacted, and whether another pass is due.

    Attributes:
        clean_offset: no key has two records below it.
        next_horizon_ms: the time after which the first tombstone or end marker may be dropped; None if none waits.
    """

    __slots__ = ("clean_offset", "next_horizon_ms")

    def __init__(self) -> None:
        self.clean_offset = 0
        self.next_horizon_ms: int | None = None

    def plan(
        self,
        segments: Sequence[Segment],
        config: LogConfig,
        producers: ProducerStates,
        limit_offset: int,
        wall_ms: int,
        arena: Arena,
        *,
        forced: bool = False,
    ) -> CompactionJob | None:
        """The next pass over a log, or None if none is due.

        Args:
            segments: the segments without the active one.
            config: the topic's; the dirty ratio and the lags decide whether a pass is due and how far it goes.
            limit_offset: the pass does not touch records at or above it; at most the last stable offset.
            wall_ms: the time, in milliseconds since 1970.
            arena: the memory for the result.
            forced: whether a pass is due as soon as anything is dirty.
        """
        newest_ms = wall_ms - config.min_compaction_lag_ms
        count = 0
        while count < len(segments) and segments[count].next_offset <= limit_offset:
            if config.min_compaction_lag_ms and segments[count].newest_ms > newest_ms:
                break
            count += 1
        compactable = segments[:count]
        dirty = [segment for segment in compactable if segment.next_offset > self.clean_offset]
        if not (forced and dirty) and not self._is_due(compactable, dirty, config, wall_ms):
            return None
        return CompactionJob(compactable, len(compactable) - len(dirty), config, producers, wall_ms, arena)

    def _is_due(
        self, compactable: Sequence[Segment], dirty: Sequence[Segment], config: LogConfig, wall_ms: int
    ) -> bool:
        if compactable and self.next_horizon_ms is not None and wall_ms >= self.next_horizon_ms:
            return True
        if not dirty:
            return False
        if 0 <= dirty[0].first_timestamp_ms < wall_ms - config.max_compaction_lag_ms:
            return True
        dirty_bytes = sum(segment.size_bytes for segment in dirty)
        total_bytes = sum(segment.size_bytes for segment in compactable)
        return dirty_bytes >= config.min_cleanable_dirty_ratio * total_bytes

    def truncated(self, end_offset: int) -> None:
        """Note that the log was truncated; records appended from here on are dirty."""
        self.clean_offset = min(self.clean_offset, end_offset)

    def done(self, job: CompactionJob) -> None:
        """Note that the result of a pass has replaced its segments."""
        self.clean_offset = max(self.clean_offset, job.end_offset)
        self.next_horizon_ms = job.next_horizon_ms


class CompactionJob:
    """One pass over the first segments of a log; it does not change them.

    Attributes:
        result: the segments that replace those of the pass, after `build`; `base_position` is not set.
        segment_count: the number of segments that its result replaces; known after `build`.
        memory_bytes: memory of the result so far.
        end_offset: the log is compacted below it afterwards; known after `build`.
        next_horizon_ms: the time after which the first kept tombstone or end marker may be dropped, or None; known
            after `build`.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        first_dirty: int,
        config: LogConfig,
        producers: ProducerStates,
        wall_ms: int,
        arena: Arena,
    ) -> None:
        self._arena = arena
        self.memory_bytes = 0
        self._segments = list(segments)
        self._first_dirty = first_dirty
        self._delete_retention_ms = config.delete_retention_ms
        self._wall_ms = wall_ms
        self._producers = producers
        self._transactions = CompactedTransactions(producers.aborted)
        self._newest: dict[bytes, int] = {}
        self.result: list[Segment] = []
        self.next_horizon_ms: int | None = None

    @property
    def segment_count(self) -> int:
        """The number of segments that its result replaces."""
        return len(self._segments)

    @property
    def end_offset(self) -> int:
        """The offset after the last record of the pass."""
        return self._segments[-1].next_offset

    def build(self, segment_bytes: int) -> Steps:
        """Run the pass, in steps.

        Args:
            segment_bytes: the size of the segments of the result.
        """
        yield from self._transactions.load()
        yield from self._map_keys()
        last_segment = self._segments[-1]
        for segment in self._segments:
            last = segment.batch_count - 1
            for index, batch in enumerate(segment.batches()):
                header = read_header(batch)
                must_stay = segment is last_segment and index == last
                if header.is_control:
                    cleaned = self._clean_marker(header, batch, must_stay)
                else:
                    must_stay = must_stay or _is_in_duplicate_window(header, self._producers)
                    cleaned = yield from self._clean(header, batch, must_stay)
                    if cleaned is not None:
                        self._transactions.data_stays(header)
                if cleaned is not None:
                    self._keep(segment, header if cleaned is batch else read_header(cleaned), cleaned, segment_bytes)
                yield BATCH_COST

    def _keep(self, source: Segment, header: BatchHeader, batch: Buffer, segment_bytes: int) -> None:
        """Append a batch to the result."""
        result = self.result
        if not result or result[-1].size_bytes + len(batch) > segment_bytes:
            base_offset = header.base_offset if result else source.base_offset
            if result:
                self.memory_bytes -= result[-1].close()
            made_ms, sequence = source.created_ms, source.sequence
            result.append(Segment(base_offset, 0, created_ms=made_ms, sequence=sequence, arena=self._arena))
        self.memory_bytes += result[-1].append(batch, header.last_offset, header.max_timestamp, source.appended_ms)

    def _map_keys(self) -> Steps:
        newest = self._newest
        for number in range(self._first_dirty, len(self._segments)):
            for batch in self._segments[number].batches():
                yield from self._map_batch(batch)
            if len(newest) > MAX_KEYS:
                del self._segments[number + 1 :]
                return

    def _map_batch(self, batch: Buffer) -> Steps:
        header = read_header(batch)
        records = None
        if not header.is_control and not self._transactions.is_aborted(header):
            records = yield from _readable(header, batch)
        if records is not None:
            newest = self._newest
            for record in records:
                if record.key is not None:
                    newest[record.key] = record.offset
                yield RECORD_COST
        yield BATCH_COST

    def _clean(self, header: BatchHeader, batch: Buffer, must_stay: bool) -> Generator[int, None, Buffer | None]:
        """Return the batch without superseded and aborted records; None if it is dropped."""
        records: Iterable[Record] | None = ()
        if not self._transactions.is_aborted(header):
            records = yield from _readable(header, batch)
        if records is None:
            return batch
        horizon_ms = header.delete_horizon_ms
        expired = horizon_ms is not None and self._wall_ms >= horizon_ms
        kept = yield from self._survey(records, expired)
        if kept.has_tombstone:
            horizon_ms = self._horizon(header)
        if kept.count and kept.count == header.record_count and horizon_ms == header.delete_horizon_ms:
            return batch
        if not kept.count and not must_stay:
            return None
        horizon_ms = horizon_ms if kept.count else None
        encoder = RecordsEncoder(header.base_offset, kept.first_ms if horizon_ms is None else horizon_ms)
        for record in records:
            if self._stays(record, expired):
                encoder.add(record)
            yield RECORD_COST
        return (yield from _rebuilt(header, encoder, horizon_ms))

    def _horizon(self, header: BatchHeader) -> int:
        """The delete horizon of a batch, which begins with this pass if it has none yet."""
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None:
            horizon_ms = self._wall_ms + self._delete_retention_ms
        self.next_horizon_ms = min(horizon_ms, self.next_horizon_ms or horizon_ms)
        return horizon_ms

    def _clean_marker(self, header: BatchHeader, batch: Buffer, must_stay: bool) -> Buffer | None:
        """Return an end marker, with a delete horizon if its transaction has no batch any more; None: it is dropped.

        Other control batches stay, as those that cannot be read.
        """
        if end_marker_in(batch) is None:
            return batch
        has_data = self._transactions.ended(header)
        state = self._producers.get(header.producer_id)
        is_last = state is not None and state.marker_offset == header.base_offset
        if has_data or is_last or must_stay:
            return batch
        if header.delete_horizon_ms is not None and self._wall_ms >= header.delete_horizon_ms:
            return None
        horizon_ms = self._horizon(header)
        return batch if header.delete_horizon_ms is not None else _with_horizon(header, batch, horizon_ms)

    def _survey(self, records: Iterable[Record], tombstones_expired: bool) -> Generator[int, None, _Kept]:
        """Count the records that stay in a batch."""
        kept = _Kept()
        for record in records:
            if self._stays(record, tombstones_expired):
                if not kept.count:
                    kept.first_ms = record.timestamp_ms
                kept.count += 1
                kept.has_tombstone = kept.has_tombstone or record.value is None
            yield RECORD_COST
        return kept

    def _stays(self, record: Record, tombstones_expired: bool) -> bool:
        if record.key is None or (record.value is None and tombstones_expired):
            return False
        return record.offset >= self._newest.get(record.key, -1)


@dataclass(slots=True)
class _Kept:
    """The kept records of a batch: their number, the first timestamp, and whether one is a tombstone."""

    count: int = 0
    first_ms: int = NO_TIMESTAMP
    has_tombstone: bool = False


class _Records:
    """The records of a large batch: read anew by each iteration, since a list of them takes many times their bytes."""

    def __init__(self, header: BatchHeader, data: bytes) -> None:
        self._header = header
        self._data = data

    def __iter__(self) -> Iterator[Record]:
        return iter_unpacked(self._header, self._data)


def _readable(header: BatchHeader, batch: Buffer) -> Generator[int, None, Iterable[Record] | None]:
    """Return the records of a batch, or None if compaction must keep the batch as it is.

    All of them are read once before: no key of a damaged batch may supersede a record.
    """
    try:
        data = unpack_records(header, batch, MAX_UNPACKED_BYTES)
        yield len(data) // UNPACKED_PER_COST
        if RECORD_COST * header.record_count <= SLICE:
            return list(iter_unpacked(header, data))
        for _ in iter_unpacked(header, data):
            yield RECORD_COST
    except CorruptRecordError:
        return None
    return _Records(header, data)


def _is_in_duplicate_window(header: BatchHeader, producers: ProducerStates) -> bool:
    """Whether a batch is one of the last of a producer that may still send it again.

    A replica that begins empty learns the producers' sequences from the batches alone. If the window were not whole
    there, it would refuse a retry for ever once it leads.
    """
    state = producers.get(header.producer_id) if header.has_producer_id else None
    return state is not None and any(batch.last_offset == header.last_offset for batch in state.batches)


def _rebuilt(
    header: BatchHeader, encoder: RecordsEncoder, delete_horizon_ms: int | None
) -> Generator[int, None, bytes]:
    """The same batch with other records."""
    append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    payload = b""
    if encoder.count:
        payload = yield from compress_steps(header.compression, encoder.body)
    return seal_batch(
        encoder,
        payload,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        compression=header.compression,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.partition_leader_epoch,
        transactional=header.is_transactional,
        log_append_time_ms=header.max_timestamp if append_time else None,
        delete_horizon_ms=delete_horizon_ms,
    )


def _with_horizon(header: BatchHeader, batch: Buffer, delete_horizon_ms: int) -> bytes:
    """The same end marker with a delete horizon."""
    append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return build_batch(
        iter_records(batch),
        base_offset=header.base_offset,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.partition_leader_epoch,
        transactional=header.is_transactional,
        control=True,
        log_append_time_ms=header.max_timestamp if append_time else None,
        delete_horizon_ms=delete_horizon_ms,
    )
