"""DescribeConfigs (key 32): list the configs of topics and of this broker, with their sources (KIP-133).

Versions 1–4. v1 lists synonyms on request, v3 types and, on request, documentation (KIP-569). A broker describes only
itself: clients send the request to the broker that it names. The broker name "" means the dynamic configs of all
brokers (KIP-226). Every group has configs, whether it exists or not, as in Kafka.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from purgatorio.broker.api.answers import NO_ROOM, PIECE_BYTES, EntryPieces, answer_each
from purgatorio.broker.api.config_listing import (
    ConfigEntry,
    ConfigResourceType,
    broker_entries,
    cluster_entries,
    group_entries,
    topic_entries,
)
from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.configs import resources
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.controller import DecisionRefused
from purgatorio.broker.metadata.image import ALL_BROKERS
from purgatorio.broker.metadata.topic_name import topic_name_problem
from purgatorio.broker.routing.request import Reply, RequestContext
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

ENCODED_BYTES: Final = 100
"""About what a config takes in an answer besides its message; more with documentation."""


def handle(admin: AdminContext, ctx: RequestContext, request: DescribeConfigsRequest, reply: Reply) -> None:
    """Answer from this broker's image and configs."""
    resources = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    listed = _Listed(admin, request)
    answer_each(
        admin.listings,
        ctx,
        resources,
        lambda key: listed.make(resources[key]),
        _refused,
        lambda results: reply(DescribeConfigsResponse(results=results)),
    )


class _Listed:
    """The configs of resources as one response lists them; topics that set the same share a list, others entries."""

    def __init__(self, admin: AdminContext, request: DescribeConfigsRequest) -> None:
        self._admin = admin
        self._request = request
        self._of_topics: dict[Any, list[DescribeConfigsResourceResult]] = {}
        self._results: dict[ConfigEntry, DescribeConfigsResourceResult] = {}

    def make(self, resource: DescribeConfigsResource) -> EntryPieces[DescribeConfigsResult]:
        """Make the entry of one resource, with its configs or its error."""
        result = DescribeConfigsResult(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        shared = self._shared(resource)
        if shared is not None:
            result.configs = shared
            yield len(shared) * ENCODED_BYTES
            return result
        try:
            entries = _entries(self._admin, resource)
        except DecisionRefused as refusal:
            result.error_code = refusal.error
            result.error_message = refusal.message
            return result
        for entry in entries:
            if _is_wanted(resource, entry):
                shown = self._results.get(entry)
                if shown is None:
                    shown = self._results[entry] = _result(self._request, entry)
                    yield PIECE_BYTES * (1 + len(entry.synonyms)) + len(entry.value or "")
                result.configs.append(shown)
            yield ENCODED_BYTES  # an entry that is not asked for takes time, too
        self._share(resource, result.configs)
        return result

    def _key(self, resource: DescribeConfigsResource) -> Any:
        topic = self._admin.store.image.topics.get(resource.resource_name)
        if topic is None or resource.resource_type != ConfigResourceType.TOPIC:
            return None
        return tuple(resource.configuration_keys or ()), tuple(topic.configs.items())

    def _shared(self, resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult] | None:
        return self._of_topics.get(self._key(resource))

    def _share(self, resource: DescribeConfigsResource, configs: list[DescribeConfigsResourceResult]) -> None:
        key = self._key(resource)
        if key is not None:
            self._of_topics[key] = configs


def _refused(key: tuple[int, str], error_code: ErrorCode) -> DescribeConfigsResult:
    """Return a resource's error: POLICY_VIOLATION for one that has no room.

    Kafka answers it where a controller's batch would be too large. Clients report it with its message for that resource
    alone, and do not try again. A retriable code would have them repeat a request that is as large as before, and
    INVALID_REQUEST says that it is malformed.
    """
    kind, name = key
    has_room = error_code != NO_ROOM
    return DescribeConfigsResult(
        error_code=error_code if has_room else ErrorCode.POLICY_VIOLATION,
        error_message=None if has_room else "The answer is full: ask for fewer resources.",
        resource_type=kind,
        resource_name=name,
    )


def _entries(admin: AdminContext, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    """Return the configs of a resource.

    Raises:
        DecisionRefused: the resource does not exist, or belongs to another broker.
    """
    name = resource.resource_name
    if resource.resource_type == ConfigResourceType.TOPIC:
        topic = admin.store.image.topics.get(name)
        if topic is not None:
            return topic_entries(admin, topic.configs)
        if problem := topic_name_problem(name):
            raise DecisionRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        raise DecisionRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
    if resource.resource_type == ConfigResourceType.BROKER:
        if name == ALL_BROKERS:
            return cluster_entries(admin)
        if name == str(admin.broker_id):
            return broker_entries(admin)
        raise DecisionRefused(
            ErrorCode.INVALID_REQUEST, f"This is broker {admin.broker_id}; it cannot describe '{name}'."
        )
    if resource.resource_type == ConfigResourceType.GROUP:
        if not name:
            raise DecisionRefused(ErrorCode.INVALID_REQUEST, "A group's name must not be empty.")
        return group_entries(admin, name)
    raise DecisionRefused(
        ErrorCode.INVALID_REQUEST, f"Resources of type {resource.resource_type} have no configs here."
    )


def _is_wanted(resource: DescribeConfigsResource, entry: ConfigEntry) -> bool:
    # An empty list means all configs, as null does; as in Kafka.
    return not resource.configuration_keys or entry.name in resource.configuration_keys


def _result(request: DescribeConfigsRequest, entry: ConfigEntry) -> DescribeConfigsResourceResult:
    result = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )
    if request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
        ]
    return result


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_CONFIGS,
    min_version=1,
    max_version=4,
    needs=resources(AclOperation.DESCRIBE_CONFIGS, "results"),
    bind=lambda services: partial(handle, services.admin),
)
