"""The broker's cap on the memory of its logs."""

from __future__ import annotations

import heapq
from typing import Final, Protocol

MIN_SEGMENT_BYTES: Final = 1024 * 1024
_SEGMENTS_PER_BUDGET: Final = 64
_ROOM_DIVISOR: Final = 32


class Evictable(Protocol):
    """A log, whose oldest segment the budget may delete; tests have logs without records."""

    def oldest_evictable(self) -> int | None:
        """The sequence of its oldest segment, or None if that may not be deleted now."""
        ...

    def evict_oldest(self) -> None:
        """Delete the oldest segment and release its bytes."""
        ...


class MemoryBudget:
    """Counts the bytes of all logs of a broker; past the cap it deletes the oldest segments among all logs.

    Only committed records are deleted (below the high watermark that a log was told), even if their topic's retention
    would keep them: a broker that keeps records in memory would otherwise die and lose all of them. Appends are refused
    if nothing may be deleted. A deletion frees a little more than is needed, so that not every append needs one.

    Args:
        limit_bytes: the cap. Producer state is not counted; it has its own bound per log.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.evicted_bytes = 0
        self.max_segment_bytes = max(MIN_SEGMENT_BYTES, limit_bytes // _SEGMENTS_PER_BUDGET)
        self._logs: dict[Evictable, None] = {}
        self._sequence = 0

    def next_sequence(self) -> int:
        """The sequence for a new segment."""
        self._sequence += 1
        return self._sequence

    def add(self, log: Evictable) -> None:
        """Start to count a log."""
        self._logs[log] = None

    def remove(self, log: Evictable) -> None:
        """Stop counting a log, which has released its bytes."""
        self._logs.pop(log, None)

    def reserve(self, size_bytes: int) -> bool:
        """Make room for an append, and count its bytes; False if there is no room."""
        used_bytes = self.used_bytes + size_bytes
        if used_bytes > self.limit_bytes:
            self._evict(self.limit_bytes - self.limit_bytes // _ROOM_DIVISOR - size_bytes)
            used_bytes = self.used_bytes + size_bytes
            if used_bytes > self.limit_bytes:
                return False
        self.used_bytes = used_bytes
        return True

    def release(self, size_bytes: int) -> None:
        """Return bytes to the budget."""
        self.used_bytes -= size_bytes

    def _evict(self, target_bytes: int) -> None:
        """Delete the oldest segments until at most `target_bytes` are used, or no further segment may be deleted."""
        before_bytes = self.used_bytes
        heap = [(age, n, log) for n, log in enumerate(self._logs) if (age := log.oldest_evictable()) is not None]
        heapq.heapify(heap)
        while heap and self.used_bytes > target_bytes:
            _, n, log = heap[0]
            log.evict_oldest()
            age = log.oldest_evictable()
            if age is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (age, n, log))
        self.evicted_bytes += before_bytes - self.used_bytes
