"""IncrementalAlterConfigs (key 44): change some configs of topics, brokers and groups (KIP-339, KIP-226).

Versions 0–1. The operations are SET, DELETE (reset to the default), APPEND and SUBTRACT (lists only). Any broker
changes the configs of topics, of groups and of all brokers (named ""), and only a broker itself its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from purgatorio.broker.api.config_changes import ConfigsChange, ResourceEdit, ResourceResult
from purgatorio.broker.api.context import AdminContext, submit
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.configs import resources
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.controller import ConfigChange, changing
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(admin: AdminContext, ctx: RequestContext, request: IncrementalAlterConfigsRequest, reply: Reply) -> None:
    """Change the configs; with validate_only, only check the change."""
    edits = [
        ResourceEdit(
            resource.resource_type,
            resource.resource_name,
            changing([ConfigChange(each.name, each.config_operation, each.value) for each in resource.configs]),
        )
        for resource in request.resources
    ]
    change = ConfigsChange(admin, edits, validate_only=request.validate_only, respond=_response)
    submit(admin, ctx, change, reply)


def _response(results: Iterable[ResourceResult]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=result.error,
                error_message=result.message,
                resource_type=result.resource_type,
                resource_name=result.resource_name,
            )
            for result in results
        ]
    )


API: Final = ApiHandler(
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    min_version=0,
    max_version=1,
    needs=resources(AclOperation.ALTER_CONFIGS, "responses"),
    bind=lambda services: partial(handle, services.admin),
)
