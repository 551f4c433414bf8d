"""The broker's cap on the memory of its logs."""

# compiled: docs/compiled.md

from __future__ import annotations

import heapq
from collections import Counter
from typing import Final, Protocol

from purgatorio.broker.log.arena import Arena
from purgatorio.broker.log.errors import MemoryExhausted
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Clock

MIN_SEGMENT_BYTES: Final = 1024 * 1024
_SEGMENTS_PER_BUDGET: Final = 64
_SMALL_DIVISOR: Final = 256
_ROOM_DIVISOR: Final = 32
_AWAITING_DIVISOR: Final = 8
UNCOMMITTED_PERCENT: Final = 25
FILLING_DIVISOR: Final = 4
"""A log whose uncommitted records take more than this part of what it may have fills its share: see `is_filling`."""
_FOLLOWED_PER_LED: Final = 2
"""A replica set has usually three members: a broker follows twice as much as it leads."""
WARNING_INTERVAL_MS: Final = 60_000
"""A broker whose logs are full deletes all the time; one warning a minute is enough."""
_NAMED_LOGS: Final = 3

CLOSED: Final = 0
ACTIVE: Final = 1
SMALL: Final = 2

Age = tuple[int, int, int]
"""The order in which segments are deleted: whether it is `CLOSED`, its log's `ACTIVE` segment, or an active one that is
`SMALL`; the time of its newest record in milliseconds since 1970; and the order in which segments were made."""

_log = get_logger(__name__)


