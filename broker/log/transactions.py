"""The transactions of one log: where readers have to stop, and which records were aborted (KIP-98).

A transaction is open from its first batch to its end marker. It holds the last stable offset until its marker is
committed. An aborted one is remembered for as long as the log has its marker: fetch responses list it for
read_committed consumers, which drop its records.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.records import BatchHeader


class EndedTransaction(NamedTuple):
    """A transaction whose marker is in the log."""

    producer_id: int
    first_offset: int
    marker_offset: int


class AbortedTxn(NamedTuple):
    """An aborted transaction.

    Attributes:
        producer_id: its producer.
        first_offset: the offset of its first record.
        marker_offset: the offset of its abort marker.
        stable_offset: the last stable offset behind the marker, once that is committed: the start of the oldest
            transaction that was open then, or the offset after the marker.
    """

    producer_id: int
    first_offset: int
    marker_offset: int
    stable_offset: int


class AbortedTransactions:
    """The aborted transactions of a log, in the order of their markers; 32 bytes for each marker in the log."""

    __slots__ = ("_first_offsets", "_marker_offsets", "_producer_ids", "_stable_offsets")

    def __init__(self) -> None:
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._marker_offsets = array("q")
        self._stable_offsets = array("q")

    def __len__(self) -> int:
        return len(self._marker_offsets)

    def __iter__(self) -> Iterator[AbortedTxn]:
        for index in range(len(self)):
            yield self._at(index)

    def _at(self, index: int) -> AbortedTxn:
        return AbortedTxn(
            self._producer_ids[index],
            self._first_offsets[index],
            self._marker_offsets[index],
            self._stable_offsets[index],
        )

    @property
    def last(self) -> AbortedTxn | None:
        """The one whose marker came last; None if there is none."""
        return self._at(-1) if self._marker_offsets else None

    def add(self, transaction: AbortedTxn) -> None:
        """Remember a transaction, whose marker lies after those of the others."""
        self._producer_ids.append(transaction.producer_id)
        self._first_offsets.append(transaction.first_offset)
        self._marker_offsets.append(transaction.marker_offset)
        self._stable_offsets.append(transaction.stable_offset)

    def overlapping(self, start_offset: int, end_offset: int) -> tuple[array[int], array[int]]:
        """Return the first offsets and producer ids of the transactions with a part in [start, end), by first offsets.

        One whose marker lies before the start is not among them: a reader forgets an aborted transaction at its marker,
        and so would drop that producer's later records.
        """
        if not self._marker_offsets or start_offset >= end_offset:
            return array("q"), array("q")
        first = bisect_left(self._marker_offsets, start_offset)
        # Behind a marker with this stable offset, all transactions begin at the end or later. Stable offsets ascend.
        last = bisect_left(self._stable_offsets, end_offset, first) + 1
        first_offsets, producer_ids = self._first_offsets[first:last], self._producer_ids[first:last]
        # kafkajs takes the transactions in the order of the response. Mostly it is that of the markers.
        if sorted(first_offsets) != first_offsets.tolist():
            found = sorted(zip(first_offsets, producer_ids, strict=True))
            first_offsets = array("q", [first_offset for first_offset, _ in found])
            producer_ids = array("q", [producer_id for _, producer_id in found])
        end = bisect_left(first_offsets, end_offset)
        return first_offsets[:end], producer_ids[:end]

    def ended_in(self, start_offset: int, end_offset: int) -> list[AbortedTxn]:
        """Return those whose markers lie in [start, end)."""
        first = bisect_left(self._marker_offsets, start_offset)
        return [self._at(index) for index in range(first, bisect_left(self._marker_offsets, end_offset, first))]

    def copy(self) -> AbortedTransactions:
        """Return a copy that does not change with these."""
        other = AbortedTransactions()
        other._producer_ids = self._producer_ids[:]
        other._first_offsets = self._first_offsets[:]
        other._marker_offsets = self._marker_offsets[:]
        other._stable_offsets = self._stable_offsets[:]
        return other

    def truncate(self, offset: int) -> None:
        """Forget those whose markers lie at or behind an offset."""
        index = bisect_left(self._marker_offsets, offset)
        for column in self._columns():
            del column[index:]

    def delete_before(self, offset: int) -> None:
        """Forget those whose markers lie before an offset."""
        index = bisect_left(self._marker_offsets, offset)
        if index:
            for column in self._columns():
                del column[:index]

    def _columns(self) -> tuple[array[int], ...]:
        return self._producer_ids, self._first_offsets, self._marker_offsets, self._stable_offsets


class UnstableTransactions:
    """The transactions that hold the last stable offset: the open ones, and ended ones with uncommitted markers.

    Attributes:
        by_start: the producer id of each, by its first offset. New ones begin behind the others, so the order is that
            of the offsets.
    """

    __slots__ = ("_ended", "_open", "by_start")

    def __init__(self) -> None:
        self.by_start: dict[int, int] = {}
        self._open: dict[int, int] = {}  # likewise, without those that have ended
        self._ended: deque[EndedTransaction] = deque()  # in the order of the markers

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Note the first batch of a transaction, which lies behind the first batches of the others."""
        self.by_start[first_offset] = self._open[first_offset] = producer_id

    def end(self, producer_id: int, first_offset: int, marker_offset: int) -> None:
        """Note the end marker of an open transaction."""
        del self._open[first_offset]
        self._ended.append(EndedTransaction(producer_id, first_offset, marker_offset))

    def committed(self, high_watermark: int) -> None:
        """Forget the transactions whose markers are committed."""
        ended = self._ended
        while ended and ended[0].marker_offset < high_watermark:
            del self.by_start[ended.popleft().first_offset]

    @property
    def first(self) -> tuple[int, int] | None:
        """The first offset and the producer id of the oldest one, or None if there is none."""
        return next(iter(self.by_start.items()), None)

    def first_open(self, default: int) -> int:
        """Return the first offset of the oldest transaction without a marker; `default` if there is none."""
        return next(iter(self._open), default)

    def ended(self) -> list[EndedTransaction]:
        """Return the ended transactions with uncommitted markers, in the order of these."""
        return list(self._ended)

    def restore(self, open_transactions: list[tuple[int, int]], ended: list[EndedTransaction]) -> None:
        """Start again with these: open ones as first offset and producer id, and ended ones."""
        self._open = dict(sorted(open_transactions))
        ended_transactions = [(each.first_offset, each.producer_id) for each in ended]
        self.by_start = dict(sorted(open_transactions + ended_transactions))
        self._ended = deque(ended)

    def clear(self) -> None:
        """Forget all."""
        self._open.clear()
        self.by_start.clear()
        self._ended.clear()


