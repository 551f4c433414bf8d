"""A share group and its members, as their records define them (KIP-932)."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Final

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.delayed_heartbeat import DelayedHeartbeat
from purgatorio.broker.group.group import GroupType
from purgatorio.broker.group.memory import text_bytes
from purgatorio.broker.group.modern.modern_group import NAME_BYTES, ModernGroup, SubscriptionCounts
from purgatorio.broker.group.modern.partitions import Partitions, from_wire, to_wire
from purgatorio.broker.group.modern.sessions import MemberSessions
from purgatorio.broker.group.share.delayed_initialization import DelayedInitialization
from purgatorio.broker.group.share.state_partitions import NO_STATE, StatePartitions
from purgatorio.late import dataclass
from purgatorio.protocol.consumer_offsets import Key
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.group_records import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
    TargetPartitions,
)

PROTOCOL_TYPE: Final = "share"
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
        """Return the assignment of a record."""
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
        """Return the assignment after the target assignment of this epoch; the same one if it is of this epoch."""
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


class ShareGroupMember:
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


class ShareGroup(ModernGroup[ShareGroupMember]):
    """A share group. Only the methods that apply records change what records say.

    It has no committed offsets: how far it has come is in the states that share coordinators keep.

    Attributes:
        counts: how many members subscribe to what.
        states: its share partitions, by how far the share coordinators are with their states.
        is_states_stale: whether `states` may ask for something to be done; the next heartbeat looks.
        initializations: the attempts to initialize states that are under way, or that wait.
        must_begin_epoch: whether the next attempt needs a new epoch, so that what is left of an earlier one is fenced.
        deletions: the ids of the topics whose states are being deleted by this broker.
    """

    __slots__ = ("counts", "deletions", "initializations", "is_states_stale", "must_begin_epoch", "states")

    type: ClassVar[GroupType] = "share"
    counts: SubscriptionCounts

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.counts = SubscriptionCounts()
        self.states = NO_STATE
        self.is_states_stale = True
        self.initializations: dict[DelayedInitialization, None] = {}
        self.must_begin_epoch = False
        self.deletions: dict[bytes, None] = {}

    # --- for others ---

    @property
    def state_name(self) -> str:
        """Empty or Stable."""
        return "Stable" if self.members else "Empty"

    @property
    def protocol_type(self) -> str:
        """Always ``share``."""
        return PROTOCOL_TYPE

    @property
    def is_stable(self) -> bool:
        """Whether every member has its target, and no partition waits for a state."""
        return super().is_stable and not self.is_states_stale and not self.initializations

    @property
    def gives_way(self) -> bool:
        """Whether the group may be replaced, or is forgotten: never, as its states stay until they are deleted."""
        return False

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset(self.counts.names)

    def record_keys(self) -> list[Key]:
        group_id = self.group_id
        return [
            ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
            ShareGroupStatePartitionMetadataKey(group_id=group_id),
            ShareGroupMetadataKey(group_id=group_id),
        ]

    def subscribes_to(self, topic: str) -> bool:
        """Return whether a member consumes the topic."""
        return topic in self.counts.names

    def asked(self, topic_id: bytes) -> frozenset[int]:
        """Return the partitions of a topic for which an attempt is under way, or waits."""
        return frozenset(
            key.partition for each in self.initializations for key in each.starts if key.topic_id == topic_id
        )

    def asking(self, topic_ids: frozenset[bytes]) -> list[DelayedInitialization]:
        """Return the attempts that are under way for partitions of these topics."""
        return [each for each in self.initializations if each.is_asking and not topic_ids.isdisjoint(each.names)]

    @property
    def is_stale(self) -> bool:
        """Whether the next heartbeat shall look whether an epoch is due, or a state is missing."""
        return self.is_metadata_stale or self.is_states_stale

    # --- committed offsets ---

    def check_commit(self, member_id: str, instance_id: str | None, generation_or_epoch: int, version: int) -> None:
        """Refuse offsets: members acknowledge records instead.

        Raises:
            CoordinatorError: GROUP_ID_NOT_FOUND, always.
        """
        raise self._no_offsets()

    def check_txn_commit(self, member_id: str, instance_id: str | None, generation_or_epoch: int) -> None:
        """Refuse offsets, as `check_commit`."""
        raise self._no_offsets()

    def _check_member(self, member_id: str, instance_id: str | None, generation_or_epoch: int) -> None:
        raise self._no_offsets()

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Let all clients read that there are no offsets: Kafka answers with -1, and no error."""

    def check_offset_delete(self) -> None:
        """Refuse to delete offsets.

        Raises:
            CoordinatorError: GROUP_ID_NOT_FOUND, always.
        """
        raise self._no_offsets()

    def _no_offsets(self) -> CoordinatorError:
        return CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {self.group_id} is not a consumer group")

    def offset_expires_from_ms(self, topic: str, commit_ms: int) -> int | None:
        """Return the time of the commit: there should be none."""
        return commit_ms

    # --- for records ---

    def put_current_record(self, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None) -> None:
        if value is not None:
            self.put_current(member_id, ShareAssignment.of_record(value))
        elif member_id in self.members:
            self.put_current(member_id, NOTHING_YET)

    def put_states(self, states: StatePartitions) -> None:
        """Apply the share partitions, with how far the share coordinators are with their states."""
        self.memory.change(states.size_bytes - self.states.size_bytes)
        self.states = states
        self.is_states_stale = True

    # --- by kind ---

    def _new_member(self, member_id: str) -> ShareGroupMember:
        return ShareGroupMember(member_id)

    def subscription_bytes(self, subscription: ShareGroupMemberMetadataValue) -> int:
        return subscription_bytes(subscription)

    def _is_behind(self, member: ShareGroupMember) -> bool:
        return member.current.epoch != self.target_epoch


class ShareMemberSessions(MemberSessions[ShareGroup]):
    """Begins and ends the sessions of members with their coordinator; share sessions are those with leaders."""

    def _timeout_ms(self, group: ShareGroup, member: ShareGroupMember) -> int:
        return self._services.share_settings.of(group.group_id).session_timeout_ms

    def _longest_interval_ms(self, group: ShareGroup) -> int:
        return self._services.share_settings.of(group.group_id).heartbeat_interval_ms
