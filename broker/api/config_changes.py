"""The common part of AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from purgatorio.broker.api.config_listing import ResourceType
from purgatorio.broker.metadata.controller import Refused, TopicResult
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.topic_name import topic_name_problem
from purgatorio.protocol.errors import ErrorCode


class Resource(Protocol):
    """A config resource of a request, as both APIs declare it."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)


@dataclass(frozen=True, slots=True)
class ResourceResult:
    """The outcome for one resource."""

    resource_type: int
    resource_name: str
    error: ErrorCode
    message: str | None


def alter_resources(
    image: ClusterImage,
    resources: Sequence[R],
    alter_topic: Callable[[ClusterImage, R], tuple[ClusterImage, TopicResult]],
    only_resets: Callable[[R], bool] = lambda resource: False,
) -> tuple[ClusterImage, list[ResourceResult]]:
    """A decision: change the configs of each resource independently of the others.

    Args:
        only_resets: whether a request only resets configs of a resource. Brokers have no dynamic configs, so resetting
            theirs changes nothing, and succeeds; kafka-reassign-partitions resets throttles when it has finished.

    Returns:
        The new image, and one result per resource; a resource that is named twice is refused with INVALID_REQUEST.
    """
    times = Counter(_key(resource) for resource in resources)
    results: dict[tuple[int, str], ResourceResult] = {}
    for resource in resources:
        key = _key(resource)
        if key in results:
            continue
        try:
            if resource.resource_type == ResourceType.BROKER and times[key] == 1 and only_resets(resource):
                results[key] = ResourceResult(*key, ErrorCode.NONE, None)
                continue
            _check(resource, times[key])
        except Refused as refusal:
            results[key] = ResourceResult(*key, refusal.error, refusal.message)
        else:
            image, result = alter_topic(image, resource)
            results[key] = ResourceResult(*key, result.error, result.message)
    return image, list(results.values())


def topic_names(resources: Sequence[Resource]) -> list[str]:
    """Return the names of the topics among the resources."""
    return [resource.resource_name for resource in resources if resource.resource_type == ResourceType.TOPIC]


def _key(resource: Resource) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _check(resource: Resource, times: int) -> None:
    """Refuse a resource that is not a topic, or that is named more than once."""
    if times > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "The request names this resource more than once.")
    if resource.resource_type == ResourceType.BROKER:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "The settings of a broker are read when it starts and cannot be changed while it runs.",
        )
    if resource.resource_type != ResourceType.TOPIC:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Resources of type {resource.resource_type} have no configs here.")
    if problem := topic_name_problem(resource.resource_name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
