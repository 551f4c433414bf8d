"""SyncGroup (key 14): the leader of a classic group gives the assignment, each member gets its own. Versions 0–5.

The answer waits until the leader's assignment is committed.
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
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_VERSION: Final = 5
"""The first version in which the protocol's type and name have to be given (KIP-559)."""


def handle(groups: Groups, ctx: RequestContext, request: SyncGroupRequest, reply: Reply) -> None:
    """Answer with the member's assignment, now or when it is committed."""
    is_named = request.protocol_type is not None and request.protocol_name is not None
    if ctx.api_version >= PROTOCOL_VERSION and not is_named:
        reply(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    try:
        groups.classic.sync(ctx, request, reply)
    except CoordinatorError as error:
        reply(SyncGroupResponse(error_code=error.error_code))


API: Final = ApiHandler(
    key=ApiKey.SYNC_GROUP,
    min_version=0,
    max_version=5,
    needs=named(AclOperation.READ, ResourceType.GROUP, "group_id"),
    bind=lambda services: partial(handle, services.groups),
)
