"""The records in flight of a share partition: those from its start offset to its end offset, by their state.

They are kept in batches: neighbouring records with the same state, without a hole from one batch to the next. A batch
is split where a member decides about a part of it, and joined with its neighbours when both are in the same state
again. So what is kept follows the number of different states, and an acknowledgement costs what it touches. (Kafka
keeps a state for each record of a batch as soon as a member decides about a part of it.)

Batches are found by bisection over their first offsets, and those that may be acquired over a list of their own. Both
lists are short: a member that would cut records into more than `MAX_BATCHES` is refused, since it may acquire a record
batch whole, of more records than the limit of locks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from purgatorio.broker.share.acquisition_lock import AcquisitionLock
from purgatorio.broker.share.giving_up import GiveUpCause
from purgatorio.protocol.share_state import RecordState

AVAILABLE: Final = RecordState.AVAILABLE
ACQUIRED: Final = RecordState.ACQUIRED
ACKNOWLEDGED: Final = RecordState.ACKNOWLEDGED
ARCHIVED: Final = RecordState.ARCHIVED

MAX_BATCHES: Final = 2_500
"""The most batches of a share partition into which acknowledgements cut its records."""

TRANSITIONS: Final[Mapping[RecordState, tuple[RecordState, ...]]] = {
    AVAILABLE: (ACQUIRED, RecordState.ARCHIVING, ARCHIVED),
    ACQUIRED: (AVAILABLE, ACKNOWLEDGED, RecordState.ARCHIVING, ARCHIVED),
    ACKNOWLEDGED: (),
    RecordState.ARCHIVING: (ARCHIVED,),
    ARCHIVED: (),
}
"""By state of a record, the states that may follow."""


class InFlightBatch:
    """Neighbouring records with the same state.

    Attributes:
        delivery_count: how often they were delivered.
        delivered_with: how many records were in the part in which they were delivered last: the next one may have to be
            smaller.
        lock: the lock under which they are acquired; None in other states.
        target: the state that is being written for them; None if none is. Meanwhile they are in their old state.
        give_up_cause: why the target is ARCHIVING.
        is_dead_letter: whether they are in the dead-letter topic.
    """

    __slots__ = (
        "delivered_with",
        "delivery_count",
        "first_offset",
        "give_up_cause",
        "is_dead_letter",
        "last_offset",
        "lock",
        "state",
        "target",
    )

    lock: AcquisitionLock | None
    target: RecordState | None
    give_up_cause: GiveUpCause | None

    def __init__(
        self, first_offset: int, last_offset: int, state: RecordState, delivery_count: int, delivered_with: int
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.state = state
        self.delivery_count = delivery_count
        self.delivered_with = delivered_with
        self.lock = None
        self.target = None
        self.give_up_cause = None
        self.is_dead_letter = False

    @property
    def count(self) -> int:
        """The number of offsets."""
        return self.last_offset - self.first_offset + 1

    @property
    def is_complete(self) -> bool:
        """Whether the records are delivered for the last time, or are being written as such."""
        state = self.state if self.target is None else self.target
        return state is ACKNOWLEDGED or state is ARCHIVED

    @property
    def is_hole(self) -> bool:
        """Whether no member ever gets these offsets: their records are compacted away, or of an aborted transaction."""
        return self.state is ARCHIVED and self.delivery_count == 0

    def __repr__(self) -> str:
        target = "" if self.target is None else f"→{self.target.name}"
        return f"{self.first_offset}–{self.last_offset} {self.state.name}{target} ×{self.delivery_count}"


class RecordsInFlight:
    """The batches from a start offset to an end offset. If there are none, the end is one below the start.

    Attributes:
        record_count: the offsets in flight without holes; the limit of locks is about these.
        complete_count: the offsets in flight that are acknowledged or archived, or are being written as such.
    """

    __slots__ = ("_available", "_batches", "_firsts", "complete_count", "end_offset", "record_count", "start_offset")

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset - 1
        self.record_count = 0
        self.complete_count = 0
        self._batches: list[InFlightBatch] = []
        self._firsts: list[int] = []  # of the batches
        self._available: list[int] = []  # first offsets of the batches that may be acquired

    # --- looking ---

    def __len__(self) -> int:
        """The number of batches."""
        return len(self._batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def first_available(self) -> int | None:
        """The first offset that may be acquired; None if none may."""
        return self._available[0] if self._available else None

    def reach(self, count: int) -> int:
        """Return the last of so many offsets that may be acquired: the available ones, then those after the end."""
        for first_offset in self._available:
            batch_count = self._at(first_offset).count
            if batch_count >= count:
                return first_offset + count - 1
            count -= batch_count
        return self.end_offset + count

    def overlapping(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Return the batches with an offset in this range, in order."""
        firsts = self._firsts
        return self._batches[max(0, bisect_right(firsts, first_offset) - 1) : bisect_right(firsts, last_offset)]

    def overlap_count(self, first_offset: int, last_offset: int) -> int:
        """Return how many batches have an offset in this range."""
        firsts = self._firsts
        return max(0, bisect_right(firsts, last_offset) - max(0, bisect_right(firsts, first_offset) - 1))

    def next_available(self, first_offset: int, last_offset: int) -> InFlightBatch | None:
        """Return the first batch that may be acquired in this range; one that begins below the range is split for it.

        It may end above the range.
        """
        available = self._available
        if first_offset > last_offset:
            return None
        index = bisect_right(available, first_offset) - 1
        if index >= 0:
            batch = self._at(available[index])
            if batch.last_offset >= first_offset:
                return batch if batch.first_offset == first_offset else self._split(batch, first_offset)
        index += 1
        if index == len(available) or available[index] > last_offset:
            return None
        return self._at(available[index])

    def cuts(self, ranges: Iterable[tuple[int, int]]) -> int:
        """Return how many batches more `cut` makes of these ranges, one after the other, at most."""
        count = 0
        for first_offset, last_offset in ranges:
            touched = self.overlapping(first_offset, last_offset)
            count += touched[0].first_offset < first_offset and not touched[0].is_hole
            count += touched[-1].last_offset > last_offset and not touched[-1].is_hole
        return count

    # --- changing ---

    def append(
        self, last_offset: int, state: RecordState, delivery_count: int, delivered_with: int = 0
    ) -> InFlightBatch:
        """Add the offsets from the end to this one."""
        first_offset = self.end_offset + 1
        count = last_offset - self.end_offset
        batch = InFlightBatch(first_offset, last_offset, state, delivery_count, delivered_with or count)
        self._batches.append(batch)
        self._firsts.append(first_offset)
        self.end_offset = last_offset
        if state is AVAILABLE:
            self._available.append(first_offset)
        if not batch.is_hole:
            self.record_count += count
        if batch.is_complete:
            self.complete_count += count
        return batch

    def cut(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Return the batches of this range. The first and the last one are split for it, but not if they are holes."""
        touched = self.overlapping(first_offset, last_offset)
        if touched[0].first_offset < first_offset and not touched[0].is_hole:
            touched[0] = self._split(touched[0], first_offset)
        if touched[-1].last_offset > last_offset and not touched[-1].is_hole:
            self._split(touched[-1], last_offset + 1)
        return touched

    def acquire(self, batch: InFlightBatch, delivered_with: int) -> None:
        """Give an available batch to a member, as one delivery more; the caller locks it."""
        assert batch.state is AVAILABLE, f"{batch!r} cannot be acquired"
        self._forget_available(batch.first_offset)
        batch.state = ACQUIRED
        batch.delivery_count += 1
        batch.delivered_with = delivered_with

    def begin(self, batch: InFlightBatch, target: RecordState) -> None:
        """Note that this state is being written for a batch."""
        batch.target = target
        if batch.is_complete:
            self.complete_count += batch.count

    def roll_back(self, batch: InFlightBatch) -> None:
        """Forget the state that was being written for a batch: it is in its old one."""
        if batch.is_complete:
            self.complete_count -= batch.count
        batch.target = None

    def settle(self, batch: InFlightBatch, state: RecordState) -> None:
        """Put a batch, whose lock the caller has ended, into a state, and join it with its neighbours if it can."""
        assert state in TRANSITIONS[batch.state], f"{batch!r} cannot become {state.name}"
        was_complete = batch.is_complete
        if batch.state is AVAILABLE:
            self._forget_available(batch.first_offset)
        batch.state = state
        batch.target = batch.lock = None
        self.complete_count += batch.count * (batch.is_complete - was_complete)
        if batch.is_hole:  # it was taken for records that another leader had delivered
            self.record_count -= batch.count
        if state is AVAILABLE:
            insort(self._available, batch.first_offset)
        self._join(batch)

    def advance(self) -> bool:
        """Move the start offset over leading records that are acknowledged or archived; return whether it has moved."""
        done = 0
        for batch in self._batches:
            if batch.target is not None or not batch.is_complete:
                break
            done += 1
            self._leave(batch, batch.count)
        if done:
            self._cut_off(done)
        return done > 0

    def drop_below(self, offset: int) -> list[tuple[AcquisitionLock, int]]:
        """Drop the offsets below this one, which is above the start offset, whatever their state: the log begins here.

        Writes that are under way for them have no effect any more.

        Returns:
            The locks of acquired records among them, and of how many.
        """
        unlocked: list[tuple[AcquisitionLock, int]] = []
        if offset > self.end_offset + 1:
            self.end_offset = offset - 1
        done = 0
        for batch in self._batches:
            if batch.first_offset >= offset:
                break
            left = max(0, batch.last_offset - offset + 1)
            dropped_count = batch.count - left
            if batch.lock is not None:
                unlocked.append((batch.lock, dropped_count))
            self._leave(batch, dropped_count)
            if left:
                self._trim(batch, offset)
                break
            if batch.state is AVAILABLE:
                self._forget_available(batch.first_offset)
            if batch.lock is not None:
                batch.lock.count_runs(-1)
            batch.target = batch.lock = None
            done += 1
        self._cut_off(done)
        self.start_offset = offset
        return unlocked

    # --- inside ---

    def _at(self, first_offset: int) -> InFlightBatch:
        return self._batches[bisect_left(self._firsts, first_offset)]

    def _forget_available(self, first_offset: int) -> None:
        del self._available[bisect_left(self._available, first_offset)]

    def _split(self, batch: InFlightBatch, offset: int) -> InFlightBatch:
        """Let a batch end below this offset, and return a new one from there."""
        upper = InFlightBatch(offset, batch.last_offset, batch.state, batch.delivery_count, batch.delivered_with)
        upper.lock = batch.lock
        if upper.lock is not None:
            upper.lock.count_runs(1)
        upper.is_dead_letter = batch.is_dead_letter
        batch.last_offset = offset - 1
        index = bisect_left(self._firsts, offset)
        self._firsts.insert(index, offset)
        self._batches.insert(index, upper)
        if batch.state is AVAILABLE:
            insort(self._available, offset)
        return upper

    def _join(self, batch: InFlightBatch) -> None:
        """Join a batch with its neighbours, if they are alike."""
        index = bisect_left(self._firsts, batch.first_offset)
        if index + 1 < len(self._batches) and alike(batch, self._batches[index + 1]):
            self._absorb(index)
        if index and alike(self._batches[index - 1], batch):
            self._absorb(index - 1)

    def _absorb(self, index: int) -> None:
        following = self._batches.pop(index + 1)
        del self._firsts[index + 1]
        self._batches[index].last_offset = following.last_offset
        if following.state is AVAILABLE:
            self._forget_available(following.first_offset)

    def _leave(self, batch: InFlightBatch, count: int) -> None:
        """Count the first offsets of a batch as not in flight any more."""
        if not batch.is_hole:
            self.record_count -= count
        if batch.is_complete:
            self.complete_count -= count

    def _trim(self, batch: InFlightBatch, offset: int) -> None:
        """Let a batch begin at this offset."""
        index = bisect_left(self._firsts, batch.first_offset)
        if batch.state is AVAILABLE:
            self._available[bisect_left(self._available, batch.first_offset)] = offset
        batch.first_offset = self._firsts[index] = offset

    def _cut_off(self, batch_count: int) -> None:
        """Remove the first batches."""
        del self._batches[:batch_count]
        del self._firsts[:batch_count]
        self.start_offset = self._firsts[0] if self._firsts else self.end_offset + 1


def alike(one: InFlightBatch, other: InFlightBatch) -> bool:
    """Return whether two neighbours can be one batch."""
    state = one.state
    if state is not other.state or state is ACQUIRED or one.target is not None or other.target is not None:
        return False
    if one.delivery_count != other.delivery_count or one.is_dead_letter is not other.is_dead_letter:
        return False
    return state is not AVAILABLE or one.delivered_with == other.delivered_with
