"""DescribeCluster (key 60): the cluster's id, its brokers and its controller (KIP-700).

Versions 0–2. v1 names an endpoint type (KIP-919): only brokers can be described, since the controller has no endpoints
of its own. v2 can ask for fenced brokers (KIP-1073): not done, they are left out.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.listing import CLUSTER_OPERATIONS, reachable_brokers
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.metadata import describe_cluster as guard
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKER_ENDPOINT: Final = 1
CONTROLLER_ENDPOINT: Final = 2


def handle(admin: AdminContext, ctx: RequestContext, request: DescribeClusterRequest, reply: Reply) -> None:
    """Answer from this broker's image."""
    if request.endpoint_type != BROKER_ENDPOINT:
        known = request.endpoint_type == CONTROLLER_ENDPOINT
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"This is a broker: it cannot describe endpoints of type {request.endpoint_type}."
        reply(DescribeClusterResponse(error_code=code, error_message=message))
        return
    image = admin.store.image
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in reachable_brokers(image, ctx.session.listener)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    reply(response)


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_CLUSTER,
    min_version=0,
    max_version=2,
    needs=guard,
    bind=lambda services: partial(handle, services.admin),
)
