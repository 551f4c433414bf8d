"""The copied segments of one log: which of them are its own, and which one has an offset.

A store may have several copies of the same records, since a leader may die, or be replaced, in the middle of a copy.
It may have copies that are not the log's: of a leader whose records were truncated when another one was elected
uncleanly. So a segment counts only if its leader epochs are the log's, as far as both have them (its *lineage*).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate, chain, islice, pairwise, starmap, takewhile
from operator import attrgetter
from typing import Final

from purgatorio.broker.log.epochs import LeaderEpochs
from purgatorio.broker.log.transactions import AbortedTxn
from purgatorio.broker.tier.names import SegmentName
from purgatorio.broker.tier.segment_file import RemoteSegment

ALL_KNOWN: Final = 2**63 - 1
_start_offset = attrgetter("start_offset")
_place = attrgetter("start_offset", "end_offset", "name")


class RemoteSegments:
    """The copied segments of one log, by their offsets.

    Attributes:
        size_bytes: their sizes together; what two of them have counts twice.
        changes: how often one was added or some were removed.
    """

    __slots__ = ("_are_apart", "_longest", "_segments", "changes", "size_bytes")

    def __init__(self, segments: Iterable[RemoteSegment] = ()) -> None:
        self._segments = sorted(segments, key=_place)
        self._longest = list(accumulate(self._segments, _longer))  # by place, the one up to there that ends last
        self.size_bytes = sum(each.size_bytes for each in self._segments)
        self._are_apart = all(starmap(_is_before, pairwise(self._segments)))
        self.changes = 0

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[RemoteSegment]:
        return iter(self._segments)

    def add(self, segment: RemoteSegment) -> None:
        """Add a segment of the log, unless it is there."""
        place = bisect_left(self._segments, _place(segment), key=_place)
        if place == len(self._segments) or self._segments[place].name != segment.name:
            self._segments.insert(place, segment)
            before = self._longest[place - 1 : place]
            self._longest[max(0, place - 1) :] = accumulate((*before, *self._segments[place:]), _longer)
            self.size_bytes += segment.size_bytes
            neighbours = self._segments[max(0, place - 1) : place + 2]
            self._are_apart = self._are_apart and all(starmap(_is_before, pairwise(neighbours)))
            self.changes += 1

    def remove(self, names: Collection[SegmentName]) -> None:
        """Remove the segments of these names."""
        self._segments = [each for each in self._segments if each.name not in names]
        self._longest = list(accumulate(self._segments, _longer))
        self.size_bytes = sum(each.size_bytes for each in self._segments)
        self._are_apart = all(starmap(_is_before, pairwise(self._segments)))
        self.changes += 1

    @classmethod
    def of_log(
        cls, described: Iterable[RemoteSegment], epochs: LeaderEpochs, log_start_offset: int, log_end_offset: int
    ) -> RemoteSegments:
        """Return those of the described segments that are a log's, and do not lie before its start."""
        return cls(
            each
            for each in described
            if each.end_offset > log_start_offset and is_of_log(each, epochs, log_start_offset, log_end_offset)
        )

    def find(self, offset: int) -> RemoteSegment | None:
        """Return the segment that has an offset; of several the one that ends last. None: none has it."""
        place = bisect_right(self._segments, offset, key=_start_offset)
        longest = self._longest[place - 1] if place else None
        return longest if longest is not None and longest.end_offset > offset else None

    def between(self, start_offset: int, end_offset: int) -> Iterator[tuple[RemoteSegment, int]]:
        """Yield the segments that have the offsets from one on, up to the last that ends at or before another one.

        Each has the bytes of its parts that no segment before it has; a hole between them is left out.
        """
        offset, number, count = start_offset, 0, len(self._segments)
        while True:
            best: RemoteSegment | None = None
            while number < count and self._segments[number].start_offset <= offset:
                each = self._segments[number]
                if each.end_offset > offset and (best is None or each.end_offset > best.end_offset):
                    best = each
                number += 1
            if best is not None:
                if best.end_offset > end_offset:
                    return
                position = best.parts[best.part_of(offset)].position if offset > start_offset else 0
                yield best, best.size_bytes - position
                offset = best.end_offset
            elif number < count:
                offset = self._segments[number].start_offset
            else:
                return

    def bytes_between(self, start_offset: int, end_offset: int) -> int:
        """Return the sum of what `between` yields."""
        if not self._are_apart:
            return sum(size_bytes for _, size_bytes in self.between(start_offset, end_offset))
        outside = chain(
            takewhile(lambda each: each.end_offset <= start_offset, self._segments),
            takewhile(lambda each: each.end_offset > max(start_offset, end_offset), reversed(self._segments)),
        )
        return self.size_bytes - sum(each.size_bytes for each in outside)

    def end_from(self, offset: int, older_than_ms: int = ALL_KNOWN) -> int:
        """Return the offset up to which the segments have everything from an offset on; the same: they lack it.

        Args:
            older_than_ms: only segments count whose records are all older than this time.
        """
        first, best = bisect_right(self._segments, offset, key=_start_offset), self.find(offset)
        if best is not None and best.max_timestamp_ms < older_than_ms:
            offset = best.end_offset
        for each in islice(self._segments, first, None):  # by their starts, so that one pass is enough
            if each.start_offset > offset or each.max_timestamp_ms >= older_than_ms:
                break
            offset = max(offset, each.end_offset)
        return offset

    def aborted(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTxn], int]:
        """Return the aborted transactions with a part in [start, end), by the order of their markers.

        Returns:
            Those that the segments know, and the offset up to which these are all of the markers; `ALL_KNOWN`: later
            ones are of transactions behind `end_offset`.
        """
        found: dict[int, AbortedTxn] = {}
        offset = start_offset
        while (segment := self.find(offset)) is not None:
            for each in segment.aborted:
                if each.marker_offset >= start_offset and each.first_offset < end_offset:
                    found[each.marker_offset] = each
                if each.marker_offset >= start_offset and each.stable_offset >= end_offset:
                    return list(found.values()), ALL_KNOWN
            offset = segment.end_offset
        return list(found.values()), offset


def _longer(one: RemoteSegment, other: RemoteSegment) -> RemoteSegment:
    return other if other.end_offset > one.end_offset else one


def _is_before(one: RemoteSegment, other: RemoteSegment) -> bool:
    return one.end_offset <= other.start_offset


def is_of_log(segment: RemoteSegment, epochs: LeaderEpochs, log_start_offset: int, log_end_offset: int) -> bool:
    """Return whether the records of a segment, from the log's start on, are the log's: by their leader epochs."""
    if segment.end_offset > log_end_offset or not segment.epochs:
        return False
    start_offset = max(segment.start_offset, log_start_offset)
    last_epoch, last_start = segment.epochs[-1]
    if last_start <= start_offset:  # the usual case: all is of one epoch
        last = segment.end_offset - 1
        return last < start_offset or epochs.epoch_at(start_offset) == last_epoch == epochs.epoch_at(last)
    ends = [start for _, start in segment.epochs[1:]] + [segment.end_offset]
    for (epoch, start), end in zip(segment.epochs, ends, strict=True):
        first, last = max(start, start_offset), min(end, segment.end_offset) - 1
        if first <= last and not epochs.epoch_at(first) == epoch == epochs.epoch_at(last):
            return False
    return True
