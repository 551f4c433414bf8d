"""Compaction: the log keeps only the newest record of each key.

One pass reads the records that were not compacted yet (the dirty ones) into a map from key to newest offset. Then it
writes all compactable segments anew without the records that the map supersedes, and merges small segments. Batches
keep their offsets, sequences and timestamps. A batch that loses all its records is dropped, unless it is one of the
last five of a known producer (a replica that copies the log must recognise retries) or the last one of the pass
(replicas must agree where the log ends); then its header stays. Control batches, batches of transactions, and batches
whose records cannot be read stay as they are.

A tombstone (a key without a value) stays for delete.retention.ms after the first pass that kept it, so that slow
consumers see it. Its batch carries the time after which it may be dropped (the delete horizon, KIP-534).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.producer_state import ProducerStates
from purgatorio.broker.log.segment import Segment
from purgatorio.protocol.errors import CorruptRecordError
from purgatorio.protocol.records import BatchHeader, Record, TimestampType, build_batch, iter_records, read_header

MAX_KEYS: Final = 1_000_000
"""Keys that one pass remembers; a pass that finds more ends with the segment that it is reading."""


class Compaction:
    """How far a log is compacted, and whether another pass is due.

    Attributes:
        clean_offset: no key has two records below it.
        next_horizon_ms: the time after which the first tombstone may be dropped; None if there is no tombstone.
    """

    __slots__ = ("clean_offset", "next_horizon_ms")

    def __init__(self) -> None:
        self.clean_offset = 0
        self.next_horizon_ms: int | None = None

    def plan(
        self, segments: Sequence[Segment], config: LogConfig, limit_offset: int, wall_ms: int
    ) -> CompactionJob | None:
        """The next pass over a log, or None if none is due.

        Args:
            segments: the segments without the active one.
            config: the topic's; the dirty ratio and the lags decide whether a pass is due and how far it goes.
            limit_offset: the pass does not touch records at or above it.
            wall_ms: the time, in milliseconds since 1970.
        """
        newest_ms = wall_ms - config.min_compaction_lag_ms
        count = 0
        while count < len(segments) and segments[count].next_offset <= limit_offset:
            if config.min_compaction_lag_ms and segments[count].newest_ms > newest_ms:
                break
            count += 1
        compactable = segments[:count]
        dirty = [segment for segment in compactable if segment.next_offset > self.clean_offset]
        if not self._is_due(compactable, dirty, config, wall_ms):
            return None
        return CompactionJob(compactable, len(compactable) - len(dirty), config, wall_ms)

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
        segment_count: the number of segments that its result replaces; known after `build`.
        end_offset: the log is compacted below it afterwards; known after `build`.
        next_horizon_ms: the time after which the first kept tombstone may be dropped, or None; known after `build`.
    """

    def __init__(self, segments: Sequence[Segment], first_dirty: int, config: LogConfig, wall_ms: int) -> None:
        self._segments = list(segments)
        self._first_dirty = first_dirty
        self._delete_retention_ms = config.delete_retention_ms
        self._wall_ms = wall_ms
        self._newest: dict[bytes, int] = {}
        self._cleaned: list[tuple[Segment, bytes]] = []
        self.next_horizon_ms: int | None = None

    @property
    def segment_count(self) -> int:
        """The number of segments that its result replaces."""
        return len(self._segments)

    @property
    def end_offset(self) -> int:
        """The offset after the last record of the pass."""
        return self._segments[-1].next_offset

    def build(self, producers: ProducerStates) -> Iterator[None]:
        """Run the pass, in steps of one batch."""
        yield from self._map_keys()
        last_segment = self._segments[-1]
        for segment in self._segments:
            last = len(segment.batches) - 1
            for index, batch in enumerate(segment.batches):
                header = read_header(batch)
                must_stay = (segment is last_segment and index == last) or _is_in_duplicate_window(header, producers)
                cleaned = self._clean(header, batch, must_stay)
                if cleaned is not None:
                    self._cleaned.append((segment, cleaned))
                yield

    def result(self, segment_bytes: int) -> list[Segment]:
        """The segments that replace those of the pass; `base_position` is not set."""
        merged: list[Segment] = []
        for source, batch in self._cleaned:
            if not merged or merged[-1].size_bytes + len(batch) > segment_bytes:
                header = read_header(batch)
                base_offset = source.base_offset if not merged else header.base_offset
                merged.append(Segment(base_offset, 0, created_ms=source.created_ms, sequence=source.sequence))
            header = read_header(batch)
            merged[-1].append(batch, header.last_offset, header.max_timestamp, source.appended_ms)
        return merged

    def _map_keys(self) -> Iterator[None]:
        newest = self._newest
        for number in range(self._first_dirty, len(self._segments)):
            for batch in self._segments[number].batches:
                for record in _replaceable(read_header(batch), batch) or ():
                    if record.key is not None:
                        newest[record.key] = record.offset
                yield
            if len(newest) > MAX_KEYS:
                del self._segments[number + 1 :]
                return

    def _clean(self, header: BatchHeader, batch: bytes, must_stay: bool) -> bytes | None:
        """The batch without superseded records; None if it is dropped."""
        records = _replaceable(header, batch)
        if records is None:
            return batch
        horizon_ms = header.delete_horizon_ms
        expired = horizon_ms is not None and self._wall_ms >= horizon_ms
        kept = [record for record in records if self._stays(record, expired)]
        if any(record.value is None for record in kept):
            if horizon_ms is None:
                horizon_ms = self._wall_ms + self._delete_retention_ms
            self.next_horizon_ms = min(horizon_ms, self.next_horizon_ms or horizon_ms)
        if kept and len(kept) == len(records) and horizon_ms == header.delete_horizon_ms:
            return batch
        if not kept and not must_stay:
            return None
        return _rebuilt(header, kept, horizon_ms if kept else None)

    def _stays(self, record: Record, tombstones_expired: bool) -> bool:
        if record.key is None or (record.value is None and tombstones_expired):
            return False
        return record.offset >= self._newest.get(record.key, -1)


def _replaceable(header: BatchHeader, batch: bytes) -> list[Record] | None:
    """The records of a batch, or None if compaction must keep the batch as it is."""
    if header.is_control or header.is_transactional:
        return None
    try:
        return list(iter_records(batch))
    except CorruptRecordError:
        return None


def _is_in_duplicate_window(header: BatchHeader, producers: ProducerStates) -> bool:
    """Whether a batch is one of the last of a producer that may still send it again.

    A replica that begins empty learns the producers' sequences from the batches alone. If the window were not whole
    there, it would refuse a retry for ever once it leads.
    """
    state = producers.get(header.producer_id) if header.has_producer_id else None
    return state is not None and any(batch.last_offset == header.last_offset for batch in state.batches)


def _rebuilt(header: BatchHeader, records: list[Record], delete_horizon_ms: int | None) -> bytes:
    """The same batch with other records."""
    append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return build_batch(
        records,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        compression=header.compression,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.partition_leader_epoch,
        log_append_time_ms=header.max_timestamp if append_time else None,
        delete_horizon_ms=delete_horizon_ms,
    )
