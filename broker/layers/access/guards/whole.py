"""Checks that let a whole request pass, or refuse it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from purgatorio.broker.layers.access.access import CODES, Access, Guard, refuse
from purgatorio.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from purgatorio.broker.routing.request import Handler, Reply, RequestContext, Route


def cluster(operation: AclOperation) -> Guard:
    """Return the check of an API that needs an operation on the cluster."""

    def guard(access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
        if access.may_cluster(ctx, operation):
            route.handler(ctx, request, reply)
        else:
            refuse(route, request, reply, CODES[ResourceType.CLUSTER])

    return guard


def named(operation: AclOperation, kind: ResourceType, attribute: str, then: Guard | None = None) -> Guard:
    """Return the check of an API that needs an operation on the one resource that each request names.

    Args:
        attribute: where the request has the name.
        then: a further check of what passes.
    """

    def guard(access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
        if not access.may(ctx, operation, kind, getattr(request, attribute)):
            refuse(route, request, reply, CODES[kind])
        elif then is not None:
            then(access, route, ctx, request, reply)
        else:
            route.handler(ctx, request, reply)

    return guard


def anyone(access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
    """Let every client use an API."""
    route.handler(ctx, request, reply)


def is_broker(access: Access, ctx: RequestContext) -> bool:
    """Return whether the ACLs let a client send the requests of brokers."""
    return access.of(ctx).allows(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)


def either(is_enough: Callable[[Access, RequestContext], bool], otherwise: Guard) -> Guard:
    """Return the check of an API whose requests pass if the first condition holds, and else by another check."""

    def guard(access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
        if is_enough(access, ctx):
            route.handler(ctx, request, reply)
        else:
            otherwise(access, route, ctx, request, reply)

    return guard


def before(access: Access, guard: Guard, route: Route) -> Handler:
    """Return the handler that stands before that of an API (see `purgatorio.broker.routing.route_layers.Wrap`)."""
    return route.handler if guard is anyone else partial(guard, access, route)
