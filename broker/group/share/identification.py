"""What is wrong with a ShareGroupHeartbeat by itself, and which member of a group sends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.share.member import NOTHING_YET, ShareAssignment
from purgatorio.broker.group.share.share_group import ShareGroup
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.group_records import ShareGroupMemberMetadataValue
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

JOINS: Final = 0
"""The epoch of a member that joins, or that joins again after it was fenced."""
LEAVES: Final = -1
"""The epoch of a member that leaves."""
MAX_MEMBER_ID: Final = 36
"""The longest id of a member, in characters: that of a UUID as text."""


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Check a heartbeat.

    Raises:
        CoordinatorError: INVALID_REQUEST.
    """
    if request.member_epoch > 0 and request.rack_id is None and request.group_id and request.member_id:
        mistake = _mistake_of_id(request.member_id)  # nearly all heartbeats
    else:
        mistake = _mistake(request)
    if mistake is not None:
        raise CoordinatorError(ErrorCode.INVALID_REQUEST, mistake)


def _mistake_of_id(member_id: str) -> str | None:
    return f"a member id has {MAX_MEMBER_ID} characters at most" if len(member_id) > MAX_MEMBER_ID else None


def _mistake(request: ShareGroupHeartbeatRequest) -> str | None:
    """Return the first mistake of a request."""
    mistakes = {
        "the member id is empty": _is_blank(request.member_id),
        "the group id is empty": _is_blank(request.group_id),
        "the rack id is empty": request.rack_id is not None and _is_blank(request.rack_id),
        "a member that joins must tell its subscription": request.member_epoch == JOINS
        and not request.subscribed_topic_names,
        f"there is no member epoch {request.member_epoch}": request.member_epoch < LEAVES,
    }
    return _mistake_of_id(request.member_id) or next((mistake for mistake, made in mistakes.items() if made), None)


def _is_blank(value: str) -> bool:
    """Whether it has nothing but spaces."""
    return not value.strip()


class Sender(NamedTuple):
    """The member that sends a heartbeat.

    Attributes:
        current: what it has, to begin with.
        subscription: its last one; None for a new member.
    """

    member_id: str
    current: ShareAssignment
    subscription: ShareGroupMemberMetadataValue | None


def identify(group: ShareGroup, request: ShareGroupHeartbeatRequest, *, max_size: int) -> Sender:
    """Return the sender of a heartbeat that does not leave the group.

    One that joins is accepted at any time. One that has missed an answer still sends the epoch before.

    Raises:
        CoordinatorError: GROUP_MAX_SIZE_REACHED; UNKNOWN_MEMBER_ID; FENCED_MEMBER_EPOCH.
    """
    member = group.members.get(request.member_id)
    if member is None:
        if len(group.members) >= max_size:
            message = f"group {group.group_id} has {max_size} members, the most that it may have"
            raise CoordinatorError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        if request.member_epoch != JOINS:
            group.known(request.member_id)
        return Sender(request.member_id, NOTHING_YET, None)
    current, epoch = member.current, request.member_epoch
    has_missed_answer = epoch == current.previous_epoch and epoch < current.epoch
    if epoch not in (JOINS, current.epoch) and not has_missed_answer:
        message = f"member {member.member_id} is in epoch {current.epoch}, not in {epoch}: join again"
        raise CoordinatorError(ErrorCode.FENCED_MEMBER_EPOCH, message)
    return Sender(member.member_id, current, member.subscription)


def subscription_of(
    sender: Sender, request: ShareGroupHeartbeatRequest, client_id: str, client_host: str
) -> ShareGroupMemberMetadataValue:
    """Return a member's subscription as of a request, in which null means "as before"."""
    known, names = sender.subscription, request.subscribed_topic_names
    tells_nothing = names is None and request.rack_id is None
    if known is not None and tells_nothing and (known.client_id, known.client_host) == (client_id, client_host):
        return known  # nearly all heartbeats
    before = known or ShareGroupMemberMetadataValue()
    return replace(
        before,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=client_id,
        client_host=client_host,
        subscribed_topic_names=before.subscribed_topic_names if names is None else sorted(dict.fromkeys(names)),
    )
