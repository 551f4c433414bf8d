"""The records of consumer groups: how they are written, and how they make the groups of a shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from purgatorio.broker.coordinator.coordinator_log import Committed, CoordinatorLog
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup, ResolvedExpression
from purgatorio.broker.group.consumer.expressions import TopicIndex
from purgatorio.broker.group.consumer.member import CurrentAssignment, Member
from purgatorio.broker.group.consumer.partitions import from_wire
from purgatorio.broker.group.consumer.sessions import MemberTimers
from purgatorio.broker.group.consumer.update import GroupUpdate
from purgatorio.broker.group.shard import GroupShard, ReplayRecord
from purgatorio.broker.time.clock import Clock
from purgatorio.protocol.consumer_offsets import GroupMetadataKey
from purgatorio.protocol.errors import EncodeError, ErrorCode
from purgatorio.protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


def _find(shard: GroupShard, group_id: str) -> ConsumerGroup | None:
    group = shard.groups.get(group_id)
    return group if isinstance(group, ConsumerGroup) else None


def _make(shard: GroupShard, group_id: str) -> ConsumerGroup:
    """Return the group; made anew if there is none, or one of the classic protocol that has been converted."""
    group = _find(shard, group_id)
    if group is None:
        group = ConsumerGroup(group_id)
        shard.put(group)
    return group


def replay_group(shard: GroupShard, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
    """Apply the group's epoch, or its end."""
    if value is None:
        if _find(shard, key.group_id) is not None:
            shard.remove(key.group_id)
        return
    group = _make(shard, key.group_id)
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def replay_member(
    shard: GroupShard, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    """Apply a member's subscription, or its end."""
    if value is not None:
        _make(shard, key.group_id).put_member(key.member_id, value)
    elif (group := _find(shard, key.group_id)) is not None:
        group.remove_member(key.member_id)


def replay_target_epoch(
    shard: GroupShard,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    """Apply the epoch of the target assignment."""
    if value is not None:
        _make(shard, key.group_id).put_target_epoch(value.assignment_epoch)


def replay_target(
    shard: GroupShard,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    """Apply what a member shall own."""
    if value is not None:
        _make(shard, key.group_id).put_target(key.member_id, from_wire(value.topic_partitions))
    elif (group := _find(shard, key.group_id)) is not None:
        group.put_target(key.member_id, None)


def replay_current(
    shard: GroupShard,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    """Apply what a member owns."""
    if value is not None:
        _make(shard, key.group_id).put_current(key.member_id, CurrentAssignment.of_record(value))
    elif (group := _find(shard, key.group_id)) is not None:
        group.forget_current(key.member_id)


def replay_expression(
    shard: GroupShard, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    """Apply the topics that a regular expression matches."""
    if value is not None:
        resolved = ResolvedExpression(frozenset(value.topics), value.version, value.timestamp_ms)
        _make(shard, key.group_id).put_expression(key.regular_expression, resolved)
    elif (group := _find(shard, key.group_id)) is not None:
        group.put_expression(key.regular_expression, None)


REPLAYS: Final[Mapping[type, ReplayRecord]] = {
    ConsumerGroupMetadataKey: replay_group,
    ConsumerGroupMemberMetadataKey: replay_member,
    ConsumerGroupTargetAssignmentMetadataKey: replay_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: replay_target,
    ConsumerGroupCurrentMemberAssignmentKey: replay_current,
    ConsumerGroupRegularExpressionKey: replay_expression,
}
"""By type of key, what applies a record."""


class GroupWriter:
    """Writes updates of consumer groups.

    Attributes:
        only_classic_left: called when the last member of the consumer protocol has left others, of the classic one.

    Args:
        clock: when target assignments are made.
        timers: stopped and started as members change.
    """

    def __init__(self, log: CoordinatorLog, clock: Clock, timers: MemberTimers, index: TopicIndex) -> None:
        self._log = log
        self._clock = clock
        self._timers = timers
        self._index = index
        self.only_classic_left: Callable[[GroupShard, ConsumerGroup], None] = _stay

    def write(
        self,
        shard: GroupShard,
        update: GroupUpdate,
        done: Committed,
        *,
        applied: Callable[[], None] | None = None,
        client: str = "",
    ) -> bool:
        """Append the records of an update, which has at least one, and apply them.

        Args:
            done: called when they are committed or have failed.

        Returns:
            Whether the group has changed.

        Raises:
            CoordinatorError: INVALID_REQUEST if a record cannot be encoded.
        """
        group = update.group
        nth = group.appended + 1

        def replay() -> None:
            group.appended = nth
            removed = self._apply(shard, update)
            if applied is not None:
                applied()
            is_over = not all(member.is_classic for member in removed)
            if is_over and group.members and all(member.is_classic for member in group.members.values()):
                self.only_classic_left(shard, group)

        def settled(error_code: ErrorCode) -> None:
            if not error_code:
                group.committed = max(group.committed, nth)
            done(error_code)

        try:
            records = [change.encode() for change in update.changes]
        except EncodeError as error:
            raise CoordinatorError(ErrorCode.INVALID_REQUEST, str(error)) from error
        return self._log.append(shard.tp, records, settled, applied=replay, client=client)

    def when_committed(self, shard: GroupShard, group: ConsumerGroup, done: Committed, *, client: str = "") -> None:
        """Call `done` when all changes of a group so far are committed; at once if they are."""
        nth = group.appended
        if group.committed == nth:
            done(ErrorCode.NONE)
            return

        def settled(error_code: ErrorCode) -> None:
            if not error_code:
                group.committed = max(group.committed, nth)
            done(error_code)

        self._log.when_committed(shard.tp, settled, client=client)

    def _apply(self, shard: GroupShard, update: GroupUpdate) -> list[Member]:
        """Apply an update; return the members that it removes."""
        group = update.group
        before = group.target_epoch
        removed = [group.members[member_id] for member_id in update.removed]
        shard.put(group)  # a new group enters, or replaces one that was converted
        for key, value in update.changes:
            if type(key) is not GroupMetadataKey:  # the tombstone of a classic group, which was just replaced
                REPLAYS[type(key)](shard, key, value)
        for member in removed:
            self._timers.stop(member)
        for member_id in update.moved:
            self._timers.watch_revocation(shard, group, group.members[member_id])
        if update.changes_subscriptions:
            self._index.refresh(group)
        if update.begins_epoch:
            group.looked_at(update.resolved)
        if update.target_epoch > before:
            group.assigned_ms = self._clock.now_ms()
        return removed


def _stay(shard: GroupShard, group: ConsumerGroup) -> None:
    """Leave the group as it is."""
