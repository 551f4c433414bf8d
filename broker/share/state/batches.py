"""How state batches are merged: what a leader writes, into the state that there is.

A state batch says of a range of offsets in which state they are, and how often they were delivered. Of two batches
about an offset the one with the higher delivery count counts, or of equal counts the one with the higher state: so a
record never goes back, in whatever order and however often writes arrive. A batch is split where another one that
counts more begins or ends; neighbours that say the same are joined.

The state is kept merged: ascending, without overlaps, and no two batches could be joined. A change costs a search and
what it touches of the state, so a share partition with thousands of batches is written to at the cost of a small one.
Ten thousand changes of ten thousand batches take some 10 ms.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from operator import itemgetter
from typing import Final

from purgatorio.protocol.share_state import RecordState, StateBatch

MAX_BATCHES: Final = 10_000
"""The most batches of a share partition, and of a write. It has as many records in flight at most, by Kafka's highest
group.share.partition.max.record.locks."""

MAX_OVERLAPPING: Final = 2_000
"""The most batches of a write whose batches overlap or are out of order, as those of no leader are."""

FEW_DIVISOR: Final = 32
"""Changes that are fewer than this part of the batches of a state are merged one by one."""

Piece = tuple[int, int, int]
"""A batch: its first offset, its last one, and its rank, by which batches about the same offset compare."""

_STATE_BITS: Final = 3
_STATE_MASK: Final = (1 << _STATE_BITS) - 1
_STORED_STATES: Final = frozenset(RecordState) - {RecordState.ACQUIRED}
_FIRST: Final = itemgetter(0)
_LAST: Final = itemgetter(1)
_BEHIND: Final = (1 << 64, 1 << 64, -1)
"""A piece behind all others: int64 offsets end before."""


def problem_of(batches: Sequence[StateBatch]) -> str | None:
    """Return why batches cannot be part of a state, as a sentence; None if they can."""
    if len(batches) > MAX_BATCHES:
        return f"A write has at most {MAX_BATCHES} state batches; this one has {len(batches)}."
    is_ascending, end = True, -1
    for batch in batches:
        if not 0 <= batch.first_offset <= batch.last_offset:
            return f"There is no state batch from offset {batch.first_offset} to {batch.last_offset}."
        if batch.delivery_state not in _STORED_STATES:
            return f"State {batch.delivery_state} is not stored."
        if batch.delivery_count < 0:
            return f"No record is delivered {batch.delivery_count} times."
        is_ascending &= batch.first_offset > end
        end = batch.last_offset
    if not is_ascending and len(batches) > MAX_OVERLAPPING:
        return f"At most {MAX_OVERLAPPING} state batches may overlap or be out of order; there are {len(batches)}."
    return None


class StateBatches:
    """The merged batches of a share partition.

    Args:
        batches: in any order; they may overlap each other.
    """

    __slots__ = ("_pieces",)

    def __init__(self, batches: Iterable[StateBatch] = ()) -> None:
        self._pieces = _normalized(batches)

    def __len__(self) -> int:
        return len(self._pieces)

    def copy(self) -> StateBatches:
        """Return a copy, which can be changed."""
        made = StateBatches()
        made._pieces = self._pieces.copy()
        return made

    def as_list(self) -> list[StateBatch]:
        """Return the batches as messages have them, by ascending offset."""
        return [
            StateBatch(
                first_offset=first,
                last_offset=last,
                delivery_state=rank & _STATE_MASK,
                delivery_count=rank >> _STATE_BITS,
            )
            for first, last, rank in self._pieces
        ]

    def drop_below(self, start_offset: int) -> None:
        """Remove the offsets below the start offset."""
        pieces = self._pieces
        if not pieces or pieces[0][0] >= start_offset:
            return
        del pieces[: bisect_left(pieces, start_offset, key=_LAST)]
        if pieces and pieces[0][0] < start_offset:
            pieces[0] = (start_offset, *pieces[0][1:])

    def merge(self, changes: StateBatches) -> None:
        """Merge changes in."""
        pieces, new = self._pieces, changes._pieces
        if len(new) * FEW_DIVISOR < len(pieces):
            for each in new:
                _splice(pieces, [each])
        elif new:
            _splice(pieces, new)


def _splice(pieces: list[Piece], new: list[Piece]) -> None:
    """Merge the pieces that the new ones span, with their neighbours, which may have to be joined."""
    begin = bisect_left(pieces, new[0][0] - 1, key=_LAST)
    end = bisect_right(pieces, new[-1][1] + 1, lo=begin, key=_FIRST)
    pieces[begin:end] = _joined(_merged(pieces[begin:end], new))


def _merged(old: list[Piece], new: list[Piece]) -> list[Piece]:
    """Merge two lists of pieces, each ascending and without overlaps; neighbours are not joined."""
    result: list[Piece] = []
    append = result.append
    olds, news = iter(old), iter(new)
    a_first, a_last, a_rank = next(olds, _BEHIND)
    b_first, b_last, b_rank = next(news, _BEHIND)
    while a_rank >= 0 or b_rank >= 0:
        if a_last < b_first:
            append((a_first, a_last, a_rank))
            a_first, a_last, a_rank = next(olds, _BEHIND)
        elif b_last < a_first:
            append((b_first, b_last, b_rank))
            b_first, b_last, b_rank = next(news, _BEHIND)
        elif a_first < b_first:
            append((a_first, b_first - 1, a_rank))
            a_first = b_first
        elif b_first < a_first:
            append((b_first, a_first - 1, b_rank))
            b_first = a_first
        else:
            rank = max(a_rank, b_rank)
            last = min(a_last, b_last)
            append((a_first, last, rank))
            a_first = b_first = last + 1
            if a_last == last:
                a_first, a_last, a_rank = next(olds, _BEHIND)
            if b_last == last:
                b_first, b_last, b_rank = next(news, _BEHIND)
    return result


def _normalized(batches: Iterable[StateBatch]) -> list[Piece]:
    """Return the pieces of batches, merged."""
    pieces = [
        (batch.first_offset, batch.last_offset, batch.delivery_count << _STATE_BITS | batch.delivery_state)
        for batch in batches
    ]
    last = -1
    for piece in pieces:
        if piece[0] <= last:
            return _joined(_swept(sorted(pieces)))
        last = piece[1]
    return _joined(pieces)


def _swept(pieces: list[Piece]) -> list[Piece]:
    """Return pieces that overlap, given by ascending first offset, without overlaps.

    Those that cover the next offset are in a heap, the one that counts most first.
    """
    result: list[Piece] = []
    covering: list[tuple[int, int]] = []  # negative rank, last offset
    nth, count = 0, len(pieces)
    offset = pieces[0][0]
    while True:
        while nth < count and pieces[nth][0] <= offset:
            _, last, rank = pieces[nth]
            if last >= offset and not (covering and covering[0][0] <= -rank and covering[0][1] >= last):
                heappush(covering, (-rank, last))
            nth += 1
        while covering and covering[0][1] < offset:
            heappop(covering)
        next_first = pieces[nth][0] if nth < count else _BEHIND[0]
        if covering:
            negative, last = covering[0]
            last = min(last, next_first - 1)
            result.append((offset, last, -negative))
            offset = last + 1
        elif nth < count:
            offset = next_first
        else:
            return result


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Join neighbours that say the same."""
    result: list[Piece] = []
    end, end_rank = -1, -1
    for piece in pieces:
        first, last, rank = piece
        if first == end and rank == end_rank:
            result[-1] = (result[-1][0], last, rank)
        else:
            result.append(piece)
        end, end_rank = last + 1, rank
    return result
