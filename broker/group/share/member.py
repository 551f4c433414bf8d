"""One member of a share group."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from purgatorio.broker.group.delayed_heartbeat import DelayedHeartbeat
from purgatorio.broker.group.memory import text_bytes
from purgatorio.broker.group.modern.modern_group import NAME_BYTES
from purgatorio.broker.group.modern.partitions import Partitions, from_wire, to_wire
from purgatorio.late import dataclass
from purgatorio.protocol.group_records import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    TargetPartitions,
)

STABLE: Final = 0
"""The state of all members in their records: none has to give up partitions before another gets them."""


@dataclass(frozen=True, slots=True)
class ShareAssignment:
    """The partitions of which a member acquires records, and its epoch.

    Attributes:
        epoch: the epoch of the target assignment that the member has reached; 0 before the first.
        previous_epoch: the epoch before; a member still sends it if it has missed the answer with the new one.
    """

    epoch: int = 0
    previous_epoch: int = 0
    assigned: Partitions = field(default_factory=dict)

    @property
    def held(self) -> Partitions:
        """The same partitions: others may have them, too."""
        return self.assigned

    @staticmethod
    def of_record(value: ShareGroupCurrentMemberAssignmentValue) -> ShareAssignment:
        """Return what a record says."""
        return ShareAssignment(value.member_epoch, value.previous_member_epoch, from_wire(value.assigned_partitions))

    def record(self) -> ShareGroupCurrentMemberAssignmentValue:
        """Return the value of its record."""
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=STABLE,
            assigned_partitions=to_wire(self.assigned, TargetPartitions),
        )

    def moved(self, target_epoch: int, target: Partitions) -> ShareAssignment:
        """Return what a member has when it follows the target assignment of this epoch; the same if it does."""
        return self if self.epoch == target_epoch else ShareAssignment(target_epoch, self.epoch, target)

    def without(self, topic_ids: frozenset[bytes]) -> ShareAssignment:
        """Return the assignment without the partitions of these topics, in the same epoch; the same if it has none."""
        if topic_ids.isdisjoint(self.assigned):
            return self
        kept = {key: numbers for key, numbers in self.assigned.items() if key not in topic_ids}
        return ShareAssignment(self.epoch, self.previous_epoch, kept)


NOTHING_YET: Final = ShareAssignment()
"""The assignment of a member that has just come."""


def subscription_bytes(subscription: ShareGroupMemberMetadataValue) -> int:
    """Return the bytes that a member's subscription takes."""
    names = subscription.subscribed_topic_names
    size_bytes = text_bytes(subscription.rack_id, subscription.client_id, subscription.client_host)
    return size_bytes + NAME_BYTES * len(names) + sum(map(len, names))


class ShareMember:
    """A member as its records define it, with its session.

    Attributes:
        subscription: its last record; a change replaces it.
        counted_bytes: what its group has counted for its subscription.
        session: ends when the member is taken for dead; None while its broker loads it.
    """

    __slots__ = ("counted_bytes", "current", "member_id", "session", "subscription")

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.subscription = ShareGroupMemberMetadataValue()
        self.current = NOTHING_YET
        self.counted_bytes = 0
        self.session: DelayedHeartbeat | None = None
