"""ListGroups (key 16): the groups that this broker coordinates, of both group protocols. Versions 0–5.

Filters by state and by type ignore case, and unknown names match no group. While a partition of groups is being loaded
the list lacks its groups; the error COORDINATOR_LOAD_IN_PROGRESS says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.shard import ShardState
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(groups: Groups, ctx: RequestContext, request: ListGroupsRequest, reply: Reply) -> None:
    """Answer with the groups that pass both filters."""
    shards = list(groups.coordinator.shards)
    is_loading = any(shard.state is ShardState.LOADING for shard in shards)
    states = {state.lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    reply(
        ListGroupsResponse(
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NONE,
            groups=[
                listed
                for shard in shards
                if shard.is_active
                for listed in _groups_of(shard)
                if (not states or listed.group_state.lower() in states)
                and (not types or listed.group_type.lower() in types)
            ],
        )
    )


def _groups_of(shard: GroupShard) -> Iterator[ListedGroup]:
    """Yield the groups of a shard; one with offsets alone is an empty classic group without a protocol type."""
    for group in shard.groups.values():
        yield ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.type,
        )
    for group_id in shard.offsets.groups:
        if group_id not in shard.groups:
            yield ListedGroup(group_id=group_id, protocol_type="", group_state="Empty", group_type="classic")


def error_response(request: ListGroupsRequest, error_code: ErrorCode) -> ListGroupsResponse:
    """Return the response with `error_code` and no groups."""
    return ListGroupsResponse(error_code=error_code)


API: Final = ApiHandler(
    key=ApiKey.LIST_GROUPS,
    min_version=0,
    max_version=5,
    bind=lambda services: partial(handle, services.groups),
    error_response=error_response,
)