class CompactedTransactions:
    """The transactions of the segments of one pass, whose batches it is asked about in the order of their offsets.

    Args:
        aborted: the aborted transactions of the log; copied.
    """

    def __init__(self, aborted: AbortedTransactions) -> None:
        self._aborted = aborted.copy()
        self._spans: dict[int, tuple[list[int], list[int]]] = {}  # by producer: first offsets, marker offsets
        self._with_data: dict[int, None] = {}  # producers of which a batch stays since their last marker

    def load(self) -> Steps:
        """Read the aborted transactions, in steps; before all else."""
        for transaction in self._aborted:
            first_offsets, marker_offsets = self._spans.setdefault(transaction.producer_id, ([], []))
            first_offsets.append(transaction.first_offset)  # ascends: one producer's transactions do not overlap
            marker_offsets.append(transaction.marker_offset)
            yield 1

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch of records is of an aborted transaction."""
        if not header.is_transactional:
            return False
        spans = self._spans.get(header.producer_id)
        if spans is None:
            return False
        first_offsets, marker_offsets = spans
        number = bisect_right(first_offsets, header.base_offset) - 1
        return number >= 0 and header.base_offset < marker_offsets[number]

    def data_stays(self, header: BatchHeader) -> None:
        """Note a batch of records that stays, perhaps without any record."""
        if header.is_transactional:
            self._with_data[header.producer_id] = None

    def ended(self, header: BatchHeader) -> bool:
        """Note an end marker; returns whether a batch of its transaction stays."""
        if header.producer_id not in self._with_data:
            return False
        del self._with_data[header.producer_id]
        return True
