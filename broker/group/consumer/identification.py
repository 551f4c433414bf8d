"""The sender of a heartbeat: a member that is known, a new one, or one that takes the place of a static member."""

from __future__ import annotations

from typing import NamedTuple

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.consumer.checks import JOINS
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.member import LEFT_FOR_A_WHILE, NOTHING_YET, CurrentAssignment, Member
from purgatorio.broker.group.consumer.partitions import from_wire, includes
from purgatorio.protocol.consumer_offsets import ConsumerGroupMemberMetadataValue
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


class Sender(NamedTuple):
    """The member that sends a heartbeat.

    Attributes:
        member_id: its id.
        current: what it owns, to begin with.
        subscription: its last one; None for a new member.
        replaces: the id of the static member whose place it takes.
    """

    member_id: str
    current: CurrentAssignment
    subscription: ConsumerGroupMemberMetadataValue | None
    replaces: str | None = None


def identify(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str, *, max_size: int) -> Sender:
    """Return the sender of a heartbeat that does not leave the group.

    Args:
        member_id: that of the request, or the one that the coordinator has made for it.
        max_size: the most members of a group.

    Raises:
        CoordinatorError: UNKNOWN_MEMBER_ID; FENCED_MEMBER_EPOCH; of static members, UNRELEASED_INSTANCE_ID while
            another one has the instance id, and FENCED_INSTANCE_ID when another one has taken it;
            GROUP_MAX_SIZE_REACHED.
    """
    joins = request.member_epoch == JOINS
    if request.instance_id is not None:
        if not joins:
            return _known(static_member(group, request.instance_id, member_id), request)
        holder_id = group.static_members.get(request.instance_id)
        if holder_id is not None and holder_id != member_id:
            return _replacement(group.members[holder_id], request.instance_id, member_id)
    member = group.members.get(member_id)
    if member is not None:
        return _known(member, request)
    if not joins:
        raise unknown_member(group, member_id)
    if len(group.members) >= max_size:
        message = f"group {group.group_id} has {max_size} members, the most that it may have"
        raise CoordinatorError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    return Sender(member_id, NOTHING_YET, None)


def static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> Member:
    """Return the static member of this name.

    Raises:
        CoordinatorError: UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if it has another member id.
    """
    holder_id = group.static_members.get(instance_id)
    if holder_id is None:
        raise unknown_member(group, instance_id)
    if holder_id != member_id:
        raise CoordinatorError(ErrorCode.FENCED_INSTANCE_ID, f"instance {instance_id} is member {holder_id} now")
    return group.members[holder_id]


def unknown_member(group: ConsumerGroup, name: str) -> CoordinatorError:
    """Return the refusal of a member that the group does not have."""
    return CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID, f"{name!r} is no member of group {group.group_id}")


def _known(member: Member, request: ConsumerGroupHeartbeatRequest) -> Sender:
    """Return the member, if it sends an epoch that it can be in.

    A member that joins has lost what it owned, which it may at any time (KAFKA-19233). One that has missed an answer
    still sends the epoch before.
    """
    current = member.current
    if request.member_epoch == JOINS:
        if current.epoch == LEFT_FOR_A_WHILE:
            current = CurrentAssignment(assigned=current.assigned)
    elif request.member_epoch != current.epoch and not _missed_an_answer(current, request):
        message = f"member {member.member_id} is in epoch {current.epoch}, not in {request.member_epoch}: join again"
        raise CoordinatorError(ErrorCode.FENCED_MEMBER_EPOCH, message)
    return Sender(member.member_id, current, member.subscription)


def _missed_an_answer(current: CurrentAssignment, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member sends the epoch before and owns nothing that it must not own."""
    return (
        request.member_epoch == current.previous_epoch
        and request.member_epoch < current.epoch
        and request.topic_partitions is not None
        and includes(current.assigned, from_wire(request.topic_partitions))
    )


def _replacement(holder: Member, instance_id: str, member_id: str) -> Sender:
    """Return a member that takes the place of a static one that has left for a while (KIP-345).

    Members of the classic protocol do not leave: their place is taken at once (KAFKA-17228).
    """
    if holder.current.epoch != LEFT_FOR_A_WHILE and not holder.is_classic:
        message = f"instance {instance_id} is member {holder.member_id}, which has not left"
        raise CoordinatorError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    taken_over = CurrentAssignment(assigned=holder.current.assigned)
    return Sender(member_id, taken_over, holder.subscription, replaces=holder.member_id)
