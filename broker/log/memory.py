"""The broker's cap on the memory of its logs."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from purgatorio.logger import get_logger

MIN_SEGMENT_BYTES: Final = 1024 * 1024
_SEGMENTS_PER_BUDGET: Final = 64
_ROOM_DIVISOR: Final = 32
WARNING_INTERVAL_MS: Final = 60_000
"""A broker whose logs are full deletes all the time; one warning a minute tells enough."""
_NAMED_LOGS: Final = 3

Age = tuple[bool, int, int]
"""The order in which segments are deleted: whether it is the log's active segment, the time of its newest record in
milliseconds since 1970, and the order in which segments were made."""

_log = get_logger(__name__)


class Evictable(Protocol):
    """A log, whose oldest segment the budget may delete; tests have logs without records."""

    @property
    def name(self) -> str:
        """Its name in the warning."""
        ...

    def oldest_age(self) -> Age | None:
        """The age of its oldest segment, or None if the log is empty or keeps all records."""
        ...

    def evict_oldest(self) -> bool:
        """Delete the oldest segment and release its bytes; False if it has records that are not committed."""
        ...


class MemoryBudget:
    """Counts the bytes of all logs of a broker; past the cap it deletes the segments with the oldest records.

    The age of a segment is that of its newest record. A log's active segment is deleted only when all logs have no
    other: a topic with many records loses its own old ones, not the few new ones of a topic with few.

    Only committed records are deleted (below the high watermark that a log was told), even if their topic's retention
    would keep them: a broker that keeps records in memory would otherwise die and lose all of them. Appends are refused
    if nothing may be deleted. A deletion frees a little more than is needed, so that not every append needs one.

    Args:
        limit_bytes: the cap. Producer state is not counted; it has its own bound per log.
        now_ms: the monotonic time; a warning about deleted records comes at most every `WARNING_INTERVAL_MS`.
    """

    def __init__(self, limit_bytes: int, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.evicted_bytes = 0
        self.max_segment_bytes = max(MIN_SEGMENT_BYTES, limit_bytes // _SEGMENTS_PER_BUDGET)
        self._logs: dict[Evictable, int] = {}  # with the number of its entry in the heap; 0: it has none
        self._heap: list[tuple[Age, int, Evictable]] = []
        self._last_entry = 0
        self._now_ms = now_ms
        self._warned_ms: int | None = None
        self._not_told_bytes: Counter[str] = Counter()
        self._sequence = 0

    def next_sequence(self) -> int:
        """The sequence for a new segment."""
        self._sequence += 1
        return self._sequence

    def add(self, log: Evictable) -> None:
        """Start to count a log, which is empty."""
        self._logs[log] = 0

    def remove(self, log: Evictable) -> None:
        """Stop counting a log, which has released its bytes."""
        self._logs.pop(log, None)

    def aged(self, log: Evictable) -> None:
        """Note that a log's oldest segment may be older than before: it was empty, or that was its active segment.

        Segments that become younger need no note: their ages are read again when their turn comes.
        """
        age = log.oldest_age()
        if age is None:
            return
        self._last_entry += 1
        self._logs[log] = self._last_entry
        heapq.heappush(self._heap, (age, self._last_entry, log))
        if len(self._heap) > 2 * len(self._logs):  # the others are of closed logs, or replaced
            self._heap = [entry for entry in self._heap if self._logs.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)

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
        uncommitted = []
        heap = self._heap
        while heap and self.used_bytes > target_bytes:
            known, entry, log = heap[0]
            age = log.oldest_age() if self._logs.get(log) == entry else None
            if age is None:
                heapq.heappop(heap)
                continue
            if age != known:
                heapq.heapreplace(heap, (age, entry, log))
                continue
            used_bytes = self.used_bytes
            if log.evict_oldest():
                self._not_told_bytes[log.name] += used_bytes - self.used_bytes
            else:
                uncommitted.append(heapq.heappop(heap))
        for each in uncommitted:
            heapq.heappush(heap, each)
        self.evicted_bytes += before_bytes - self.used_bytes
        if self.used_bytes < before_bytes:
            self._warn()

    def _warn(self) -> None:
        now_ms = self._now_ms()
        if self._warned_ms is not None and now_ms - self._warned_ms < WARNING_INTERVAL_MS:
            return
        self._warned_ms = now_ms
        lost = self._not_told_bytes
        _log.warning(
            "the logs' memory is full: the oldest records were deleted, before their topics' retention",
            deleted_bytes=lost.total(),
            partitions=", ".join(f"{name} ({size_bytes} bytes)" for name, size_bytes in lost.most_common(_NAMED_LOGS)),
            others=max(0, len(lost) - _NAMED_LOGS),
            limit_bytes=self.limit_bytes,
        )
        lost.clear()
