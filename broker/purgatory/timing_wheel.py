"""A hierarchical timing wheel: deadlines in buckets, added and cancelled in O(1), whatever the number that waits.

One wheel is a circle of ``wheel_size`` buckets, one per tick. With a tick of 1 ms and 20 buckets it covers 20 ms. What
lies further away goes to an overflow wheel whose tick is the whole span of the wheel below: 20 ms, 400 ms, 8 s, 160 s
…; each is made when first needed. When the clock reaches a bucket of a coarse wheel, its entries move to finer wheels
or, if their time has come, are run: an entry moves at most once per level.

A bucket is a doubly linked list threaded through its entries. A dict would read more easily, but it stalls when it
grows (15 ms at a million entries, against 0.3 ms), and its add and cancel in random order took half as long again.

Nothing turns the wheel while nothing is due: non-empty buckets stand in a heap by the time at which they begin. A
bucket is there at most once, so the heap holds at most ``wheel_size`` buckets per level, however many entries wait.

Source: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987); Kafka's use of it, KAFKA-1989.
Here a deadline between two ticks is rounded up, so that it is never run early; Kafka rounds down, which is the same for
the tick of 1 ms that it uses.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple


class TimerEntry:
    """One deadline in a timer; subclasses say in `run` what happens then.

    An entry is in one bucket at most, and knows which: that is what makes `cancel` O(1).
    """

    __slots__ = ("bucket", "deadline_ms", "next", "previous")

    bucket: Bucket | None
    """The bucket that holds it; None before it is added, after it has run, and once it is cancelled."""
    deadline_ms: int
    """When it is due, on the clock of the timer; `Timer.add` rounds it up to a tick."""
    next: TimerEntry
    previous: TimerEntry  # both set only while it is in a bucket: a removed entry must not pin its former neighbours

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.bucket = None

    def run(self) -> None:
        """Do what the deadline is for. Called once by the timer, when the entry is in no bucket any more."""
        raise NotImplementedError

    def cancel(self) -> bool:
        """Take it out of its timer, in O(1). False if it was not waiting (never added, has run, cancelled before)."""
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
    """The entries of one tick of one level: a ring through its entries, of which the bucket itself is the joint."""

    __slots__ = ("count", "expiration_ms")

    count: int
    """How many entries it holds."""
    expiration_ms: int | None
    """Where its tick begins; None while it is not in the heap of buckets."""

    def __init__(self) -> None:
        super().__init__(0)
        self.next = self.previous = self
        self.count = 0
        self.expiration_ms = None


class Level:
    """One circle of buckets: `wheel_size` ticks of `tick_ms`, from the clock of the wheel onwards.

    It has room for as many ticks again, for what is moved here ahead of time (`TimingWheel.spill_ahead`).
    """

    __slots__ = ("buckets", "current_ms", "end_ms", "interval_ms", "tick_ms")

    current_ms: int
    """The clock, rounded down to a tick of this level."""
    end_ms: int
    """The first deadline too far away for this level: `current_ms` + `interval_ms`."""

    def __init__(self, tick_ms: int, wheel_size: int, clock_ms: int) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * wheel_size
        self.buckets = [Bucket() for _ in range(2 * wheel_size)]
        self.current_ms = clock_ms - clock_ms % tick_ms
        self.end_ms = self.current_ms + self.interval_ms


class BucketSnapshot(NamedTuple):
    """One bucket that holds entries, as a page shows it."""

    expiration_ms: int
    entries: int


class LevelSnapshot(NamedTuple):
    """One level of a wheel, finest first, as a page shows it; only buckets that hold entries."""

    tick_ms: int
    wheel_size: int
    current_ms: int
    buckets: tuple[BucketSnapshot, ...]


class TimingWheel:
    """All levels of one wheel, and the heap of the buckets that hold something.

    Args:
        start_ms: the time it begins at; rounded down to a tick.
        tick_ms: the tick of the finest level.
        wheel_size: buckets per level; each level's tick is the span of the one below.
        on_earlier: called when a bucket becomes the earliest of all, for whoever sleeps until the earliest.
    """

    __slots__ = ("_heap", "current_ms", "levels", "on_earlier", "wheel_size")

    current_ms: int
    """How far its clock has come; what is due later than that waits in a bucket."""

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
        """How many entries wait, exactly. Summed over the buckets, since add and cancel run far more often."""
        return sum(bucket.count for level in self.levels for bucket in level.buckets)

    def add(self, entry: TimerEntry) -> bool:
        """Put an entry, which is in no bucket, where its deadline belongs. False: it is due already, and not added."""
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
        """Move up to `limit` entries of a due bucket to finer levels, as far as the first whose time has come.

        The same as to cancel and `add` each, at half the cost: all that falls into the span of a coarse bucket is moved
        while the first of it is due already.

        Returns:
            How many were moved.
        """
        return self._move(bucket, self.levels, limit)

    def spill_ahead(self, limit: int) -> int:
        """Move up to `limit` entries to finer levels before it is their time, for when nothing is due.

        When the clock reaches the bucket of a coarse level, its first entries are due at once, and all others of it
        have to be looked at to find them: with many thousands, those fire late. So the next bucket of each level is
        emptied into the level below, which has room for it, while there is time.

        Returns:
            How many were moved; fewer than `limit` means that there is nothing more to do now.
        """
        moved = 0
        for finer, level in pairwise(self.levels):
            tick = level.current_ms // level.tick_ms + 1
            bucket = level.buckets[tick % len(level.buckets)]
            if bucket.count and moved < limit:
                moved += self._move(bucket, (finer,), limit - moved)
        return moved

    def _move(self, bucket: Bucket, levels: Sequence[Level], limit: int) -> int:
        """Move entries, each to the first of these levels that reaches its deadline, or to the last of them."""
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
        """When the earliest bucket that holds an entry begins; None if nothing waits."""
        heap = self._heap
        while heap:
            expiration_ms, _, bucket = heap[0]
            if bucket.count:
                return expiration_ms
            heapq.heappop(heap)  # all of its entries were cancelled or have moved on
            bucket.expiration_ms = None
        return None

    def due_bucket(self, now_ms: int) -> Bucket | None:
        """Move the clock to the earliest bucket that begins at or before `now_ms`, and return it.

        It stays the earliest until it is empty, so one can take some of its entries now and the others later: entries
        added meanwhile never land in it, because it is the tick at which the clock stands. With no such bucket, the
        clock moves to `now_ms`, and the answer is None.
        """
        expiration_ms = self.next_expiration_ms()
        if expiration_ms is None or expiration_ms > now_ms:
            self._move_clock(now_ms)
            return None
        self._move_clock(expiration_ms)
        return self._heap[0][2]

    def snapshot(self) -> list[LevelSnapshot]:
        """Every level, finest first, with the buckets that hold entries, earliest first."""
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
        """Bring every level to a time that lies past no waiting bucket; the clock never goes back."""
        if time_ms <= self.current_ms:
            return
        for level in self.levels:
            current_ms = time_ms - time_ms % level.tick_ms
            if current_ms == level.current_ms:
                break  # a coarser level then stands within the same tick, too
            level.current_ms = current_ms
            level.end_ms = current_ms + level.interval_ms
        self.current_ms = self.levels[0].current_ms

    def _overflow_level(self, deadline_ms: int) -> Level:
        """Make coarser levels until one reaches `deadline_ms`; the last is returned."""
        level = self.levels[-1]
        while deadline_ms >= level.end_ms:
            level = Level(level.interval_ms, self.wheel_size, self.current_ms)
            self.levels.append(level)
        return level

    def _queue(self, bucket: Bucket, expiration_ms: int, tick_ms: int) -> None:
        """Enter a bucket that has just got its first entry into the heap; a coarse one goes first among equals."""
        bucket.expiration_ms = expiration_ms
        heap = self._heap
        heapq.heappush(heap, (expiration_ms, -tick_ms, bucket))
        if self.on_earlier is not None and heap[0][2] is bucket:
            self.on_earlier()
