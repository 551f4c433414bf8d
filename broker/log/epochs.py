"""The leader epoch cache (KIP-101, KIP-279): the epoch in which each part of a log was written."""

# compiled: docs/compiled.md

from __future__ import annotations

from bisect import bisect_right
from typing import Final

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class LeaderEpochs:
    """Leader epochs and the offsets at which they start, both strictly ascending.

    An epoch replaces the one before it if both start at the same offset, so each entry but the last has records.
    """

    __slots__ = ("_epochs", "_starts", "latest_epoch")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest_epoch = UNDEFINED_EPOCH

    @property
    def entries(self) -> list[tuple[int, int]]:
        """All (epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` starts at `start_offset`; does nothing if it is the latest epoch and started before.

        Entries that contradict it (a higher epoch, or a start at or after it) are removed.
        """
        if epoch < 0 or (epoch == self.latest_epoch and start_offset >= self._starts[-1]):
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest_epoch = epoch

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and its end: the start of the next epoch, or the end of the log.

        Returns:
            (epoch, end offset). (−1, −1) for an epoch above all known ones, or for epoch −1. For an epoch below all
            known ones, `epoch` itself and the start of the first known one: the records of that epoch were deleted,
            and a follower can continue there.
        """
        if epoch == UNDEFINED_EPOCH or epoch > self.latest_epoch:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        following = bisect_right(self._epochs, epoch)
        return (self._epochs[following - 1] if following else epoch), self._starts[following]

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written; −1 before the first known epoch."""
        following = bisect_right(self._starts, offset)
        return self._epochs[following - 1] if following else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that start at or after `end_offset`, the new end of the log."""
        while self._starts and self._starts[-1] >= end_offset:
            self._starts.pop()
            self._epochs.pop()
        self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that end at or before `start_offset`; the epoch that contains it now starts there."""
        keep = bisect_right(self._starts, start_offset) - 1
        if keep >= 0:
            del self._epochs[:keep], self._starts[:keep]
            self._starts[0] = start_offset

    def clear(self) -> None:
        """Remove all epochs."""
        self._epochs.clear()
        self._starts.clear()
        self.latest_epoch = UNDEFINED_EPOCH
