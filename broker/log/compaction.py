"""Compaction: of all records with one key, only the newest stays.

One pass reads the records that were not compacted yet (the dirty ones) into a map from key to newest offset, and then
writes all compactable segments anew without what that map supersedes, merging small segments. Batches keep their
offsets, sequences and timestamps. A batch that loses all its records goes too, unless it is the last one of a producer
that is still known (its sequence would be lost with it) or the last one of the pass (so that replicas agree where the
log ends); then its header stays. Control batches and batches of transactions are left as they are, and so is a batch
whose records cannot be read.

A tombstone (a key without a value) stays for delete.retention.ms after the first pass that kept it, so that readers who
are behind see it. When it may go is written into its batch (the delete horizon, KIP-534).
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
"""How many keys one pass remembers; when there are more, it ends with the segment in which that happens."""


class Compaction:
    """Up to where a log is compacted, and when there is something to do.

    Attributes:
        clean_offset: below it no key has two records.
        next_horizon_ms: when the first tombstone may go, or None if there is none.
    """

    __slots__ = ("clean_offset", "next_horizon_ms")

    def __init__(self) -> None:
        self.clean_offset = 0
        self.next_horizon_ms: int | None = None

    def plan(
        self, segments: Sequence[Segment], config: LogConfig, limit_offset: int, wall_ms: int
    ) -> CompactionJob | None:
        """The next pass over a log, or None if there is nothing worth doing.

        Args:
            segments: without the active one.
            config: of the topic: the dirty ratio and the lags decide whether there is a pass, and how far it goes.
            limit_offset: what lies at or above is left alone.
            wall_ms: the time.
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
        """Note that the log was cut, and what will follow is dirty."""
        self.clean_offset = min(self.clean_offset, end_offset)

    def done(self, job: CompactionJob) -> None:
        """Note that the outcome of a pass has become the log."""
        self.clean_offset = max(self.clean_offset, job.end_offset)
        self.next_horizon_ms = job.next_horizon_ms


class CompactionJob:
    """One pass over the first segments of a log, none of which is changed by it.

    Attributes:
        segment_count: how many segments it replaces; known when it is built.
        end_offset: below it the log is then compacted; likewise.
        next_horizon_ms: when the first tombstone that was kept may go, or None; likewise.
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
        """How many segments it replaces."""
        return len(self._segments)

    @property
    def end_offset(self) -> int:
        """Where it ends."""
        return self._segments[-1].next_offset

    def build(self, producers: ProducerStates) -> Iterator[None]:
        """Do the pass, in steps of one batch."""
        yield from self._map_keys()
        last_segment = self._segments[-1]
        for segment in self._segments:
            last = len(segment.batches) - 1
            for index, batch in enumerate(segment.batches):
                header = read_header(batch)
                must_stay = (segment is last_segment and index == last) or _is_last_of_producer(header, producers)
                cleaned = self._clean(header, batch, must_stay)
                if cleaned is not None:
                    self._cleaned.append((segment, cleaned))
                yield

    def result(self, segment_bytes: int) -> list[Segment]:
        """What replaces the segments; `base_position` is not set."""
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
        """The batch without what is superseded; None if nothing is left of it."""
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
    """The records of a batch, or None if it is not to be touched."""
    if header.is_control or header.is_transactional:
        return None
    try:
        return list(iter_records(batch))
    except CorruptRecordError:
        return None


def _is_last_of_producer(header: BatchHeader, producers: ProducerStates) -> bool:
    state = producers.get(header.producer_id) if header.has_producer_id else None
    return state is not None and len(state.batches) > 0 and state.batches[-1].last_offset == header.last_offset


def _rebuilt(header: BatchHeader, records: list[Record], delete_horizon_ms: int | None) -> bytes:
    """A batch with other records, else the same."""
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
