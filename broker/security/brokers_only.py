"""Keeps clients from what only brokers do, on clusters whose clients have credentials but no ACLs.

A client that fetches as a follower would advance the high watermark past what the replicas have, and so have records
acknowledged that are then lost. With ACLs this is what CLUSTER_ACTION is for; without security nobody is told apart, as
in Kafka.
"""

from __future__ import annotations

from typing import Any, Final

from purgatorio.broker.request import Handler, Reply, RequestContext, Route
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode

REPLICA_STATE_SINCE: Final = 15
BROKERS_ADD_PARTITIONS_SINCE: Final = 4


def brokers_only(key: int, route: Route) -> Handler:
    """Return the handler that stands before that of an API; a layer of `RouteLayers`."""
    if key == ApiKey.FETCH:
        return _refusing(route, _is_of_follower)
    if key == ApiKey.ADD_PARTITIONS_TO_TXN:
        return _refusing(route, _is_of_broker)
    return route.handler


def _refusing(route: Route, is_of_broker: Any) -> Handler:
    handler = route.handler

    def before(ctx: RequestContext, request: Any, reply: Reply) -> None:
        if is_of_broker(ctx, request) and not ctx.session.principal.is_broker:
            reply(route.error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        else:
            handler(ctx, request, reply)

    return before


def _is_of_follower(ctx: RequestContext, request: Any) -> bool:
    """Whether a Fetch request names a replica: a follower's id is not negative."""
    state: int = request.replica_state.replica_id if ctx.api_version >= REPLICA_STATE_SINCE else request.replica_id
    return state >= 0


def _is_of_broker(ctx: RequestContext, request: Any) -> bool:
    """Whether an AddPartitionsToTxn request may have several transactions, as only brokers send it (KIP-890)."""
    return ctx.api_version >= BROKERS_ADD_PARTITIONS_SINCE
