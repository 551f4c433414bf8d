"""The requests of the JSON API that let brokers stand still, and cut the network between them.

The admin HTTP belongs to no broker: it answers whatever is paused or cut off, so that all of it can be undone here. The
status is 400 if a network cannot be cut so, 404 if a broker does not exist, and 409 if it does not run.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.web.requests import Body, Nothing, broker_id_of, json_response, read_change
from purgatorio.broker.web.views import ClusterView

BrokerId = Annotated[int, Field(ge=0, le=2**31 - 1)]


class Partition(Body):
    """Groups of brokers that do not reach each other.

    Attributes:
        groups: the ids of each group's brokers.
    """

    groups: Annotated[list[list[BrokerId]], Field(max_length=1_000)]


class NetworkApi:
    """The handlers.

    Args:
        cluster: the cluster.
        allowed_host: the configured host (see `purgatorio.broker.web.guard`).
    """

    def __init__(self, cluster: ClusterView, allowed_host: str) -> None:
        self._cluster = cluster
        self._allowed_host = allowed_host

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("/api/v1/network", self.shown),
            Route("/api/v1/network/partition", self.partition, methods=["POST"]),
            Route("/api/v1/network/heal", self.heal, methods=["POST"]),
            Route("/api/v1/brokers/resume", self.resume_all, methods=["POST"]),
            Route("/api/v1/brokers/{broker_id}/pause", self.pause, methods=["POST"]),
            Route("/api/v1/brokers/{broker_id}/resume", self.resume, methods=["POST"]),
        ]

    async def shown(self, request: Request) -> Response:
        """``GET /api/v1/network``: the brokers that stand still, and the groups between which the network is cut."""
        return json_response(self._state())

    async def partition(self, request: Request) -> Response:
        """``POST /api/v1/network/partition`` with a `Partition`: cut the network between groups of brokers."""
        wanted = await read_change(request, Partition, self._allowed_host, self._cluster.clock)
        try:
            self._cluster.network.partition(wanted.groups)
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        return json_response(self._state())

    async def heal(self, request: Request) -> Response:
        """``POST /api/v1/network/heal`` with ``{}``: end a partition."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        self._cluster.network.heal()
        return json_response(self._state())

    async def pause(self, request: Request) -> Response:
        """``POST /api/v1/brokers/{id}/pause`` with ``{}``: let a broker stand still."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        self._cluster.network.pause(broker_id_of(request, self._cluster.network.broker_ids))
        return json_response(self._state())

    async def resume(self, request: Request) -> Response:
        """``POST /api/v1/brokers/{id}/resume`` with ``{}``: let a broker go on."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        self._cluster.network.resume(broker_id_of(request, self._cluster.network.broker_ids))
        return json_response(self._state())

    async def resume_all(self, request: Request) -> Response:
        """``POST /api/v1/brokers/resume`` with ``{}``: let all brokers go on."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        self._cluster.network.resume(None)
        return json_response(self._state())

    def _state(self) -> dict[str, Any]:
        network = self._cluster.network
        return {"paused": network.paused, "groups": network.groups}


NETWORK_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {
        "method": "GET",
        "path": "/api/v1/network",
        "does": "the brokers that stand still, and the groups between which the network is cut",
    },
    {
        "method": "POST",
        "path": "/api/v1/network/partition",
        "does": "cut the network between groups of brokers; the largest group keeps the metadata",
        "body": {"groups": "lists of broker ids, such as [[1], [2, 3]]"},
    },
    {"method": "POST", "path": "/api/v1/network/heal", "does": "end the partition of the network", "body": {}},
    {
        "method": "POST",
        "path": "/api/v1/brokers/{id}/pause",
        "does": "let a broker stand still, as SIGSTOP does; the others notice when its lease runs out",
        "body": {},
    },
    {"method": "POST", "path": "/api/v1/brokers/{id}/resume", "does": "let a paused broker go on", "body": {}},
    {"method": "POST", "path": "/api/v1/brokers/resume", "does": "let all paused brokers go on", "body": {}},
]
