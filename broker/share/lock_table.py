"""The acquisition locks of a share partition, by member."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.acquisition_lock import AcquisitionLock, LockKey, LockOwner
from purgatorio.broker.share.holdings import LockHolder
from purgatorio.broker.share.in_flight import InFlightBatch, RecordsInFlight
from purgatorio.purgatory import Purgatory


class LockTable:
    """The locks of one share partition that have not ended.

    Args:
        purgatory: returns where they wait for their deadlines; it is asked when there is a lock.
    """

    __slots__ = ("_by_member", "_group_id", "_purgatory", "_tp")

    def __init__(self, purgatory: Callable[[], Purgatory[Any]], group_id: str, tp: TopicPartition) -> None:
        self._purgatory = purgatory
        self._group_id = group_id
        self._tp = tp
        self._by_member: dict[str, dict[AcquisitionLock, None]] = {}  # a dict for its order

    def lock(self, batches: Sequence[InFlightBatch], holder: LockHolder, duration_ms: int, owner: LockOwner) -> None:
        """Lock batches, which have no lock, for a member; by ascending offset, and of the same deliveries."""
        first = batches[0]
        lock = AcquisitionLock(
            self._purgatory(),
            LockKey(self._group_id, *self._tp, first.first_offset, batches[-1].last_offset),
            holder,
            duration_ms,
            delivery_count=first.delivery_count,
            owner=owner,
        )
        for batch in batches:
            lock.held_count += batch.count
            batch.lock = lock
        lock.count_runs(len(batches))
        self._by_member.setdefault(holder.member_id, {})[lock] = None
        lock.start()

    def unlock(self, batch: InFlightBatch) -> None:
        """Take a batch from its lock, if it has one; the last one ends the lock."""
        lock, batch.lock = batch.lock, None
        if lock is not None:
            lock.count_runs(-1)
            self.count_down(lock, batch.count)

    def count_down(self, lock: AcquisitionLock, count: int) -> None:
        """Note that a lock holds so many records less; the last one ends it."""
        lock.held_count -= count
        if not lock.held_count:
            self.forget(lock)
            lock.end()

    def renew(self, batches: Iterable[InFlightBatch], duration_ms: int, owner: LockOwner) -> None:
        """Give the whole time again for batches that are locked; by ascending offset.

        If these are not all that a lock holds, they get a lock of their own: one, wherever they are.
        """
        for lock, held in by_lock(batches).items():
            if sum(batch.count for batch in held) == lock.held_count:
                lock.renew(duration_ms)
                continue
            for batch in held:
                self.unlock(batch)
            self.lock(held, lock.holder, duration_ms, owner)

    def forget(self, lock: AcquisitionLock) -> None:
        """Note that a lock has ended."""
        of_member = self._by_member.get(lock.member_id)
        if of_member is not None and lock in of_member:
            del of_member[lock]
            lock.over()
            if not of_member:
                del self._by_member[lock.member_id]

    def __iter__(self) -> Iterator[AcquisitionLock]:
        """Yield all locks."""
        for of_member in self._by_member.values():
            yield from of_member

    def of_member(self, member_id: str) -> Iterable[AcquisitionLock]:
        """Return the locks of a member, oldest first."""
        return self._by_member.get(member_id, ())

    def drop_all(self) -> None:
        """End all locks without a decision about their records."""
        by_member, self._by_member = self._by_member, {}
        for of_member in by_member.values():
            for lock in of_member:
                lock.over()
                lock.drop()


def held_under(lock: AcquisitionLock, records: RecordsInFlight) -> list[InFlightBatch]:
    """Return the batches that are acquired under a lock, without those that are being acknowledged."""
    overlapping = records.overlapping(lock.first_offset, lock.last_offset)
    return [batch for batch in overlapping if batch.lock is lock and batch.target is None]


def held_by(
    holder: LockHolder, locks: Iterable[AcquisitionLock], records: RecordsInFlight, most: int
) -> list[InFlightBatch]:
    """Return batches that a member has acquired under these locks and is not acknowledging, so many at most.

    Each record is looked at once, also where the locks are on parts of what was acquired together.
    """
    found: list[InFlightBatch] = []
    next_offset = 0
    for lock in sorted((each for each in locks if each.holder is holder), key=_first_offset):
        first_offset, last_offset = max(lock.first_offset, next_offset), lock.last_offset
        if first_offset > last_offset:
            continue
        for batch in records.overlapping(first_offset, last_offset):
            held = batch.lock
            if batch.first_offset < first_offset or batch.target is not None:
                continue
            if held is not None and held.holder is holder:
                found.append(batch)
                if len(found) == most:
                    return found
        next_offset = last_offset + 1
    return found


def _first_offset(lock: AcquisitionLock) -> int:
    return lock.first_offset


def by_lock(batches: Iterable[InFlightBatch]) -> dict[AcquisitionLock, list[InFlightBatch]]:
    """Return acquired batches by lock, in their order."""
    found: dict[AcquisitionLock, list[InFlightBatch]] = {}
    for batch in batches:
        lock = batch.lock
        assert lock is not None, f"{batch!r} has no lock"
        found.setdefault(lock, []).append(batch)
    return found
