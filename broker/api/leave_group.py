"""LeaveGroup (key 13): members leave a classic group, or an administrator removes static ones. Versions 0–5.

From version 3 on each member has an error code of its own; before, the only member's is that of the response.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.layers.access.guards.whole import named
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

BATCHED_VERSION: Final = 3
"""The first version that names several members (KIP-345)."""


def handle(groups: Groups, ctx: RequestContext, request: LeaveGroupRequest, reply: Reply) -> None:
    """Remove the members; those that stay are asked to join again by their heartbeats."""
    is_batched = ctx.api_version >= BATCHED_VERSION
    leaving = request.members if is_batched else [MemberIdentity(member_id=request.member_id)]
    try:
        results = groups.classic.leave(request.group_id, leaving)
    except CoordinatorError as error:
        reply(LeaveGroupResponse(error_code=error.error_code))
        return
    members = [
        MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=error_code)
        for each, error_code in zip(leaving, results, strict=True)
    ]
    reply(LeaveGroupResponse(members=members) if is_batched else LeaveGroupResponse(error_code=results[0]))


API: Final = ApiHandler(
    key=ApiKey.LEAVE_GROUP,
    min_version=0,
    max_version=5,
    needs=named(AclOperation.READ, ResourceType.GROUP, "group_id"),
    bind=lambda services: partial(handle, services.groups),
)
