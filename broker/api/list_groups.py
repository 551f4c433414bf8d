"""ListGroups (key 16): the groups that this broker coordinates, of both group protocols. Versions 0–5.

Filters by state and by type ignore case, and unknown names match no group. While a partition of groups is being loaded
the list lacks its groups; the error COORDINATOR_LOAD_IN_PROGRESS says so. A long list is made in steps, between which
groups may change.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.shard import ShardState
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.layers.access.guards.groups import list_groups as guard
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(groups: Groups, ctx: RequestContext, request: ListGroupsRequest, reply: Reply) -> None:
    """Answer with the groups that pass both filters."""
    groups.listings.begin(_list(groups, request, reply), ctx.session)


def _list(groups: Groups, request: ListGroupsRequest, reply: Reply) -> Steps:
    """Look at all groups, and reply after the last one."""
    shards = list(groups.coordinator.shards)
    is_loading = any(shard.state is ShardState.LOADING for shard in shards)
    response = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NONE)
    states = {state.lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    for shard in shards:
        for group_id in shard.group_ids() if shard.is_active else ():
            yield 1
            listed = _listed(shard, group_id)
            if (
                listed is not None
                and (not states or listed.group_state.lower() in states)
                and (not types or listed.group_type.lower() in types)
            ):
                response.groups.append(listed)
    reply(response)


def _listed(shard: GroupShard, group_id: str) -> ListedGroup | None:
    """Return a group, None if it is gone; one with offsets alone is an empty classic group without a protocol type."""
    group = shard.groups.get(group_id)
    if group is None:
        if not shard.offsets.has_group(group_id):
            return None
        return ListedGroup(group_id=group_id, protocol_type="", group_state="Empty", group_type="classic")
    return ListedGroup(
        group_id=group_id, protocol_type=group.protocol_type, group_state=group.state_name, group_type=group.type
    )


API: Final = ApiHandler(
    key=ApiKey.LIST_GROUPS,
    min_version=0,
    max_version=5,
    needs=guard,
    bind=lambda services: partial(handle, services.groups),
)
