"""ListConfigResources (key 74): list the resources that have configs (KIP-1142). Versions 0–1.

Version 0 asks for client metrics (KIP-714), of which there are none here. Version 1 names types; no type means all.
kafka-configs asks for the groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from purgatorio.broker.api.config_listing import ConfigResourceType
from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_config_resources import (
    CLIENT_METRICS,
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

BROKER_LOGGER: Final = 8
LISTED_TYPES: Final = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    ConfigResourceType.GROUP,
)
"""The types that Kafka lists; here no loggers and no client metrics have configs."""


def handle(admin: AdminContext, ctx: RequestContext, request: ListConfigResourcesRequest, reply: Reply) -> None:
    """Answer from this broker's image; a type that Kafka does not list is refused with UNSUPPORTED_VERSION."""
    asked = [CLIENT_METRICS] if ctx.api_version == 0 else request.resource_types or LISTED_TYPES
    if not set(asked) <= set(LISTED_TYPES):
        reply(ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return
    reply(
        ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(resource_name=name, resource_type=kind)
                for kind in dict.fromkeys(asked)
                for name in _names(admin.store.image, kind)
            ]
        )
    )


def _names(image: ClusterImage, kind: int) -> Iterable[str]:
    if kind == ConfigResourceType.TOPIC:
        return sorted(image.topics)
    if kind == ConfigResourceType.BROKER:
        return [str(broker_id) for broker_id, broker in sorted(image.brokers.items()) if not broker.fenced]
    if kind == ConfigResourceType.GROUP:
        return sorted(image.group_configs)
    return ()


API: Final = ApiHandler(
    key=ApiKey.LIST_CONFIG_RESOURCES,
    min_version=0,
    max_version=1,
    needs=cluster(AclOperation.DESCRIBE_CONFIGS),
    bind=lambda services: partial(handle, services.admin),
)
