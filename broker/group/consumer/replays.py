"""How the records of consumer groups are applied: when they are loaded, and when this broker has written them.

Tombstones of what is not there are ignored: compaction may have removed the rest (KAFKA-17306, KAFKA-19862).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup, ResolvedExpression
from purgatorio.broker.group.consumer.member import CurrentAssignment
from purgatorio.broker.group.consumer.partitions import from_wire
from purgatorio.broker.group.loading import ReplayRecord
from purgatorio.broker.group.shard import GroupShard
from purgatorio.protocol.consumer_offsets import (
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
