"""Heartbeat (key 12): a member of a classic group keeps its session alive. Versions 0–4.

While the group's partition is being loaded, the answer is NONE: the members' sessions begin anew after that.
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
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(groups: Groups, ctx: RequestContext, request: HeartbeatRequest, reply: Reply) -> None:
    """Count the sign of life; REBALANCE_IN_PROGRESS asks the member to join again."""
    error_code = ErrorCode.NONE
    try:
        groups.classic.heartbeat(request)
    except CoordinatorError as error:
        if error.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error_code = error.error_code
    reply(HeartbeatResponse(error_code=error_code))


API: Final = ApiHandler(
    key=ApiKey.HEARTBEAT,
    min_version=0,
    max_version=4,
    needs=named(AclOperation.READ, ResourceType.GROUP, "group_id"),
    bind=lambda services: partial(handle, services.groups),
)
