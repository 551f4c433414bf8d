"""Which leader wrote which part of a log: the leader epoch cache of KIP-101 and KIP-279."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class LeaderEpochs:
    """Leader epochs and the offsets at which they start, both strictly ascending.

    There are never more entries than the log has changes of leader with records between them: an epoch that starts
    where the one before it did replaces that.
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
        """Note that `epoch` starts at `start_offset`; does nothing if it is the latest and started before.

        Entries that contradict it (a higher epoch, or a start at or after it) go: the newer knowledge holds.
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
        """The largest epoch not above `epoch`, and where it ends: at the start of the next, or at the end of the log.

        Returns:
            (epoch, end offset). For an epoch above all known ones, or none at all, (−1, −1). For one below all known
            ones `epoch` itself and the start of the first known one: what it wrote is gone, and a follower can
            continue there.
        """
        if epoch == UNDEFINED_EPOCH or epoch > self.latest_epoch:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        following = bisect_right(self._epochs, epoch)
        return (self._epochs[following - 1] if following else epoch), self._starts[following]

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written; −1 if that is before all that is known."""
        following = bisect_right(self._starts, offset)
        return self._epochs[following - 1] if following else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that start at or after `end_offset`: the log now ends there."""
        while self._starts and self._starts[-1] >= end_offset:
            self._starts.pop()
            self._epochs.pop()
        self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that end at or before `start_offset`; the one that holds it now starts there."""
        keep = bisect_right(self._starts, start_offset) - 1
        if keep >= 0:
            del self._epochs[:keep], self._starts[:keep]
            self._starts[0] = start_offset

    def clear(self) -> None:
        """Forget everything."""
        self._epochs.clear()
        self._starts.clear()
        self.latest_epoch = UNDEFINED_EPOCH
