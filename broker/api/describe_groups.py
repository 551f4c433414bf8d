"""DescribeGroups (key 15): classic groups with their members. Versions 0–6.

A group that does not exist, or uses the consumer protocol (KIP-848), is answered with GROUP_ID_NOT_FOUND from version 6
on (KIP-1043); before, as a group in state Dead, without an error.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.listing import GROUP_OPERATIONS
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.state import GroupState
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_FOUND_VERSION: Final = 6
"""The first version that answers GROUP_ID_NOT_FOUND, with a message."""


def handle(groups: Groups, ctx: RequestContext, request: DescribeGroupsRequest, reply: Reply) -> None:
    """Describe each group."""
    described = [_describe(groups, ctx, group_id) for group_id in request.groups]
    if request.include_authorized_operations:
        for each in described:
            if not each.error_code:
                each.authorized_operations = GROUP_OPERATIONS
    reply(DescribeGroupsResponse(groups=described))


def _describe(groups: Groups, ctx: RequestContext, group_id: str) -> DescribedGroup:
    try:
        shard = groups.coordinator.shard_of(group_id)
    except CoordinatorError as error:
        return DescribedGroup(group_id=group_id, error_code=error.error_code, error_message=str(error))
    group = shard.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return _described(group)
    if group is None and shard.offsets.has_group(group_id):
        return DescribedGroup(group_id=group_id, group_state=GroupState.EMPTY.value)
    found = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if ctx.api_version >= NOT_FOUND_VERSION:
        found.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        found.error_message = (
            f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
        )
    return found


def _described(group: ClassicGroup) -> DescribedGroup:
    """Describe a group; while it is not stable, without its protocol, and members have the assignments of before."""
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(is_stable and group.protocol) or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def error_response(request: DescribeGroupsRequest, error_code: ErrorCode) -> DescribeGroupsResponse:
    """Return the response with `error_code` for every group."""
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=error_code) for group_id in request.groups]
    )


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_GROUPS,
    min_version=0,
    max_version=6,
    bind=lambda services: partial(handle, services.groups),
    error_response=error_response,
)
