"""A hierarchical timing wheel: deadlines in buckets, added and cancelled in O(1) for any number of waiting entries.

One level is a circle of ``wheel_size`` buckets, one per tick. With a tick of 1 ms and 20 buckets it covers 20 ms. A
later deadline goes to an overflow level, whose tick is the whole span of the level below: 20 ms, 400 ms, 8 s, 160 s …;
each is made when first needed. When the clock reaches a bucket of a coarse level, its entries move to finer levels or,
if they are due, are run. So an entry moves at most once per level.

A bucket is a doubly linked list threaded through its entries. A dict would be easier to read, but it stalls when it
grows (15 ms at a million entries, against 0.3 ms), and add and cancel in random order took half as long again.

The wheel does not turn tick by tick: a heap holds the non-empty buckets, ordered by the time at which they begin. A
bucket is in the heap at most once, so the heap is bounded by the number of buckets, not by that of waiting entries.

Source: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987); Kafka's use of it, KAFKA-1989.
Here a deadline between two ticks is rounded up, so that it never runs early. Kafka rounds down, which makes no
difference for the tick of 1 ms that Kafka uses.
"""

# compiled: docs/compiled.md

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from .native import mypyc_attr

MAX_DEADLINE_MS: Final = 2**63 - 1
"""The latest deadline of a wheel. It bounds the number of levels: 15 with a tick of 1 ms and 20 buckets."""


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerEntry:
    """One deadline in a timer; a subclass implements `run`.

    An entry is in one bucket at most and refers to it, which makes `cancel` O(1).
    """

    __slots__ = ("bucket", "deadline_ms", "next", "previous")
    __deletable__ = ("next", "previous")  # for mypyc: else it knows that they always have a value

    bucket: Bucket | None
    """The bucket that holds it; None before it is added, and after it has run or was cancelled."""
    deadline_ms: int
    """The time at which it is due, on the timer's clock, an int; `Timer.add` rounds it up to a tick."""
    next: TimerEntry
    previous: TimerEntry  # both set only while it is in a bucket: a removed entry must not pin its former neighbours

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.bucket = None

    def run(self) -> None:
        """Do the work of the deadline. The timer calls this once, after it has taken the entry out of its bucket."""
        raise NotImplementedError

    def weight(self) -> int:
        """Return as how many entries its work counts (see `Timer.advance`)."""
        return 1

    def cancel(self) -> bool:
        """Take the entry out of its timer, in O(1).

        Returns:
            False if it was not waiting: never added, run already, or cancelled before.
        """
        bucket = self.bucket
        if bucket is None:
            return False
        previous, following = self.previous, self.next
        previous.next = following
        following.previous = previous
        del self.previous, self.next
        self.bucket = None
        bucket.count -= 1
        return True


class Bucket(TimerEntry):
    """The entries of one tick of one level: a ring of entries that begins and ends at the bucket."""

    __slots__ = ("count", "expiration_ms")

    count: int
    """Number of entries in it."""
    expiration_ms: int | None
    """The start of its tick; None while the bucket is not in the heap."""

    def __init__(self) -> None:
        super().__init__(0)
        self.next = self.previous = self
        self.count = 0
        self.expiration_ms = None


class Level:
    """One circle of buckets: `wheel_size` ticks of `tick_ms`, from the wheel's clock onwards.

    It has as many buckets again, for entries that are moved here ahead of time (`TimingWheel.spill_ahead`). It has none
    until `open`, and no deadline is early enough for it: most wheels of a short-lived broker never have an entry.
    """

    __slots__ = ("buckets", "current_ms", "end_ms", "interval_ms", "tick_ms")

    current_ms: int
    """The clock, rounded down to a tick of this level."""
    end_ms: int
    """The first deadline that is too late for this level: `current_ms` + `interval_ms` once it is open."""

    def __init__(self, tick_ms: int, wheel_size: int, clock_ms: int) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * wheel_size
        self.buckets: list[Bucket] = []
        self.current_ms = clock_ms - clock_ms % tick_ms
        self.end_ms = self.current_ms

    def open(self, wheel_size: int) -> None:
        """Make the buckets, from now on."""
        self.buckets = [Bucket() for _ in range(2 * wheel_size)]
        self.end_ms = self.current_ms + self.interval_ms


