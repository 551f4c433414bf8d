"""JoinGroup (key 11): enter a classic group, or take part in its next generation. Versions 0–9.

The answer waits until all members of the group have joined, or until the rebalance timeout.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.rebalances import join_error
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.layers.access.guards.whole import named
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_VERSION: Final = 7
"""The first version whose response may have no protocol (KIP-559)."""


def handle(groups: Groups, ctx: RequestContext, request: JoinGroupRequest, reply: Reply) -> None:
    """Let the member join; answer now, or when the rebalance is complete."""

    def answer(response: JoinGroupResponse) -> None:
        if response.protocol_name is None and ctx.api_version < NULL_PROTOCOL_VERSION:
            response.protocol_name = ""
        reply(response)

    try:
        groups.classic.join(ctx, request, answer)
    except CoordinatorError as error:
        answer(join_error(request.member_id, error.error_code))


def error_response(request: JoinGroupRequest, error_code: ErrorCode) -> JoinGroupResponse:
    """Return the response with `error_code` and an empty protocol, which all versions may have."""
    return JoinGroupResponse(error_code=error_code, protocol_name="", member_id=request.member_id)


API: Final = ApiHandler(
    key=ApiKey.JOIN_GROUP,
    min_version=0,
    max_version=9,
    needs=named(AclOperation.READ, ResourceType.GROUP, "group_id"),
    bind=lambda services: partial(handle, services.groups),
    error_response=error_response,
)
