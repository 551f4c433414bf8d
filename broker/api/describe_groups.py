"""DescribeGroups (key 15): classic groups with their members. Versions 0–6.

A group that does not exist, or uses the consumer protocol (KIP-848), is answered with GROUP_ID_NOT_FOUND from version 6
on (KIP-1043); before, as a group in state Dead, without an error. A long answer is made in steps, between which groups
may change; a group that is named twice is described once.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.answers import PIECE_BYTES, EntryPieces, answer_each
from purgatorio.broker.api.listing import GROUP_OPERATIONS, NO_OPERATIONS
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.member import GroupState
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.layers.access.guards.groups import mask_operations
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.routing.request import Reply, RequestContext
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
    """Answer with the state and members of each group, or its error."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NO_OPERATIONS
    answer_each(
        groups.listings,
        ctx,
        request.groups,
        partial(_describe, groups, ctx.api_version, operations),
        _refused,
        lambda described: reply(DescribeGroupsResponse(groups=described)),
    )


def _describe(groups: Groups, version: int, operations: int, group_id: str) -> EntryPieces[DescribedGroup]:
    try:
        shard = groups.coordinator.shard_of(group_id)
    except CoordinatorError as error:
        return DescribedGroup(group_id=group_id, error_code=error.error_code, error_message=str(error))
    group = shard.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return (yield from _described(group, operations))
    if group is None and shard.offsets.has_group(group_id):
        return DescribedGroup(group_id=group_id, group_state=GroupState.EMPTY.value, authorized_operations=operations)
    found = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if version >= NOT_FOUND_VERSION:
        found.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        found.error_message = (
            f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
        )
    else:
        found.authorized_operations = operations
    return found


def _described(group: ClassicGroup, operations: int) -> EntryPieces[DescribedGroup]:
    """Describe a group; while it is not stable, without its protocol, and members have the assignments of before."""
    protocol = group.protocol if group.state is GroupState.STABLE else None
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=protocol or "",
        members=[],
        authorized_operations=operations,
    )
    for member in list(group.members.values()):  # as they are now, though others may come and go between two
        metadata = b"" if protocol is None else member.metadata(protocol)
        described.members.append(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=metadata,
                member_assignment=member.assignment,
            )
        )
        yield PIECE_BYTES + len(metadata) + len(member.assignment)
    return described


def _refused(group_id: str, error_code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error_code)


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_GROUPS,
    min_version=0,
    max_version=6,
    needs=EachOne(ApiKey.DESCRIBE_GROUPS, AclOperation.DESCRIBE, ResourceType.GROUP, change=mask_operations),
    bind=lambda services: partial(handle, services.groups),
)
