"""The request of the JSON API about connections: which client is behind each, and what it does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.web import document
from purgatorio.broker.web.requests import int_param, json_response
from purgatorio.broker.web.views import ClusterView

MAX_CONNECTIONS: Final = 1_000
"""Connections that one response lists."""


class ConnectionsApi:
    """The handler.

    Args:
        cluster: the cluster.
    """

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster

    def routes(self) -> list[Route]:
        """The route."""
        return [Route("/api/v1/connections", self.connections)]

    async def connections(self, request: Request) -> Response:
        """``GET /api/v1/connections?limit=1000``: the connections of all running brokers, oldest first at each."""
        limit = int_param(request, "limit", MAX_CONNECTIONS, most=MAX_CONNECTIONS)
        count = sum(broker.metrics.connections for broker in self._cluster.brokers)
        return json_response({"connections": list(islice(self._shown(limit), limit)), "connection_count": count})

    def _shown(self, limit: int) -> Iterator[document.Connection]:
        for broker in self._cluster.brokers:
            for listener in broker.listeners.values():
                for each in listener.connections(limit):
                    yield {
                        "broker": broker.broker_id,
                        "id": each.connection_id,
                        "listener": each.listener,
                        "peer": each.peer,
                        "client": each.client_id or "",
                        "principal": each.principal,
                        "age_ms": each.age_ms,
                        "in_flight": each.in_flight,
                        "waiting": each.waiting,
                        "bytes_in": each.bytes_in,
                        "bytes_out": each.bytes_out,
                    }


CONNECTION_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {
        "method": "GET",
        "path": "/api/v1/connections",
        "does": "connections of clients and brokers: address, client id, principal, age, requests and bytes",
        "query": {"limit": f"how many, up to {MAX_CONNECTIONS}"},
    }
]
