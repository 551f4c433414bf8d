"""One member of a consumer group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import IntEnum
from typing import Final

from purgatorio.broker.group.delayed_heartbeat import DelayedHeartbeat
from purgatorio.broker.group.memory import ENTRY_BYTES, TEXT_BYTES, text_bytes
from purgatorio.broker.group.modern.modern_group import NAME_BYTES
from purgatorio.broker.group.modern.partitions import (
    NO_PARTITIONS,
    Partitions,
    common,
    each,
    from_wire,
    minus,
    to_wire,
    union,
)
from purgatorio.late import dataclass
from purgatorio.protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    CurrentPartitions,
)
from purgatorio.purgatory import TimerEntry

LEFT_FOR_A_WHILE: Final = -2
"""The epoch of a static member that has left and is expected back (KIP-345)."""


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment; the numbers are those of the records."""

    STABLE = 0
    """It owns all that it shall own by the target assignment of its epoch."""
    UNREVOKED = 1
    """The coordinator waits for it to give up partitions. It stays in its epoch until then."""
    UNRELEASED = 2
    """It waits for partitions that others own."""


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """The partitions that a member owns, and its epoch.

    Attributes:
        epoch: the epoch of the target assignment that the member has reached; 0 before the first.
        previous_epoch: the epoch before; a member still sends it if it has missed the answer with the new one.
        state: how far the member is on its way to the target assignment of its epoch.
        assigned: the partitions that it may own.
        revoking: the partitions that it has to give up, and may own until it says that it does not.
    """

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=dict)
    revoking: Partitions = field(default_factory=dict)

    @property
    def held(self) -> Partitions:
        """The partitions that no other member may own."""
        return union(self.assigned, self.revoking) if self.revoking else self.assigned

    @staticmethod
    def of_record(value: ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
        """Return the assignment of a record; a state of a later version counts as stable."""
        known = value.state in MemberState.__members__.values()
        return CurrentAssignment(
            value.member_epoch,
            value.previous_member_epoch,
            MemberState(value.state) if known else MemberState.STABLE,
            from_wire(value.assigned_partitions),
            from_wire(value.partitions_pending_revocation),
        )

    def record(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """Return the value of its record."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=int(self.state),
            assigned_partitions=to_wire(self.assigned, CurrentPartitions),
            partitions_pending_revocation=to_wire(self.revoking, CurrentPartitions),
        )


NOTHING_YET: Final = CurrentAssignment()
"""The assignment of a member that has just come."""


def subscription_bytes(subscription: ConsumerGroupMemberMetadataValue) -> int:
    """Return the bytes that a member's subscription takes."""
    names = subscription.subscribed_topic_names
    size_bytes = text_bytes(
        subscription.instance_id,
        subscription.rack_id,
        subscription.client_id,
        subscription.client_host,
        subscription.subscribed_topic_regex,
        subscription.server_assignor,
    )
    size_bytes += NAME_BYTES * len(names) + sum(map(len, names))
    if subscription.classic_member_metadata is not None:
        for each_protocol in subscription.classic_member_metadata.supported_protocols:
            size_bytes += ENTRY_BYTES + TEXT_BYTES + text_bytes(each_protocol.name) + len(each_protocol.metadata)
    return size_bytes


class ConsumerGroupMember:
    """A member as its records define it, with its timers.

    Attributes:
        subscription: its last record; a change replaces it.
        counted_bytes: what its group has counted for its subscription.
        session: ends when the member is taken for dead; None while its broker loads it.
        revocation: fires when it has taken too long to give up partitions, or as a classic member to join or sync; None
            while it need not.
    """

    __slots__ = ("counted_bytes", "current", "member_id", "revocation", "session", "subscription")

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.subscription = ConsumerGroupMemberMetadataValue()
        self.current = NOTHING_YET
        self.counted_bytes = 0
        self.session: DelayedHeartbeat | None = None
        self.revocation: TimerEntry | None = None

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.subscription.classic_member_metadata is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Return whether it owns its part of the target assignment of this epoch."""
        return self.current.state is MemberState.STABLE and self.current.epoch == target_epoch


class Owners:
    """Which member holds each partition: owns it, or has not given it up yet."""

    __slots__ = ("_member_ids",)

    def __init__(self) -> None:
        self._member_ids: dict[tuple[bytes, int], str] = {}

    def move(self, member_id: str, before: Partitions, after: Partitions) -> None:
        """Note that a member holds other partitions than before."""
        for partition in each(minus(before, after)):
            if self._member_ids.get(partition) == member_id:
                del self._member_ids[partition]
        self._member_ids.update(dict.fromkeys(each(after), member_id))

    def free(self, partitions: Partitions, member_id: str) -> Partitions:
        """Return those of the partitions that no other member holds."""
        found: dict[bytes, frozenset[int]] = {}
        for topic_id, numbers in partitions.items():
            free = self._free(topic_id, numbers, member_id)
            if free:
                found[topic_id] = free
        return found

    def _free(self, topic_id: bytes, numbers: Iterable[int], member_id: str) -> frozenset[int]:
        return frozenset(
            number for number in numbers if self._member_ids.get((topic_id, number), member_id) == member_id
        )


def reconcile(
    member_id: str,
    current: CurrentAssignment,
    *,
    target_epoch: int,
    target: Partitions,
    reported: Partitions | None,
    owners: Owners,
) -> CurrentAssignment:
    """Return the next assignment of a member; `current` itself if nothing changes.

    Args:
        target_epoch: the epoch of the target assignment.
        target: the partitions that it shall own.
        reported: the partitions that it says it owns; None: as before.
    """
    if current.state is MemberState.STABLE and current.epoch == target_epoch:
        return current
    if current.state is MemberState.UNREVOKED and _still_owns(current.revoking, reported):
        return current
    kept = common(current.assigned, target)
    revoking = minus(current.assigned, kept)
    if revoking and _still_owns(revoking, reported):
        return CurrentAssignment(current.epoch, current.previous_epoch, MemberState.UNREVOKED, kept, revoking)
    missing = minus(target, kept)
    free = owners.free(missing, member_id)
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED
    previous_epoch = current.previous_epoch if current.epoch == target_epoch else current.epoch
    following = CurrentAssignment(target_epoch, previous_epoch, state, union(kept, free), NO_PARTITIONS)
    return current if following == current else following


def _still_owns(revoking: Partitions, reported: Partitions | None) -> bool:
    """Whether the member may still own partitions that it has to give up; it must say that it does not."""
    return reported is None or bool(common(revoking, reported))