class Evictable(Protocol):
    """A log, whose oldest segment the budget may delete; tests have logs without records."""

    @property
    def name(self) -> str:
        """Its name in the warning."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        ...

    @property
    def is_tiered(self) -> bool:
        """Whether records that are deleted are in the tier, so that nothing is lost."""
        ...

    def oldest_age(self) -> Age | None:
        """The age of its oldest segment, or None if the log is empty or keeps all records."""
        ...

    def evict_oldest(self) -> bool:
        """Delete the oldest segment and release its bytes; False if it has records that are not committed.

        After False the log is not asked again, until it calls `MemoryBudget.aged`, as it must when that has changed.
        """
        ...


class UncommittedShare:
    """The part of the memory that uncommitted records may take: of the logs that a broker leads, or that it follows.

    A log may have as many uncommitted bytes as are left of the share. One log gets half of it at most, two a third
    each, and a log with few finds room at all times. (The dynamic thresholds of Choudhury and Hahne, 1998, by which the
    ports of a switch share its buffer.)

    Args:
        verb: what the broker does with the logs: it leads or follows them.

    Attributes:
        limit_bytes: the share.
        used_bytes: the uncommitted bytes of its logs.
        is_filling: an append came near the share. The Produce handler, which then slows the producer down, sets it to
            False.
    """

    def __init__(self, verb: str) -> None:
        self.verb = verb
        self.limit_bytes = 0
        self.used_bytes = 0
        self.is_filling = False

    def check(self, held_bytes: int, added_bytes: int) -> None:
        """Note an append of `added_bytes` to a log that has `held_bytes` uncommitted, and comes near the share.

        Raises:
            MemoryExhausted: too little is left for it. If nothing is uncommitted, a batch may be larger than the share.
        """
        if self.used_bytes and held_bytes + added_bytes > self.limit_bytes - self.used_bytes:
            raise self.refusal(held_bytes)
        self.is_filling = True

    def refusal(self, held_bytes: int) -> MemoryExhausted:
        """Return the error for an append to a log that has `held_bytes` uncommitted, for which too little is left."""
        return MemoryExhausted(
            f"{held_bytes} bytes of the log are not committed, and {self.used_bytes} bytes of all logs that the broker "
            f"{self.verb}, of at most {self.limit_bytes}"
        )

    def is_filled_by(self, held_bytes: int) -> bool:
        """Return whether a log with `held_bytes` uncommitted comes near the share."""
        return FILLING_DIVISOR * held_bytes > self.limit_bytes - self.used_bytes


class MemoryBudget:
    """Counts the bytes of all logs of a broker; past the cap it deletes the segments with the oldest records.

    The age of a segment is that of its newest record. A log's active segment is deleted only when no other segment may
    go, and an append deletes that of its own log before that of a smaller one. Small active segments go after all
    others: a topic with many records loses its own old ones, not the few of a small topic.

    Only committed records are deleted (those below the log's high watermark), even if their topic's retention
    would keep them: a broker that keeps records in memory would otherwise die and lose all of them. Appends are refused
    if nothing may be deleted. A deletion frees a little more than is needed, so that not every append needs one.

    Uncommitted records cannot be deleted, so a log refuses an append beyond its `UncommittedShare`, before anything is
    deleted for it. Led and followed partitions have a share each, so that its clients' writes do not keep it from
    following other leaders. The rest of the memory is for committed records. Nor are small active segments, or those of
    smaller logs, deleted while logs with more than an eighth of the memory wait until their oldest segments are
    committed: it is these that fill the memory, and they can go soon. Meanwhile appends are refused.

    Args:
        limit_bytes: the cap (log.memory.bytes). Producer state is not counted; it has its own bound per log.
        clock: times the warnings about deleted records, which come at most every `WARNING_INTERVAL_MS`; None: it stands
            still.
        uncommitted_percent: the share of the logs that the broker leads, in percent of the cap; those that it follows
            have twice as much.
        arena: the memory of all logs; not given: one of its own, with the clock.

    Attributes:
        used_bytes: memory of all logs, which count what they append, and of what compaction builds.
        building_bytes: the latter.
        led: the share of the logs that the broker leads.
        followed: the share of the logs that it follows.
        max_segment_bytes: the largest size of a segment, whatever its topic's config.
        limit_bytes: the cap now.
        share_bytes: the cap, if the process has no more memory than it may (see `MemoryGuard`).
        small_bytes: the size below which an active segment is small.
    """

    def __init__(
        self,
        limit_bytes: int,
        clock: Clock | None = None,
        uncommitted_percent: int = UNCOMMITTED_PERCENT,
        arena: Arena | None = None,
    ) -> None:
        self.arena = arena if arena is not None else Arena(clock)
        self.used_bytes = 0
        self.building_bytes = 0
        self.evicted_bytes = 0
        self.max_segment_bytes = max(MIN_SEGMENT_BYTES, limit_bytes // _SEGMENTS_PER_BUDGET)
        self.led = UncommittedShare("leads")
        self.followed = UncommittedShare("follows")
        self._uncommitted_percent = uncommitted_percent
        self.set_limit(limit_bytes)
        self._logs: dict[Evictable, int] = {}  # with the number of its entry in the heap; 0: it has none
        self._awaiting: dict[Evictable, int] = {}  # the logs whose oldest segment is not committed, with their bytes
        self._awaiting_bytes = 0
        self._heap: list[tuple[Age, int, Evictable]] = []
        self._last_entry = 0
        self._clock = clock
        self._warned_ms: int | None = None
        self._not_told_bytes: Counter[str] = Counter()
        self._sequence = 0

    def set_limit(self, limit_bytes: int) -> None:
        """Set the cap, and the shares of it."""
        self.limit_bytes = self.share_bytes = limit_bytes
        self.small_bytes = limit_bytes // _SMALL_DIVISOR
        self.led.limit_bytes = limit_bytes * self._uncommitted_percent // 100
        self.followed.limit_bytes = self.led.limit_bytes * _FOLLOWED_PER_LED

    def lower(self, limit_bytes: int) -> None:
        """Set the cap alone, below the one of `set_limit` or back to it, and delete what is beyond and may be."""
        self.limit_bytes = min(limit_bytes, self.share_bytes)
        before_bytes = self.used_bytes
        while self.used_bytes > self.limit_bytes and (oldest := self._oldest()) is not None:
            self._evict_from(oldest[2])
        self.evicted_bytes += before_bytes - self.used_bytes
        if self.used_bytes < before_bytes:
            self._warn()

    def next_sequence(self) -> int:
        """The sequence for a new segment."""
        self._sequence += 1
        return self._sequence

    def add(self, log: Evictable) -> None:
        """Start to count a log, which is empty."""
        self._logs[log] = 0

    def remove(self, log: Evictable) -> None:
        """Stop counting a log, which has released its bytes."""
        self._awaiting_bytes -= self._awaiting.pop(log, 0)
        self._logs.pop(log, None)

    def aged(self, log: Evictable) -> None:
        """Note that a log's oldest segment may be older than before: it was empty, or that was its active segment.

        Segments that become younger need no note: their ages are read again when their turn comes.
        """
        self._awaiting_bytes -= self._awaiting.pop(log, 0)
        age = log.oldest_age()
        if age is None:
            return
        self._last_entry += 1
        self._logs[log] = self._last_entry
        heapq.heappush(self._heap, (age, self._last_entry, log))
        if len(self._heap) > 2 * len(self._logs):  # the others are of closed logs, or replaced
            self._heap = [entry for entry in self._heap if self._logs.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)

    def make_room(self, log: Evictable, size_bytes: int) -> bool:
        """Delete segments for an append to a log; returns whether there is room now. The log counts its bytes."""
        before_bytes = self.used_bytes
        self._evict(log, size_bytes)
        self.evicted_bytes += before_bytes - self.used_bytes
        if self.used_bytes < before_bytes:
            self._warn()
        return self.used_bytes + size_bytes <= self.limit_bytes

    def count_built(self, size_bytes: int) -> None:
        """Count bytes more, or less if negative, of what compaction builds."""
        self.building_bytes += size_bytes
        self.used_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Count bytes no more: a log has freed them."""
        self.used_bytes -= size_bytes

    def _evict(self, appending: Evictable, size_bytes: int) -> None:
        """Delete the oldest segments until there is room and a little more, or no further segment may be deleted."""
        own_bytes = appending.size_bytes + size_bytes
        target_bytes = self.limit_bytes - self.limit_bytes // _ROOM_DIVISOR - size_bytes
        while self.used_bytes > target_bytes:
            oldest = self._oldest()
            if oldest is None:
                return
            (kind, _, _), _, log = oldest
            is_smaller = kind == ACTIVE and log is not appending and log.size_bytes < own_bytes
            if kind == SMALL or is_smaller:
                if self.used_bytes + size_bytes <= self.limit_bytes:
                    return
                if is_smaller and appending.oldest_age() is not None and self._evict_from(appending):
                    continue
                if self._awaiting_bytes > self.limit_bytes // _AWAITING_DIVISOR:
                    return
            self._evict_from(log)

    def _oldest(self) -> tuple[Age, int, Evictable] | None:
        """Return the heap's first entry, after those that do not hold any more are gone."""
        heap = self._heap
        while heap:
            known, entry, log = heap[0]
            age = log.oldest_age() if self._logs.get(log) == entry else None
            if age == known:
                return heap[0]
            if age is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (age, entry, log))
        return None

    def _evict_from(self, log: Evictable) -> bool:
        """Delete a log's oldest segment; or leave the log out until its oldest segment is committed."""
        used_bytes = self.used_bytes
        if log.evict_oldest():
            if not log.is_tiered:
                self._not_told_bytes[log.name] += used_bytes - self.used_bytes
            return True
        self._logs[log] = 0
        self._awaiting_bytes += log.size_bytes - self._awaiting.get(log, 0)
        self._awaiting[log] = log.size_bytes
        return False

    def _warn(self) -> None:
        now_ms = 0 if self._clock is None else self._clock.now_ms()
        if not self._not_told_bytes:
            return
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
