"""A share group, as its records define it (KIP-932)."""

from __future__ import annotations

from typing import ClassVar, Final

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.group import GroupType
from purgatorio.broker.group.modern.modern_group import ModernGroup, SubscriptionCounts
from purgatorio.broker.group.modern.sessions import MemberSessions
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.group.share.delayed_initialization import DelayedInitialization
from purgatorio.broker.group.share.member import NOTHING_YET, ShareAssignment, ShareMember, subscription_bytes
from purgatorio.broker.group.share.state_partitions import NO_STATE, StatePartitions
from purgatorio.protocol.consumer_offsets import Key
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.group_records import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
)

PROTOCOL_TYPE: Final = "share"


class ShareGroup(ModernGroup[ShareMember]):
    """A share group. Only the methods that apply records change what records say.

    It has no committed offsets: how far it has come is in the states that share coordinators keep.

    Attributes:
        counts: how many members subscribe to what.
        states: its share partitions, by what has become of their states.
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

    # --- what others ask ---

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
        """Whether every member has what it shall have, and all that could be shared is."""
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
        """Let anyone read that there are no offsets: Kafka answers with -1, and no error."""

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

    # --- what records say ---

    def put_current_record(self, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None) -> None:
        if value is not None:
            self.put_current(member_id, ShareAssignment.of_record(value))
        elif member_id in self.members:
            self.put_current(member_id, NOTHING_YET)

    def put_states(self, states: StatePartitions) -> None:
        """Apply what has become of the states of share partitions."""
        self.memory.change(states.size_bytes - self.states.size_bytes)
        self.states = states
        self.is_states_stale = True

    # --- what differs between kinds ---

    def _new_member(self, member_id: str) -> ShareMember:
        return ShareMember(member_id)

    def _subscription_bytes(self, subscription: ShareGroupMemberMetadataValue) -> int:
        return subscription_bytes(subscription)

    def _is_behind(self, member: ShareMember) -> bool:
        return member.current.epoch != self.target_epoch


def new_group(shard: GroupShard, group_id: str, max_groups: int) -> ShareGroup:
    """Return a new group, which enters the shard with its records.

    Raises:
        CoordinatorError: GROUP_MAX_SIZE_REACHED: the shard has as many as it may.
    """
    if len(shard.groups) >= max_groups:
        message = f"this broker keeps {len(shard.groups)} groups in {shard.tp}, the most that it may"
        raise CoordinatorError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    return ShareGroup(group_id)


class ShareMemberSessions(MemberSessions[ShareGroup]):
    """Begins and ends the sessions of members with their coordinator; share sessions are those with leaders."""

    def _timeout_ms(self, group: ShareGroup, member: ShareMember) -> int:
        return self._services.share_settings.of(group.group_id).session_timeout_ms

    def _longest_interval_ms(self, group: ShareGroup) -> int:
        return self._services.share_settings.of(group.group_id).heartbeat_interval_ms
