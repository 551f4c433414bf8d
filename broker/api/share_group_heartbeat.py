"""ShareGroupHeartbeat (key 76): a member of a share group joins, stays, and leaves (KIP-932).

Version 1. The coordinator assigns the partitions, in `broker/group/modern/modern_groups.py`. The answer leaves when
the records of the changes are replicated; that of a member that joins may also wait for the states of its partitions.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.modern.modern_groups import HeartbeatClient
from purgatorio.broker.layers.access.guards.groups import share_group_heartbeat as guard
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


def handle(groups: Groups, ctx: RequestContext, request: ShareGroupHeartbeatRequest, reply: Reply) -> None:
    """Answer with the member's epoch, and with its partitions if they have changed."""
    later = partial(groups.listings.begin, session=ctx.session)
    client = HeartbeatClient(ctx.client_id or "", f"/{ctx.session.host}", ctx.api_version, reply, later)
    try:
        groups.share.heartbeat(request, client)
    except CoordinatorError as error:
        reply(groups.share.refusal(error))


API: Final = ApiHandler(
    key=ApiKey.SHARE_GROUP_HEARTBEAT,
    min_version=1,
    max_version=1,
    needs=guard,
    bind=lambda services: partial(handle, services.groups),
)
