"""LeaveGroup: members leave a classic group, or an administrator removes static ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from purgatorio.broker.causes.words import shortened
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.rebalances import MAX_REASON, Rebalances
from purgatorio.broker.group.classic.state import GroupState
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.leave_group import MemberIdentity

MAX_REASONS: Final = 3
"""The most members of a request whose reasons are logged."""


def leave(rebalances: Rebalances, group: ClassicGroup, leaving: Sequence[MemberIdentity]) -> list[ErrorCode]:
    """Remove members, after which one rebalance is prepared for those that stay.

    Returns:
        An error code for each: NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.

    Raises:
        CoordinatorError: COORDINATOR_NOT_AVAILABLE: the group is dead.
    """
    if group.state is GroupState.DEAD:
        raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {group.group_id} is dead")
    results = []
    reasons = []
    for each in leaving:
        try:
            reasons += _leave_one(rebalances, group, each)
            results.append(ErrorCode.NONE)
        except CoordinatorError as error:
            results.append(error.error_code)
    if reasons:
        rebalances.changed(group, "leave", "; ".join(reasons[:MAX_REASONS]))
    return results


def _leave_one(rebalances: Rebalances, group: ClassicGroup, leaving: MemberIdentity) -> list[str]:
    """Remove one member; returns why the others have to rebalance, or nothing for an id that has not joined yet."""
    instance_id = leaving.group_instance_id
    member_id = leaving.member_id
    if not member_id and instance_id is not None:
        member_id = group.instances.get(instance_id, "")
    if instance_id is None and member_id in group.pending:
        rebalances.drop_pending(group, member_id, "leave")
        return []
    member = group.find(member_id, instance_id)
    reason = f"member {shortened(member_id)}: {(leaving.reason or 'no reason given')[:MAX_REASON]}"
    rebalances.drop(group, member)
    return [reason]
