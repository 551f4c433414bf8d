"""What is wrong with a ConsumerGroupHeartbeat request by itself, whatever the group is."""

from __future__ import annotations

from typing import Final

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.consumer.assignors import ASSIGNORS
from purgatorio.broker.group.consumer.member import LEFT_FOR_A_WHILE
from purgatorio.protocol.errors import ErrorCode
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
