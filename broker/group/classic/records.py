"""Classic groups as records of ``__consumer_offsets``: written when a generation is complete, read when loaded."""

from __future__ import annotations

from collections.abc import Mapping

from purgatorio.broker.coordinator.coordinator_log import NewRecord
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.member import ClassicGroupMember, GroupState
from purgatorio.broker.group.shard import GroupShard
from purgatorio.protocol.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    encode_key,
    encode_value,
)


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> NewRecord:
    """Return the record of a group with its members.

    Args:
        assignments: by member id; a member that is absent gets an empty one.
    """
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader_id,
        current_state_timestamp_ms=group.state_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata(group.protocol),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )
    return NewRecord(encode_key(GroupMetadataKey(group_id=group.group_id)), encode_value(value))


def replay_group(shard: GroupShard, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    """Apply a group's record to a shard that is being loaded; a tombstone deletes only a classic group."""
    if value is not None:
        shard.put(_group_of(shard, key.group_id, value))
    elif isinstance(shard.groups.get(key.group_id), ClassicGroup):
        shard.remove(key.group_id)


def _group_of(shard: GroupShard, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """Return the group: stable with the members of the record, or empty without."""
    group = ClassicGroup(group_id, shard, state_ms=value.current_state_timestamp_ms)
    group.is_logged = True
    group.protocol_type = value.protocol_type
    group.generation = value.generation
    for each in value.members:
        member = ClassicGroupMember(
            member_id=each.member_id,
            instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            rebalance_timeout_ms=_rebalance_timeout_ms(each),
            session_timeout_ms=each.session_timeout_ms,
            protocols=((value.protocol or "", bytes(each.subscription)),),
            assignment=bytes(each.assignment),
        )
        group.add(member)
    if group.members:
        group.state = GroupState.STABLE
        group.protocol = value.protocol
        if value.leader in group.members:
            group.leader_id = value.leader
    return group


def _rebalance_timeout_ms(member: MemberMetadata) -> int:
    return member.session_timeout_ms if member.rebalance_timeout_ms < 0 else member.rebalance_timeout_ms
