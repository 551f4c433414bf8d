"""The requests of the JSON API that move leaders and coordinators.

The status is 404 if a topic or partition does not exist, or no client has asked for a coordinator yet, 409 if a broker
cannot lead, and 503 if no broker can decide it now.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.web.requests import Body, json_response, read_change
from purgatorio.broker.web.views import ClusterView

_Int32 = Annotated[int, Field(ge=0, le=2**31 - 1)]


class OfPartition(Body):
    """A partition.

    Attributes:
        topic, partition: its name.
    """

    topic: Annotated[str, Field(min_length=1, max_length=249)]
    partition: _Int32 = 0


class MoveLeader(OfPartition):
    """The broker that shall lead a partition.

    Attributes:
        to: its id; any other in-sync replica if it is not given.
    """

    to: _Int32 | None = None


class MoveCoordinator(Body):
    """The broker that shall coordinate a group or a transactional id.

    Attributes:
        to: its id; any other in-sync replica if it is not given.
    """

    to: _Int32 | None = None


class LeadershipApi:
    """The handlers.

    Args:
        cluster: the cluster.
        allowed_host: the configured host (see `purgatorio.broker.web.guard`).
    """

    def __init__(self, cluster: ClusterView, allowed_host: str) -> None:
        self._cluster = cluster
        self._allowed_host = allowed_host

    def routes(self) -> list[Route]:
        """The routes. Ids of groups and transactions may contain anything, slashes too."""
        group = "/api/v1/groups/{id:path}/move-coordinator"
        transaction = "/api/v1/transactions/{id:path}/move-coordinator"
        return [
            Route("/api/v1/topics/move-leader", self.move_leader, methods=["POST"]),
            Route("/api/v1/topics/no-leader", self.no_leader, methods=["POST"]),
            Route(group, self.move_group, methods=["POST"]),
            Route(transaction, self.move_transaction, methods=["POST"]),
        ]

    async def move_leader(self, request: Request) -> Response:
        """``POST /api/v1/topics/move-leader`` with a `MoveLeader`: have an in-sync replica lead a partition."""
        wanted = await read_change(request, MoveLeader, self._allowed_host, self._cluster.clock)
        leader = await self._cluster.leadership.move_leader(wanted.topic, wanted.partition, wanted.to)
        return json_response({"topic": wanted.topic, "partition": wanted.partition, "leader": leader})

    async def no_leader(self, request: Request) -> Response:
        """``POST /api/v1/topics/no-leader`` with an `OfPartition`: take a partition's leader away."""
        wanted = await read_change(request, OfPartition, self._allowed_host, self._cluster.clock)
        await self._cluster.leadership.no_leader(wanted.topic, wanted.partition)
        return json_response({"topic": wanted.topic, "partition": wanted.partition, "leader": -1})

    async def move_group(self, request: Request) -> Response:
        """``POST /api/v1/groups/{id}/move-coordinator`` with a `MoveCoordinator`: move the coordinator of a group."""
        return await self._move(request, "group")

    async def move_transaction(self, request: Request) -> Response:
        """``POST /api/v1/transactions/{id}/move-coordinator``: as `move_group`, of a transactional id."""
        return await self._move(request, "transaction")

    async def _move(self, request: Request, kind: Literal["group", "transaction"]) -> Response:
        wanted = await read_change(request, MoveCoordinator, self._allowed_host, self._cluster.clock)
        moved = await self._cluster.leadership.move_coordinator(kind, request.path_params["id"], wanted.to)
        return json_response({"coordinator": moved})


_TO: Final = "the broker; any other in-sync replica if it is not given"

LEADERSHIP_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {
        "method": "POST",
        "path": "/api/v1/topics/move-leader",
        "does": "have an in-sync replica lead a partition; answers when all brokers know",
        "body": {"topic": "the topic", "partition": "of that topic; 0 if it is not given", "to": _TO},
    },
    {
        "method": "POST",
        "path": "/api/v1/topics/no-leader",
        "does": "take a partition's leader away, until it is moved or a broker comes or goes",
        "body": {"topic": "the topic", "partition": "of that topic; 0 if it is not given"},
    },
    {
        "method": "POST",
        "path": "/api/v1/groups/{id}/move-coordinator",
        "does": "move the coordinator of a group, with all groups of its partition",
        "body": {"to": _TO},
    },
    {
        "method": "POST",
        "path": "/api/v1/transactions/{id}/move-coordinator",
        "does": "move the coordinator of a transactional id, with all ids of its partition",
        "body": {"to": _TO},
    },
]
