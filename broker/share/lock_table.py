"""The acquisition locks of a share partition, by member."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.purgatory import Purgatory
from purgatorio.broker.share.acquisition_lock import AcquisitionLock, LockKey, LockOwner
from purgatorio.broker.share.in_flight import InFlight, InFlightBatch


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

    def lock(self, batch: InFlightBatch, member_id: str, duration_ms: int, owner: LockOwner) -> None:
        """Lock a batch, which has no lock, for a member."""
        lock = AcquisitionLock(
            self._purgatory(),
            LockKey(self._group_id, *self._tp, batch.first_offset, batch.last_offset),
            member_id,
            duration_ms,
            delivery_count=batch.delivery_count,
            owner=owner,
        )
        lock.held_count = batch.count
        batch.lock = lock
        self._by_member.setdefault(member_id, {})[lock] = None
        lock.start()

    def unlock(self, batch: InFlightBatch) -> None:
        """Take a batch from its lock, if it has one; the last one ends the lock."""
        lock, batch.lock = batch.lock, None
        if lock is not None:
            self.count_down(lock, batch.count)

    def count_down(self, lock: AcquisitionLock, count: int) -> None:
        """Note that a lock holds so many records less; the last one ends it."""
        lock.held_count -= count
        if not lock.held_count:
            self.forget(lock)
            lock.end()

    def renew(self, batches: Iterable[InFlightBatch], member_id: str, duration_ms: int, owner: LockOwner) -> None:
        """Give a member the whole time again for batches that it has locked.

        If these are not all that a lock holds, they get locks of their own.
        """
        for lock, held in by_lock(batches):
            if sum(batch.count for batch in held) == lock.held_count:
                lock.renew(duration_ms)
                continue
            for batch in held:
                self.unlock(batch)
                self.lock(batch, member_id, duration_ms, owner)

    def forget(self, lock: AcquisitionLock) -> None:
        """Note that a lock has ended."""
        of_member = self._by_member.get(lock.member_id)
        if of_member is not None and lock in of_member:
            del of_member[lock]
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
                lock.drop()


def held_under(lock: AcquisitionLock, records: InFlight) -> list[InFlightBatch]:
    """Return the batches that are acquired under a lock, without those that are being acknowledged."""
    overlapping = records.overlapping(lock.first_offset, lock.last_offset)
    return [batch for batch in overlapping if batch.lock is lock and batch.target is None]


def by_lock(batches: Iterable[InFlightBatch]) -> list[tuple[AcquisitionLock, list[InFlightBatch]]]:
    """Return acquired batches by lock, in their order."""
    found: list[tuple[AcquisitionLock, list[InFlightBatch]]] = []
    for batch in batches:
        lock = batch.lock
        assert lock is not None, f"{batch!r} has no lock"
        if found and found[-1][0] is lock:
            found[-1][1].append(batch)
        else:
            found.append((lock, [batch]))
    return found
