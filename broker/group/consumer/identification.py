"""What is wrong with a ConsumerGroupHeartbeat by itself, and which member of a group sends it."""

from __future__ import annotations

from typing import Final, NamedTuple

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.consumer.assignors import ASSIGNORS
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.member import LEFT_FOR_A_WHILE, NOTHING_YET, CurrentAssignment, Member
from purgatorio.broker.group.modern.partitions import from_wire, includes
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.group_records import ConsumerGroupMemberMetadataValue
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

JOINS: Final = 0
"""The epoch of a member that joins, or that joins again after it was fenced."""

LEAVES: Final = -1
"""The epoch of a member that leaves for good."""

VERSION_WITH_MEMBER_IDS: Final = 1
"""From this version on, clients make their member ids (KIP-1082)."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Check a heartbeat.

    Raises:
        CoordinatorError: INVALID_REQUEST, or UNSUPPORTED_ASSIGNOR.
    """
    is_plain = request.member_epoch > 0 and request.instance_id is None and request.rack_id is None
    if is_plain and request.group_id and request.member_id and request.server_assignor is None:
        return  # nearly all heartbeats
    mistake = _mistake(request, version)
    if mistake is None and request.member_epoch == JOINS:
        mistake = _mistake_of_join(request)
    if mistake is not None:
        raise CoordinatorError(ErrorCode.INVALID_REQUEST, mistake)
    assignor = request.server_assignor
    if assignor is not None and assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        raise CoordinatorError(ErrorCode.UNSUPPORTED_ASSIGNOR, f"there is no assignor {assignor!r}, but: {known}")


class Sender(NamedTuple):
    """The member that sends a heartbeat.

    Attributes:
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


def _mistake(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    """Return the first mistake of a request with any epoch."""
    needs_member_id = version >= VERSION_WITH_MEMBER_IDS or request.member_epoch != JOINS
    mistakes = {
        "the group id is empty": _is_blank(request.group_id),
        "the member id is empty": needs_member_id and _is_blank(request.member_id),
        "the instance id is empty": _is_blank(request.instance_id),
        "the rack id is empty": _is_blank(request.rack_id),
        "a member without an instance id cannot leave for a while": request.member_epoch == LEFT_FOR_A_WHILE
        and request.instance_id is None,
        f"there is no member epoch {request.member_epoch}": request.member_epoch < LEFT_FOR_A_WHILE,
    }
    return next((mistake for mistake, made in mistakes.items() if made), None)


def _is_blank(value: str | None) -> bool:
    """Whether it is given, and has nothing but spaces."""
    return value is not None and not value.strip()


def _mistake_of_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    """Return the first mistake of a request that joins: it must tell everything, and own nothing."""
    if request.rebalance_timeout_ms == -1:
        return "a member that joins must tell its rebalance timeout"
    if request.topic_partitions is None or request.topic_partitions:
        return "a member that joins must own no partitions"
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "a member that joins must tell its subscription"
    return None
