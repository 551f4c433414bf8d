"""The delayed operation of an acquisition lock: the records that one member acquired together, for a limited time.

It is parked when records are acquired. It ends when the member has decided about the last of them, or its share session
ends, or the broker is not the leader any more; at its deadline those that are left become available to other members. A
renewal moves the deadline (KIP-1222).

Kafka has a timer task for each batch, and one for each record as soon as a member decides about a part of a batch. Here
the lock stays one operation, and counts the records that it still holds.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from purgatorio.broker.causes.cause import NotAcknowledged
from purgatorio.broker.causes.words import shortened
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.holdings import LockHolder
from purgatorio.purgatory import DelayedOperation, Purgatory


class LockKey(NamedTuple):
    """The watch key of an acquisition lock: the records that it was taken for."""

    group_id: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int

    def __str__(self) -> str:
        offsets = f"{self.first_offset}"
        if self.last_offset != self.first_offset:
            offsets += f"–{self.last_offset}"
        return f"{shortened(self.group_id)}: {self.topic}-{self.partition} {offsets}"


class LockOwner(Protocol):
    """The share partition of a lock."""

    def lock_ran_out(self, lock: AcquisitionLock) -> None:
        """Make the records that a lock still holds available again: its deadline has come."""
        ...


class AcquisitionLock(DelayedOperation):
    """The lock of a member on records that it acquired together.

    Args:
        duration_ms: share.record.lock.duration.ms.
        delivery_count: how often the records were delivered, this time included.
        owner: notified when the deadline comes.

    Attributes:
        holder: the member.
        held_count: how many of its records are still acquired under it; the share partition counts them.
        run_count: in how many runs these are; none is counted of a lock that is over.
        ran_out: whether its deadline has come.
    """

    __slots__ = (
        "_is_over",
        "_key",
        "_purgatory",
        "_share_partition",
        "delivery_count",
        "held_count",
        "holder",
        "ran_out",
        "run_count",
    )

    def __init__(
        self,
        purgatory: Purgatory[Any],
        key: LockKey,
        holder: LockHolder,
        duration_ms: int,
        *,
        delivery_count: int,
        owner: LockOwner,
    ) -> None:
        super().__init__(duration_ms)
        self._purgatory = purgatory
        self._key = key
        self._share_partition = owner
        self.holder = holder
        self.delivery_count = delivery_count
        self.held_count = 0
        self.run_count = 0
        self.ran_out = False
        self._is_over = False

    @property
    def member_id(self) -> str:
        """The id of the member that has the records."""
        return self.holder.member_id

    @property
    def first_offset(self) -> int:
        """The first of the records that it was taken for."""
        return self._key.first_offset

    @property
    def last_offset(self) -> int:
        """The last of the records that it was taken for."""
        return self._key.last_offset

    def count_runs(self, more: int) -> None:
        """Count runs of records that are held under it, or, if negative, are no more."""
        if not self._is_over:
            self.run_count += more
            self.holder.count(more)

    def over(self) -> None:
        """Count no run any more: records of a lock that has ended may still be on their way to another state."""
        self.count_runs(-self.run_count)
        self._is_over = True

    def start(self) -> None:
        """Begin the time of the lock."""
        self._purgatory.try_complete_else_watch(self, (self._key,))

    def renew(self, duration_ms: int) -> None:
        """Give the member this long again, from now (KIP-1222)."""
        self._purgatory.postpone(self, duration_ms)

    def end(self) -> None:
        """End the lock: the member has decided about all of its records, or they are released."""
        self.force_complete()

    def drop(self) -> None:
        """End the lock without a decision: this broker does not lead the partition any more."""
        self._purgatory.cancel(self)

    def try_complete(self) -> bool:
        """Wait on: only `end` completes a lock."""
        return False

    def on_complete(self) -> None:
        """Answer no request: a lock has none."""

    def on_expiration(self) -> None:
        """Make the records available again."""
        self.ran_out = True
        self._share_partition.lock_ran_out(self)

    def causes(self) -> tuple[NotAcknowledged]:
        """Return the records with the member that is to decide about them."""
        key = self._key
        tp = TopicPartition(key.topic, key.partition)
        held = (key.first_offset, key.last_offset, self.held_count)
        return (NotAcknowledged(key.group_id, self.member_id, tp, *held, self.delivery_count),)

    def held_by(self) -> tuple[str]:
        """Return the member's id."""
        return (shortened(self.member_id),)
