"""AlterConfigs (key 33): set all configs of topics, brokers and groups (KIP-133, KIP-226).

Versions 0–2. Configs that are not named return to their defaults. Any broker changes the configs of topics, of groups
and of all brokers (named ""), and only a broker itself its own.
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
from purgatorio.broker.metadata.controller import replacing
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(admin: AdminContext, ctx: RequestContext, request: AlterConfigsRequest, reply: Reply) -> None:
    """Change the configs; with validate_only, only check the change."""
    edits = [
        ResourceEdit(
            resource.resource_type,
            resource.resource_name,
            replacing(
                {config.name: config.value for config in resource.configs}, [config.name for config in resource.configs]
            ),
        )
        for resource in request.resources
    ]
    change = ConfigsChange(admin, edits, validate_only=request.validate_only, respond=_response)
    submit(admin, ctx, change, reply)


def _response(results: Iterable[ResourceResult]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
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
    key=ApiKey.ALTER_CONFIGS,
    min_version=0,
    max_version=2,
    needs=resources(AclOperation.ALTER_CONFIGS, "responses"),
    bind=lambda services: partial(handle, services.admin),
)
