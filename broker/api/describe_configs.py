"""DescribeConfigs (key 32): list the configs of topics and of this broker, with their sources (KIP-133).

Versions 1–4. v1 lists synonyms on request, v3 types and, on request, documentation (KIP-569). A broker describes only
itself: clients send the request to the broker that it names. The broker name "" means the dynamic configs of all
brokers (KIP-226). Every group has configs, whether it exists or not, as in Kafka.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.config_listing import (
    ConfigEntry,
    ResourceType,
    broker_entries,
    cluster_entries,
    group_entries,
    topic_entries,
)
from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.metadata.controller import Refused
from purgatorio.broker.metadata.image import ALL_BROKERS
from purgatorio.broker.metadata.topic_name import topic_name_problem
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(admin: AdminContext, ctx: RequestContext, request: DescribeConfigsRequest, reply: Reply) -> None:
    """Answer from this broker's image and configs."""
    # A resource that is named many times is described once: a small request must not make a large response.
    resources = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    response = DescribeConfigsResponse()
    for resource in resources.values():
        result = DescribeConfigsResult(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            entries = _entries(admin, resource)
        except Refused as refusal:
            result.error_code = refusal.error
            result.error_message = refusal.message
        else:
            result.configs = [_result(request, entry) for entry in entries if _is_wanted(resource, entry)]
        response.results.append(result)
    reply(response)


def _entries(admin: AdminContext, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    """Return the configs of a resource.

    Raises:
        Refused: the resource does not exist, or belongs to another broker.
    """
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        topic = admin.store.image.topics.get(name)
        if topic is not None:
            return topic_entries(admin, topic.configs)
        if problem := topic_name_problem(name):
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
    if resource.resource_type == ResourceType.BROKER:
        if name == ALL_BROKERS:
            return cluster_entries(admin)
        if name == str(admin.broker_id):
            return broker_entries(admin)
        raise Refused(ErrorCode.INVALID_REQUEST, f"This is broker {admin.broker_id}; it cannot describe '{name}'.")
    if resource.resource_type == ResourceType.GROUP:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "A group's name must not be empty.")
        return group_entries(admin, name)
    raise Refused(ErrorCode.INVALID_REQUEST, f"Resources of type {resource.resource_type} have no configs here.")


def _is_wanted(resource: DescribeConfigsResource, entry: ConfigEntry) -> bool:
    # An empty list means all configs, as null does; as in Kafka.
    return not resource.configuration_keys or entry.name in resource.configuration_keys


def _result(request: DescribeConfigsRequest, entry: ConfigEntry) -> DescribeConfigsResourceResult:
    result = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )
    if request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
        ]
    return result


def error_response(request: DescribeConfigsRequest, error_code: ErrorCode) -> DescribeConfigsResponse:
    """Return the response with `error_code` for every resource."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=error_code,
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_CONFIGS,
    min_version=1,
    max_version=4,
    bind=lambda services: partial(handle, services.admin),
    error_response=error_response,
)
