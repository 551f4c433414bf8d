"""Finds records by their timestamps, for ListOffsets.

A batch's header has its highest timestamp, but a producer may overstate it, and a batch may unpack to a thousand
times its size. So the work for one request has a budget. A look-up that has used it up answers with the start of the
next batch that would have to be unpacked: an offset not after the wanted one, from which a consumer reads a few records
more than it asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from purgatorio.broker.log.segment import Segment
from purgatorio.protocol.compression import Buffer, decompress_within
from purgatorio.protocol.errors import CorruptRecordError
from purgatorio.protocol.records import (
    HEADER_SIZE,
    BatchHeader,
    TimestampType,
    iter_batches,
    iter_places,
    read_header,
)

MAX_UNPACKED_BYTES: Final = 8 * 1024 * 1024
"""Decompressed records that one request may look at: 10 to 25 ms for the slowest codec."""
MAX_LOOKS: Final = 10_000
"""Headers and records that one request may look at, of 1 to 3 µs each."""


class LookUpBudget:
    """The budget that is left for the look-ups of one request.

    Attributes:
        unpacked_bytes: decompressed records.
        looks: headers and records.
    """

    __slots__ = ("looks", "unpacked_bytes")

    def __init__(self) -> None:
        self.unpacked_bytes = MAX_UNPACKED_BYTES
        self.looks = MAX_LOOKS

    @property
    def is_spent(self) -> bool:
        """Whether nothing more can be looked at."""
        return self.looks <= 0 or self.unpacked_bytes <= 0


class TimestampOffset(NamedTuple):
    """A record as ListOffsets answers it."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def find_timestamp(
    segments: Iterable[Segment], timestamp_ms: int, start_offset: int, end_offset: int, budget: LookUpBudget
) -> TimestampOffset | None:
    """The first record from `start_offset` to before `end_offset` whose timestamp is not before `timestamp_ms`."""
    for segment in segments:
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        first = max(bisect_left(segment.max_timestamps, timestamp_ms), segment.index_of(start_offset))
        for index in range(first, segment.batch_count):
            batch = segment.batch(index)
            header = read_header(batch)
            if header.base_offset >= end_offset:
                return None
            if budget.is_spent:
                return _start_of(header, start_offset)
            budget.looks -= 1
            if header.max_timestamp >= timestamp_ms:
                for record in _records(header, batch, start_offset, budget):
                    if record.timestamp_ms >= timestamp_ms:
                        return record if record.offset < end_offset else None
    return None


def find_timestamp_in(
    batches: Buffer, timestamp_ms: int, start_offset: int, end_offset: int, budget: LookUpBudget
) -> TimestampOffset | None:
    """The same in batches that lie one behind the other, such as were read from the tier."""
    for header, batch in iter_batches(batches):
        if header.last_offset < start_offset or header.max_timestamp < timestamp_ms:
            continue
        if header.base_offset >= end_offset:
            return None
        if budget.is_spent:
            return _start_of(header, start_offset)
        budget.looks -= 1
        for record in _records(header, batch, start_offset, budget):
            if record.timestamp_ms >= timestamp_ms:
                return record if record.offset < end_offset else None
    return None


def find_max_timestamp(
    segments: Iterable[Segment], start_offset: int, end_offset: int, budget: LookUpBudget
) -> TimestampOffset | None:
    """The first record of the batches from `start_offset` to before `end_offset` that has their highest timestamp."""
    best: TimestampOffset | None = None
    for segment in segments:
        first, stop = segment.index_of(start_offset), segment.index_of(end_offset)
        if first >= stop or (best is not None and segment.max_timestamps[stop - 1] <= best.timestamp_ms):
            continue
        for header, batch in _newest_first(segment, first, stop, budget):
            if best is not None and header.max_timestamp <= best.timestamp_ms:
                break
            for record in _records(header, batch, start_offset, budget):
                if best is None or record.timestamp_ms > best.timestamp_ms:
                    best = record
    return best


def _newest_first(
    segment: Segment, first: int, stop: int, budget: LookUpBudget
) -> Iterable[tuple[BatchHeader, Buffer]]:
    """The batches of a range that may hold its highest timestamp: one, unless that batch begins before the range."""
    newest = bisect_left(segment.max_timestamps, segment.max_timestamps[stop - 1], 0, stop)
    if newest > first or stop - first > budget.looks:
        batch = segment.batch(max(newest, first))
        return [(read_header(batch), batch)]
    budget.looks -= stop - first
    batches = [(read_header(batch), batch) for batch in segment.batches(first, stop)]
    return sorted(batches, key=lambda pair: -pair[0].max_timestamp)


def _start_of(header: BatchHeader, start_offset: int) -> TimestampOffset:
    """The answer for a batch whose records are not read: its start, and its header's timestamp."""
    offset = max(header.base_offset, start_offset)
    return TimestampOffset(offset, header.max_timestamp, header.partition_leader_epoch)


def _records(header: BatchHeader, batch: Buffer, start_offset: int, budget: LookUpBudget) -> Iterator[TimestampOffset]:
    """The records of a batch from `start_offset` on; only the first if all have the same timestamp, or cannot be read.

    The broker does not unpack a producer's batch when it appends it, so the records may be garbage; then the header's
    timestamp is used. So it is from the record on for which the budget does not suffice.
    """
    if not header.record_count:
        return
    first = _start_of(header, start_offset)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME or budget.is_spent:
        yield first
        return
    try:
        payload = memoryview(batch)[HEADER_SIZE : header.size_bytes]
        data, cost_bytes = decompress_within(header.compression, payload, budget.unpacked_bytes)
    except CorruptRecordError:  # which may have cost as much as anything
        budget.unpacked_bytes = 0
        yield first
        return
    budget.unpacked_bytes -= cost_bytes
    try:
        for offset, timestamp_ms in iter_places(header, data):
            budget.looks -= 1
            if offset >= start_offset:
                spent = budget.looks <= 0
                if spent:
                    timestamp_ms = header.max_timestamp
                yield TimestampOffset(offset, timestamp_ms, header.partition_leader_epoch)
                if spent:
                    return
    except CorruptRecordError:
        yield first
