"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, stays, and leaves (KIP-848).

Versions 0–1. The coordinator assigns the partitions; `broker.group.consumer` decides. The answer leaves when the
records of what has changed are replicated.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.consumer.heartbeats import Client
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.layers.access.guards.groups import consumer_group_heartbeat as guard
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(groups: Groups, ctx: RequestContext, request: ConsumerGroupHeartbeatRequest, reply: Reply) -> None:
    """Answer with the member's epoch, and with its partitions if they have changed."""
    client = Client(ctx.client_id or "", f"/{ctx.session.host}", ctx.api_version)
    try:
        left = groups.consumer.heartbeats.heartbeat(request, client, reply)
    except CoordinatorError as error:
        reply(ConsumerGroupHeartbeatResponse(error_code=error.error_code, error_message=str(error)))
        return
    if left is not None:
        groups.listings.begin(left, ctx.session)


API: Final = ApiHandler(
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    min_version=0,
    max_version=1,
    needs=guard,
    bind=lambda services: partial(handle, services.groups),
)
