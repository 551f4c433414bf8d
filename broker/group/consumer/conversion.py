"""A group with members that goes from one protocol to the other (KIP-848), as a group of the other one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.member import ClassicGroupMember, GroupState, Protocols
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.member import ConsumerGroupMember, CurrentAssignment
from purgatorio.broker.group.consumer.records import ConsumerUpdate
from purgatorio.broker.group.modern.partitions import NO_PARTITIONS, Partitions, collect, minus, union
from purgatorio.broker.group.modern.records import Change
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.consumer_offsets import GroupMetadataKey
from purgatorio.protocol.consumer_protocol import (
    ASSIGNMENT,
    CONSUMER_PROTOCOL_TYPE,
    SUBSCRIPTION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from purgatorio.protocol.errors import DecodeError, ErrorCode
from purgatorio.protocol.group_records import ClassicMemberMetadata, ClassicProtocol, ConsumerGroupMemberMetadataValue
from purgatorio.protocol.versioned import version_of

KNOWN_ASSIGNORS: Final = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""The assignors of Kafka's clients. The coordinator's do without the data that these add to assignments: librdkafka
adds what the sticky ones remember. The data of other assignors may be what an application is made of."""

# --- the bytes of classic members ---


def read_subscription(protocols: Protocols) -> ConsumerProtocolSubscription:
    """Return the subscription of a classic member, with the partitions that it owns.

    Raises:
        CoordinatorError: INCONSISTENT_GROUP_PROTOCOL: it cannot be read.
    """
    try:
        return SUBSCRIPTION.decode(protocols[0][1])
    except (DecodeError, IndexError) as error:
        message = "the member's subscription cannot be read"
        raise CoordinatorError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message) from error


def classic_protocols(member: ConsumerGroupMember) -> Protocols:
    """Return the assignors that a classic member of a consumer group supports, as in its last JoinGroup."""
    metadata = member.subscription.classic_member_metadata
    return () if metadata is None else tuple((each.name, bytes(each.metadata)) for each in metadata.supported_protocols)


def member_record(
    member: ClassicGroupMember, subscription: ConsumerProtocolSubscription
) -> ConsumerGroupMemberMetadataValue:
    """Return a classic member as a member of a consumer group."""
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(dict.fromkeys(subscription.topics)),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in member.protocols],
        ),
    )


def by_topic_id(entries: list[TopicPartitions], image: ClusterImage) -> Partitions:
    """Return partitions that a classic member names, without those of topics that do not exist."""
    return collect(
        (topic.topic_id, number)
        for entry in entries
        if (topic := image.topics.get(entry.topic)) is not None
        for number in entry.partitions
    )


def write_assignment(partitions: Partitions, protocols: Protocols, image: ClusterImage) -> bytes:
    """Return an assignment as the member reads it: in the version of its subscription."""
    found = [(topic.name, numbers) for key, numbers in partitions.items() if (topic := image.topic_by_id(key))]
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartitions(topic=name, partitions=sorted(numbers)) for name, numbers in sorted(found)]
    )
    return ASSIGNMENT.encode(assignment, version_of(protocols[0][1]))


# --- upgrade ---


def upgraded(group: ClassicGroup, image: ClusterImage, *, max_size: int) -> ConsumerUpdate:
    """Return the records that make a classic group a consumer group of the same members, which own the same partitions.

    Raises:
        CoordinatorError: GROUP_ID_NOT_FOUND: the members are no consumers, are too many, or sent bytes that the
            coordinator cannot read.
    """
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE or len(group.members) > max_size:
        raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"classic group {group.group_id} cannot be converted")
    update = ConsumerUpdate(ConsumerGroup(group.group_id), image)
    update.changes.append(Change(GroupMetadataKey(group_id=group.group_id), None))
    try:
        owned: dict[str, Partitions] = {}
        taken = NO_PARTITIONS
        for member_id, member in group.members.items():
            subscription = read_subscription(member.protocols)
            update.put_member(member_id, member_record(member, subscription))
            owned[member_id] = minus(_assigned(member, subscription, image), taken)
            taken = union(taken, owned[member_id])
    except (DecodeError, CoordinatorError) as error:
        message = f"classic group {group.group_id} cannot be converted: {error}"
        raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, message) from error
    epoch = max(1, group.generation)
    update.put_epoch(epoch, metadata_hash=0)
    for member_id, partitions in owned.items():
        update.put_target(member_id, partitions)
    update.put_target_epoch(epoch, group.state_ms)
    for member_id, partitions in owned.items():
        update.put_current(member_id, CurrentAssignment(epoch, epoch, assigned=partitions))
    return update


def _assigned(
    member: ClassicGroupMember, subscription: ConsumerProtocolSubscription, image: ClusterImage
) -> Partitions:
    """Return the assignment of a classic member; before its sync, the partitions that it says it owns.

    Raises:
        CoordinatorError: the assignment has data of the member's own assignor.
    """
    if not member.assignment:
        return by_topic_id(subscription.owned_partitions, image)
    assignment = ASSIGNMENT.decode(member.assignment)
    if assignment.user_data and not KNOWN_ASSIGNORS.issuperset(name for name, _ in member.protocols):
        raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, "a member has an assignor of its own")
    return by_topic_id(assignment.assigned_partitions, image)


# --- downgrade ---


def downgraded(
    shard: GroupShard, group: ConsumerGroup, image: ClusterImage, wall_ms: int
) -> tuple[ClassicGroup, Mapping[str, bytes]]:
    """Return a consumer group whose members are all classic as a classic group, and their assignments."""
    classic = ClassicGroup(group.group_id, shard, state_ms=wall_ms)
    classic.protocol_type = CONSUMER_PROTOCOL_TYPE
    # Not the group's epoch, which no member has reached: they would be fenced instead of asked to join again.
    classic.generation = max(member.current.epoch for member in group.members.values())
    assignments = {}
    for member in group.members.values():
        metadata, subscription = member.subscription.classic_member_metadata, member.subscription
        assert metadata is not None, "only classic members are left"
        protocols = classic_protocols(member)
        assignments[member.member_id] = write_assignment(member.current.assigned, protocols, image)
        classic.add(
            ClassicGroupMember(
                member_id=member.member_id,
                instance_id=subscription.instance_id,
                client_id=subscription.client_id,
                client_host=subscription.client_host,
                rebalance_timeout_ms=subscription.rebalance_timeout_ms,
                session_timeout_ms=metadata.session_timeout_ms,
                protocols=protocols,
                assignment=assignments[member.member_id],
            )
        )
    classic.protocol = classic.vote()
    classic.state = GroupState.STABLE
    classic.is_logged = True
    return classic, assignments


def removal_of(group: ConsumerGroup, image: ClusterImage) -> list[Change]:
    """Return the tombstones of all records of a consumer group."""
    update = ConsumerUpdate(group, image)
    for member_id in group.members:
        update.remove_member(member_id)
    return [*update.changes, *(Change(key, None) for key in group.record_keys())]
