"""Finds records by their timestamps, for ListOffsets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from purgatorio.broker.log.segment import Segment
from purgatorio.protocol.errors import CorruptRecordError
from purgatorio.protocol.records import BatchHeader, TimestampType, iter_records, read_header


class TimestampOffset(NamedTuple):
    """A record as ListOffsets answers it."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def find_timestamp(
    segments: Iterable[Segment], timestamp_ms: int, start_offset: int, end_offset: int
) -> TimestampOffset | None:
    """The first record from `start_offset` to before `end_offset` whose timestamp is not before `timestamp_ms`."""
    for segment in segments:
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        first = max(bisect_left(segment.max_timestamps, timestamp_ms), segment.index_of(start_offset))
        for index in range(first, len(segment.batches)):
            batch = segment.batches[index]
            header = read_header(batch)
            if header.base_offset >= end_offset:
                return None
            if header.max_timestamp >= timestamp_ms:
                for record in _records(header, batch, start_offset):
                    if record.timestamp_ms >= timestamp_ms:
                        return record if record.offset < end_offset else None
    return None


def find_max_timestamp(segments: Iterable[Segment], start_offset: int, end_offset: int) -> TimestampOffset | None:
    """The first record of the batches from `start_offset` to before `end_offset` that has their highest timestamp."""
    best: TimestampOffset | None = None
    for segment in segments:
        first, stop = segment.index_of(start_offset), segment.index_of(end_offset)
        if first >= stop or (best is not None and segment.max_timestamps[stop - 1] <= best.timestamp_ms):
            continue
        for header, batch in _newest_first(segment, first, stop):
            if best is not None and header.max_timestamp <= best.timestamp_ms:
                break
            for record in _records(header, batch, start_offset):
                if best is None or record.timestamp_ms > best.timestamp_ms:
                    best = record
    return best


def _newest_first(segment: Segment, first: int, stop: int) -> Iterable[tuple[BatchHeader, bytes]]:
    """The batches of a range that may hold its highest timestamp: one, unless that batch begins before the range."""
    newest = bisect_left(segment.max_timestamps, segment.max_timestamps[stop - 1], 0, stop)
    if newest > first:
        batch = segment.batches[newest]
        return [(read_header(batch), batch)]
    batches = [(read_header(batch), batch) for batch in segment.batches[first:stop]]
    return sorted(batches, key=lambda pair: -pair[0].max_timestamp)


def _records(header: BatchHeader, batch: bytes, start_offset: int) -> Iterator[TimestampOffset]:
    """The records of a batch from `start_offset` on; only the first if all have the same timestamp, or cannot be read.

    The broker does not unpack a producer's batch when it appends it, so the records may be garbage; then the header's
    timestamp is used.
    """
    epoch = header.partition_leader_epoch
    if not header.record_count:
        return
    first = TimestampOffset(max(header.base_offset, start_offset), header.max_timestamp, epoch)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        yield first
        return
    try:
        for record in iter_records(batch):
            if record.offset >= start_offset:
                yield TimestampOffset(record.offset, record.timestamp_ms, epoch)
    except CorruptRecordError:
        yield first
