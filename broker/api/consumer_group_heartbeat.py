"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, stays, and leaves (KIP-848).

Versions 0–1. The coordinator assigns the partitions, in `broker/group/modern/modern_groups.py`. The answer leaves when
the records of the changes are replicated.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.modern.modern_groups import HeartbeatClient
from purgatorio.broker.layers.access.guards.groups import consumer_group_heartbeat as guard
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def handle(groups: Groups, ctx: RequestContext, request: ConsumerGroupHeartbeatRequest, reply: Reply) -> None:
    """Answer with the member's epoch, and with its partitions if they have changed."""
    later = partial(groups.listings.begin, session=ctx.session)
    client = HeartbeatClient(ctx.client_id or "", f"/{ctx.session.host}", ctx.api_version, reply, later)
    try:
        groups.consumer.heartbeat(request, client)
    except CoordinatorError as error:
        reply(groups.consumer.refusal(error))


API: Final = ApiHandler(
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    min_version=0,
    max_version=1,
    needs=guard,
    bind=lambda services: partial(handle, services.groups),
)
