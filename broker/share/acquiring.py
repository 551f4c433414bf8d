"""Which records a fetch acquires: the rules of KIP-932 and KIP-1206.

* Records that became available again come first, then new ones, as far as the limit of locks allows.
* MaxRecords is a hard limit in record-limit mode. In batch-optimized mode it is a soft one: the record batch in which
  it is reached is acquired to its end.
* In batch-optimized mode BatchSize cuts what is acquired into parts, each with a lock of its own. A part ends where a
  record batch does, as soon as it has this many records.
* Records that were delivered often are delivered with fewer others, half as many each time, and at their last attempt
  alone: a record that makes members fail shall not take its neighbours with it.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.share.in_flight import ARCHIVED, AVAILABLE, InFlightBatch, RecordsInFlight

NEVER_ISOLATED_BELOW: Final = 2
"""The fewest deliveries after which a record is delivered with fewer others; a limit of so many has no last attempt."""


class AcquireMode(enum.IntEnum):
    """How MaxRecords of a ShareFetch is meant (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class AcquireLimits(NamedTuple):
    """How much a share fetch acquires.

    Attributes:
        max_bytes: of record batches; the first one may be larger (KIP-74).
        max_records: of records; how strictly, the mode says (KIP-1206).
        batch_size: the records that one acknowledgement should name, at most; see `Acquisition`.
    """

    max_bytes: int
    max_records: int
    batch_size: int
    mode: AcquireMode


class AcquiredPart(NamedTuple):
    """Records that a member may process: a part of those in a fetch's answer, with one lock."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Offsets(NamedTuple):
    """Offsets from the first to the last one, both included."""

    first_offset: int
    last_offset: int


class ReadBatches(NamedTuple):
    """The batches that a share fetch has read from the log.

    Attributes:
        fetch_offset: the offset that was read from. There are no records between it and the first batch.
        batches: the offsets of each record batch, ascending. The first one may begin below the fetch offset.
        undelivered: offsets among these that no member gets: aborted transactions, under read_committed; ascending.
    """

    fetch_offset: int
    batches: Sequence[Offsets]
    undelivered: Sequence[Offsets] = ()


class Acquisition:
    """The records that one fetch acquires of one partition.

    Args:
        max_parts: the most parts, each of which gets a lock; the last one is larger than BatchSize if it has to be.
        lock: called with each acquired batch, to lock it for the member that fetches.
        give_up: called with an available batch that reached the delivery limit, since that was lowered; it makes the
            batch unavailable.
    """

    __slots__ = (
        "_acquired",
        "_bases",
        "_batch_size",
        "_batches",
        "_delivery_limit",
        "_give_up",
        "_isolated_left",
        "_lock",
        "_max_locks",
        "_max_parts",
        "_mode",
        "_records",
        "_records_left",
    )

    def __init__(
        self,
        records: RecordsInFlight,
        settings: ShareSettings,
        limits: AcquireLimits,
        batches: Sequence[Offsets],
        *,
        max_parts: int,
        lock: Callable[[InFlightBatch], None],
        give_up: Callable[[InFlightBatch], None],
    ) -> None:
        self._records = records
        self._delivery_limit = settings.delivery_count_limit
        self._max_locks = settings.max_record_locks
        self._max_parts = max_parts
        self._mode = limits.mode
        self._records_left = limits.max_records
        self._batch_size = max(1, limits.batch_size)
        self._batches = batches
        self._bases = [batch.first_offset for batch in batches]
        self._lock = lock
        self._give_up = give_up
        self._isolated_left = -1
        """How many more records that were delivered often may be delivered together; -1: none is among them."""
        self._acquired: list[AcquiredPart] = []

    def run(self, undelivered: Sequence[Offsets]) -> list[AcquiredPart]:
        """Acquire what there is, and return it in ascending order.

        Args:
            undelivered: the offsets that no member gets, ascending.
        """
        records = self._records
        for each in undelivered:
            self._archive(max(each.first_offset, records.start_offset), min(each.last_offset, records.end_offset))
        last_offset = self._batches[-1].last_offset
        first_offset = max(self._batches[0].first_offset, records.start_offset)
        if self._take_available(first_offset, min(last_offset, records.end_offset)):
            self._take_new(last_offset, undelivered)
        return self._acquired

    def _archive(self, first_offset: int, last_offset: int) -> None:
        """Archive the available records of a range."""
        records = self._records
        while (batch := records.next_available(first_offset, last_offset)) is not None:
            for each in records.cut(batch.first_offset, min(batch.last_offset, last_offset)):
                records.settle(each, ARCHIVED)

    # --- records that were in flight before ---

    def _take_available(self, first_offset: int, last_offset: int) -> bool:
        """Acquire records of this range that are available; return whether new ones may follow."""
        while self._records_left > 0 and len(self._acquired) < self._max_parts:
            batch = self._records.next_available(first_offset, last_offset)
            if batch is None:
                return self._isolated_left < 0
            if batch.delivery_count >= self._delivery_limit:
                self._give_up(batch)
                continue
            end_offset = self._end_of(batch, min(batch.last_offset, last_offset))
            if end_offset is None:
                return False
            (taken,) = self._records.cut(batch.first_offset, end_offset)
            self._take(taken)
            first_offset = end_offset + 1
        return False

    def _end_of(self, batch: InFlightBatch, last_offset: int) -> int | None:
        """Return how far to acquire a batch that may be acquired to `last_offset`; None: nothing of it now."""
        delivery_count = batch.delivery_count
        if delivery_count < isolated_from(self._delivery_limit):
            if self._isolated_left >= 0:
                return None
            return self._limited(batch.first_offset, last_offset, self._records_left)
        if self._isolated_left < 0:
            if self._acquired:
                return None
            self._isolated_left = max(1, batch.delivered_with // 2)
        if delivery_count == self._delivery_limit - 1 >= NEVER_ISOLATED_BELOW:
            if self._acquired:
                return None
            self._isolated_left = 1
        count = min(self._isolated_left, self._records_left)
        return min(last_offset, batch.first_offset + count - 1) if count > 0 else None

    # --- new records ---

    def _take_new(self, last_offset: int, undelivered: Sequence[Offsets]) -> None:
        """Acquire records from the end offset on; those that no member gets become holes."""
        records = self._records
        for first_offset, hole_end in [*undelivered, Offsets(last_offset + 1, last_offset)]:
            if first_offset - 1 > records.end_offset and not self._take_up_to(first_offset - 1):
                return
            if hole_end > records.end_offset:
                records.append(hole_end, ARCHIVED, 0)

    def _take_up_to(self, last_offset: int) -> bool:
        """Acquire records from the end offset to this one; return whether the limits allowed all of them."""
        records = self._records
        room = min(self._records_left, self._max_locks - records.record_count)
        if room <= 0 or len(self._acquired) == self._max_parts:
            return False
        end_offset = self._limited(records.end_offset + 1, last_offset, room)
        batch = records.append(end_offset, AVAILABLE, 0)
        self._take(batch)
        return end_offset == last_offset

    # --- both ---

    def _limited(self, first_offset: int, last_offset: int, count: int) -> int:
        """Return where to end for at most this many records, or up to a record batch more if the limit is soft."""
        end_offset = first_offset + count - 1
        if end_offset >= last_offset:
            return last_offset
        if self._mode is AcquireMode.BATCH_OPTIMIZED:
            within = self._batches[bisect_right(self._bases, end_offset) - 1]
            end_offset = max(end_offset, within.last_offset)
        return min(end_offset, last_offset)

    def _take(self, batch: InFlightBatch) -> None:
        """Acquire a batch whole, in parts of BatchSize."""
        records, first_offset, last_offset = self._records, batch.first_offset, batch.last_offset
        together = 0
        if self._isolated_left >= 0:
            together = self._isolated_left
            self._isolated_left -= batch.count
        self._records_left -= batch.count
        if self._mode is AcquireMode.BATCH_OPTIMIZED and batch.count > self._batch_size:
            bases = self._bases
            for base in bases[bisect_right(bases, first_offset) : bisect_right(bases, last_offset)]:
                if base - first_offset >= self._batch_size and len(self._acquired) + 1 < self._max_parts:
                    (part,) = records.cut(first_offset, base - 1)
                    self._lock_part(part, together)
                    first_offset = base
            (batch,) = records.cut(first_offset, last_offset)
        self._lock_part(batch, together)

    def _lock_part(self, part: InFlightBatch, together: int) -> None:
        self._records.acquire(part, together or part.count)
        self._lock(part)
        self._acquired.append(AcquiredPart(part.first_offset, part.last_offset, part.delivery_count))


def isolated_from(delivery_limit: int) -> int:
    """Return after how many deliveries a record is delivered with fewer others each time."""
    return max(NEVER_ISOLATED_BELOW, -(-delivery_limit // 2))
