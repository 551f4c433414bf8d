"""IncrementalAlterConfigs (key 44): change some configs of topics and keep the others (KIP-339).

Versions 0–1. The operations are SET, DELETE (reset to the default), APPEND and SUBTRACT (lists only). Any broker
answers. Broker configs cannot be changed; resetting them succeeds, since they have no other value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from purgatorio.broker.api.config_changes import ResourceResult, alter_resources, topic_names
from purgatorio.broker.api.context import AdminContext, submit, topic_keys
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.metadata.cluster_change import ClusterChange
from purgatorio.broker.metadata.controller import (
    ConfigChange,
    ConfigOperation,
    TopicResult,
    TopicSettings,
    incremental_alter_topic_configs,
)
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(admin: AdminContext, ctx: RequestContext, request: IncrementalAlterConfigsRequest, reply: Reply) -> None:
    """Change the configs; with validate_only, only check the change."""
    submit(admin, ctx, _IncrementalAlterConfigs(admin.topics, request), reply)


class _IncrementalAlterConfigs(ClusterChange[ResourceResult]):
    def __init__(self, settings: TopicSettings, request: IncrementalAlterConfigsRequest) -> None:
        super().__init__(topic_keys(topic_names(request.resources)))
        self._settings = settings
        self._request = request

    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[ResourceResult]]:
        return alter_resources(image, self._request.resources, self._alter_topic, _only_resets)

    def _alter_topic(self, image: ClusterImage, resource: AlterConfigsResource) -> tuple[ClusterImage, TopicResult]:
        return incremental_alter_topic_configs(
            image,
            resource.resource_name,
            [ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs],
            settings=self._settings,
            validate_only=self._request.validate_only,
        )

    def respond(self, results: Sequence[ResourceResult]) -> IncrementalAlterConfigsResponse:
        return _response(results)

    def refuse(self, error_code: ErrorCode) -> IncrementalAlterConfigsResponse:
        return error_response(self._request, error_code)


def _only_resets(resource: AlterConfigsResource) -> bool:
    return all(config.config_operation == ConfigOperation.DELETE for config in resource.configs)


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


def error_response(request: IncrementalAlterConfigsRequest, error_code: ErrorCode) -> IncrementalAlterConfigsResponse:
    """Return the response with `error_code` for every resource."""
    return _response(
        [
            ResourceResult(resource.resource_type, resource.resource_name, error_code, None)
            for resource in request.resources
        ]
    )


API: Final = ApiHandler(
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    min_version=0,
    max_version=1,
    bind=lambda services: partial(handle, services.admin),
    error_response=error_response,
)
