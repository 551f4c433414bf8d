"""What groups keep, counted anew; the coordinator's counts follow the changes and must be equal."""

from __future__ import annotations

from collections.abc import Iterable

from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.member import subscription_bytes
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.memory import ENTRY_BYTES, GROUP_BYTES, MEMBER_BYTES, text_bytes
from purgatorio.broker.group.modern.partitions import partitions_bytes
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.group.share.share_group import ShareGroup
from purgatorio.broker.group.share.share_group import subscription_bytes as share_subscription_bytes


def group_bytes(group: Group) -> int:
    """What one group keeps."""
    size_bytes = GROUP_BYTES + text_bytes(group.group_id)
    if isinstance(group, ClassicGroup):
        size_bytes += sum(member.size_bytes for member in group.members.values())
        for member_id, session in group.pending.items():
            size_bytes += MEMBER_BYTES + text_bytes(member_id, session.client)
    if isinstance(group, ConsumerGroup):
        for member_id, each in group.members.items():
            size_bytes += MEMBER_BYTES + text_bytes(member_id) + subscription_bytes(each.subscription)
            size_bytes += partitions_bytes(each.current.held)
        for member_id, target in group.target.items():
            size_bytes += text_bytes(member_id) + partitions_bytes(target)
        for expression, resolved in group.expressions.items():
            size_bytes += text_bytes(expression) + ENTRY_BYTES * len(resolved.topics)
    if isinstance(group, ShareGroup):
        for member_id, member in group.members.items():
            size_bytes += MEMBER_BYTES + text_bytes(member_id) + share_subscription_bytes(member.subscription)
            size_bytes += partitions_bytes(member.current.held)
        for member_id, target in group.target.items():
            size_bytes += text_bytes(member_id) + partitions_bytes(target)
        size_bytes += group.states.size_bytes
    return size_bytes


def offsets_bytes(shard: GroupShard) -> int:
    """What the committed offsets of one shard keep."""
    size_bytes = 0
    for group_id, topics in shard.offsets.groups.items():
        size_bytes += text_bytes(group_id)
        kept: Iterable[str] = (each.metadata for offsets in topics.values() for each in offsets.values())
        size_bytes += sum(text_bytes(metadata) for metadata in kept if metadata)
    transactional = shard.offsets.transactional
    for group_id in transactional:
        size_bytes += text_bytes(group_id)
        for topic, partition in transactional.partitions(group_id):
            size_bytes += sum(text_bytes(each.metadata) for each in transactional.of(group_id, topic, partition))
    return size_bytes


def check_counts(groups: Groups) -> int:
    """Check the counts of a broker, and return its bytes."""
    for shard in groups.coordinator.shards:
        for group in shard.groups.values():
            assert group.memory.used_bytes == group_bytes(group), group.group_id
        assert shard.memory.used_bytes == sum(map(group_bytes, shard.groups.values())) + offsets_bytes(shard)
    used_bytes = groups.memory.used_bytes
    of_shards = sum(shard.memory.used_bytes for shard in groups.coordinator.shards)
    assert used_bytes == of_shards + groups.consumer.expressions.memory.used_bytes
    return used_bytes
