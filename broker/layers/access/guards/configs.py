"""The checks of APIs about configs: topics and groups by their own ACLs, other resources by those of the cluster."""

from __future__ import annotations

from typing import Any, Final

from purgatorio.broker.layers.access.access import CODES, Access, Guard, altering, extending
from purgatorio.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from purgatorio.broker.routing.request import Reply, RequestContext, Route
from purgatorio.protocol.parts import changed

TOPIC_CONFIGS: Final = 2
GROUP_CONFIGS: Final = 32


def resources(operation: AclOperation, answers: str) -> Guard:
    """Return the check of an API that needs an operation on each resource of a request.

    Args:
        answers: where the response has the resources.
    """

    def guard(access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
        permissions = access.of(ctx)
        allowed: list[Any] = []
        refused: dict[ResourceType, list[Any]] = {}
        for each in request.resources:
            kind, name = _needed(each)
            if permissions.allows(operation, kind, name):
                allowed.append(each)
            else:
                refused.setdefault(kind, []).append(each)
        failed = []
        for kind, some in refused.items():
            access.audit.refused(ctx, operation, kind, _needed(some[0])[1], len(some) - 1)
            failed.append(route.error_response(changed(request, resources=some), CODES[kind]))
        if not failed:
            route.handler(ctx, request, reply)
        elif allowed:
            rest = changed(request, resources=allowed)
            route.handler(ctx, rest, altering(ctx, reply, *(extending(answers, each) for each in failed)))
        else:
            first, *others = failed
            for each in others:
                extending(answers, each)(first)
            reply(first)

    return guard


def _needed(resource: Any) -> tuple[ResourceType, str]:
    """Return the resource that ACLs are about."""
    name: str = resource.resource_name
    if resource.resource_type == TOPIC_CONFIGS:
        return ResourceType.TOPIC, name
    if resource.resource_type == GROUP_CONFIGS:
        return ResourceType.GROUP, name
    return ResourceType.CLUSTER, CLUSTER_NAME
