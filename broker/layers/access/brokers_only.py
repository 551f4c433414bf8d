"""Keeps clients from requests that only brokers may send, on clusters whose brokers authenticate each other.

A client that fetches as a follower would advance the high watermark past what the replicas have, and so have records
acknowledged that are then lost. No permission allows that. A client that writes transaction markers would end the
transactions of others, and could fence their coordinator; one that writes the state of share groups would take records
from their members: it needs ACLs that allow it (KIP-664); without an authorizer it may not, which Kafka allows. Without
security, brokers cannot distinguish brokers from clients, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatorio.broker.routing.request import Handler, Reply, RequestContext, Route
from purgatorio.protocol.api_key import BROKERS_ONLY, ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import replica_of


def brokers_only(key: int, route: Route) -> Handler:
    """Return the handler that stands before that of an API; a layer of `RouteLayers`."""
    if key == ApiKey.FETCH:
        return _refusing(route, _is_of_follower)
    return route.handler


def brokers_only_without_acls(key: int, route: Route) -> Handler:
    """As `brokers_only`, on a cluster without an authorizer, which could allow a client to do so."""
    if key in BROKERS_ONLY:
        return _refusing(route, _is_of_broker_always)
    return brokers_only(key, route)


def _refusing(route: Route, is_of_broker: Callable[[RequestContext, Any], bool]) -> Handler:
    handler = route.handler

    def before(ctx: RequestContext, request: Any, reply: Reply) -> None:
        if is_of_broker(ctx, request) and not ctx.session.principal.is_broker:
            reply(route.error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        else:
            handler(ctx, request, reply)

    return before


def _is_of_follower(ctx: RequestContext, request: Any) -> bool:
    return replica_of(request) >= 0


def _is_of_broker_always(ctx: RequestContext, request: Any) -> bool:
    return True
