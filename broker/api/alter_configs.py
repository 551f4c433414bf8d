"""AlterConfigs (key 33): sets all configs of topics anew; what is not named goes back to its default (KIP-133).

Versions 0–2. Any broker answers. Broker settings cannot be changed.
"""

from __future__ import annotations

from purgatorio.broker.api.config_changes import ResourceResult, alter_resources, topic_names
from purgatorio.broker.api.context import AdminContext, submit, topic_keys
from purgatorio.broker.metadata.controller import TopicResult, alter_topic_configs
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(admin: AdminContext, ctx: RequestContext, request: AlterConfigsRequest, reply: Reply) -> None:
    """Change the configs, or with validate_only say what would come of it."""

    def alter(image: ClusterImage, resource: AlterConfigsResource) -> tuple[ClusterImage, TopicResult]:
        return alter_topic_configs(
            image,
            resource.resource_name,
            {config.name: config.value for config in resource.configs},
            settings=admin.topics,
            validate_only=request.validate_only,
        )

    submit(
        admin,
        ctx,
        lambda image: alter_resources(image, request.resources, alter),
        _response,
        lambda code: error_response(request, code),
        reply,
        keys=topic_keys(topic_names(request.resources)),
    )


def _response(results: list[ResourceResult]) -> AlterConfigsResponse:
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


def error_response(request: AlterConfigsRequest, error_code: ErrorCode) -> AlterConfigsResponse:
    """Every resource answered with `error_code`."""
    return _response(
        [
            ResourceResult(resource.resource_type, resource.resource_name, error_code, None)
            for resource in request.resources
        ]
    )