class BucketSnapshot(NamedTuple):
    """One non-empty bucket, for a page."""

    expiration_ms: int
    entries: int


class LevelSnapshot(NamedTuple):
    """One level of a wheel, for a page; only its non-empty buckets, earliest first."""

    tick_ms: int
    wheel_size: int
    current_ms: int
    buckets: tuple[BucketSnapshot, ...]


class TimingWheel:
    """All levels of one wheel, and the heap of non-empty buckets.

    Args:
        start_ms: the time at which its clock starts; rounded down to a tick.
        tick_ms: the tick of the finest level.
        wheel_size: buckets per level; each level's tick is the span of the one below.
        on_earlier: called when a bucket becomes the earliest of all, for an owner that sleeps until the earliest.

    Raises:
        ValueError: `tick_ms` is below 1, or `wheel_size` below 2.
    """

    __slots__ = ("_heap", "current_ms", "levels", "on_earlier", "wheel_size")

    current_ms: int
    """Its clock. Entries that are due later wait in a bucket."""

    def __init__(
        self, start_ms: int, *, tick_ms: int = 1, wheel_size: int = 20, on_earlier: Callable[[], None] | None = None
    ) -> None:
        if tick_ms < 1 or wheel_size < 2:
            raise ValueError(f"a wheel needs a tick of at least 1 ms and 2 buckets, not {tick_ms} ms and {wheel_size}")
        self.wheel_size = wheel_size
        self.on_earlier = on_earlier
        self.levels = [Level(tick_ms, wheel_size, start_ms)]
        self.current_ms = self.levels[0].current_ms
        self._heap: list[tuple[int, int, Bucket]] = []

    def __len__(self) -> int:
        """Number of entries that wait, exactly. Summed over the buckets, because add and cancel run far more often."""
        return sum(bucket.count for level in self.levels for bucket in level.buckets)

    def add(self, entry: TimerEntry) -> bool:
        """Put an entry, which must be in no bucket, in the bucket of its deadline.

        Returns:
            False if the entry is due already; it was not added.

        Raises:
            TypeError: the deadline is not an int.
            ValueError: the deadline is later than `MAX_DEADLINE_MS`.
        """
        deadline_ms = entry.deadline_ms
        if deadline_ms <= self.current_ms:
            return False
        for level in self.levels:
            if deadline_ms < level.end_ms:
                break
        else:
            level = self._overflow_level(deadline_ms)
        tick = deadline_ms // level.tick_ms
        bucket = level.buckets[tick % len(level.buckets)]
        last = bucket.previous
        entry.previous = last
        entry.next = bucket
        last.next = bucket.previous = entry
        entry.bucket = bucket
        bucket.count += 1
        if bucket.expiration_ms is None:
            self._queue(bucket, tick * level.tick_ms, level.tick_ms)
        return True

    def spill(self, bucket: Bucket, limit: int) -> int:
        """Move up to `limit` entries of a due bucket to finer levels, and stop at the first entry that is due.

        It has the effect of `cancel` and `add` for each entry, at half the cost, which matters: all entries in the span
        of a coarse bucket are moved while the first of them is due already.

        Returns:
            The number of entries moved.
        """
        return self._move(bucket, self.levels, limit)

    def spill_ahead(self, limit: int) -> int:
        """Move up to `limit` entries to finer levels ahead of time. Call it while no entry is due.

        When the clock reaches a bucket of a coarse level, its first entries are due immediately, and to find them the
        wheel must look at all others of the bucket: among many thousands, the first ones run late. So while there is
        time, this empties the next bucket of each level into the level below, which has buckets for them.

        Returns:
            The number of entries moved. If it is less than `limit`, there are no more to move now.
        """
        moved = 0
        for finer, level in pairwise(self.levels):
            tick = level.current_ms // level.tick_ms + 1
            bucket = level.buckets[tick % len(level.buckets)]
            if bucket.count and moved < limit:
                moved += self._move(bucket, (finer,), limit - moved)
        return moved

    def _move(self, bucket: Bucket, levels: Sequence[Level], limit: int) -> int:
        """Move entries of a bucket, each to the first of `levels` that covers its deadline, or else to the last."""
        current_ms = self.current_ms
        moved = 0
        entry = bucket.next
        while entry is not bucket and moved < limit:
            deadline_ms = entry.deadline_ms
            if deadline_ms <= current_ms:
                break
            for level in levels:
                if deadline_ms < level.end_ms:
                    break
            tick = deadline_ms // level.tick_ms
            target = level.buckets[tick % len(level.buckets)]
            following = entry.next
            last = target.previous
            entry.previous = last
            entry.next = target
            last.next = target.previous = entry
            entry.bucket = target
            target.count += 1
            if target.expiration_ms is None:
                self._queue(target, tick * level.tick_ms, level.tick_ms)
            moved += 1
            entry = following
        bucket.next = entry
        entry.previous = bucket
        bucket.count -= moved
        return moved

    def next_expiration_ms(self) -> int | None:
        """The time at which the earliest non-empty bucket begins; None if no entry waits."""
        heap = self._heap
        while heap:
            expiration_ms, _, bucket = heap[0]
            if bucket.count:
                return expiration_ms
            heapq.heappop(heap)  # all of its entries were cancelled or moved
            bucket.expiration_ms = None
        return None

    def due_bucket(self, now_ms: int) -> Bucket | None:
        """Move the clock to the earliest non-empty bucket that begins at or before `now_ms`, and return that bucket.

        It stays the earliest until it is empty, so a caller can take some of its entries now and the others later:
        `add` puts no entry in it meanwhile, because its tick is the one at which the clock stands.

        Returns:
            The bucket; None if there is none, and then the clock has moved to `now_ms`.
        """
        expiration_ms = self.next_expiration_ms()
        if expiration_ms is None or expiration_ms > now_ms:
            self._move_clock(now_ms)
            return None
        self._move_clock(expiration_ms)
        return self._heap[0][2]

    def snapshot(self) -> list[LevelSnapshot]:
        """Every level, finest first, with its non-empty buckets, earliest first."""
        return [
            LevelSnapshot(
                level.tick_ms,
                self.wheel_size,
                level.current_ms,
                tuple(
                    sorted(
                        BucketSnapshot(bucket.expiration_ms, bucket.count)
                        for bucket in level.buckets
                        if bucket.count and bucket.expiration_ms is not None
                    )
                ),
            )
            for level in self.levels
        ]

    def _move_clock(self, time_ms: int) -> None:
        """Move the clock of every level to `time_ms`, which must not pass a non-empty bucket. It never goes back."""
        if time_ms <= self.current_ms:
            return
        for level in self.levels:
            current_ms = time_ms - time_ms % level.tick_ms
            if current_ms == level.current_ms:
                break  # a coarser level then stands within the same tick, too
            level.current_ms = current_ms
            if level.buckets:
                level.end_ms = current_ms + level.interval_ms
        self.current_ms = self.levels[0].current_ms

    def _overflow_level(self, deadline_ms: int) -> Level:
        """Open the first level, make coarser levels until one covers `deadline_ms`, and return that one."""
        if deadline_ms > MAX_DEADLINE_MS:
            raise ValueError(f"deadline_ms is past the latest deadline, {MAX_DEADLINE_MS}: {deadline_ms}")
        level = self.levels[-1]
        if not level.buckets:
            level.open(self.wheel_size)
        while deadline_ms >= level.end_ms:
            level = Level(level.interval_ms, self.wheel_size, self.current_ms)
            level.open(self.wheel_size)
            self.levels.append(level)
        return level

    def _queue(self, bucket: Bucket, expiration_ms: int, tick_ms: int) -> None:
        """Push a bucket that has just got its first entry onto the heap; among equals the coarsest comes first."""
        bucket.expiration_ms = expiration_ms
        heap = self._heap
        heapq.heappush(heap, (expiration_ms, -tick_ms, bucket))
        if self.on_earlier is not None and heap[0][2] is bucket:
            self.on_earlier()
