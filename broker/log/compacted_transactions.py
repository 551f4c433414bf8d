"""What one compaction pass keeps of transactions.

All data below the last stable offset is of transactions that have ended, so a pass knows of each batch how. Records of
aborted transactions go at once. An end marker stays as long as a batch of its transaction stays, even an empty one: a
replica that copies the log would take the transaction for open otherwise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from purgatorio.broker.log.transactions import AbortedTransactions
from purgatorio.protocol.records import BatchHeader

STEP_TRANSACTIONS: Final = 2_000
"""Aborted transactions that one step reads, of 1 µs each."""


class CompactedTransactions:
    """The transactions of the segments of one pass, whose batches it is asked about in the order of their offsets.

    Args:
        aborted: the aborted transactions of the log; copied.
    """

    def __init__(self, aborted: AbortedTransactions) -> None:
        self._aborted = aborted.copy()
        self._spans: dict[int, tuple[list[int], list[int]]] = {}  # by producer: first offsets, marker offsets
        self._with_data: dict[int, None] = {}  # producers of which a batch stays since their last marker

    def load(self) -> Iterator[None]:
        """Read the aborted transactions, in steps; before all else."""
        for number, transaction in enumerate(self._aborted, 1):
            first_offsets, marker_offsets = self._spans.setdefault(transaction.producer_id, ([], []))
            first_offsets.append(transaction.first_offset)  # ascends: one producer's transactions do not overlap
            marker_offsets.append(transaction.marker_offset)
            if not number % STEP_TRANSACTIONS:
                yield

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
