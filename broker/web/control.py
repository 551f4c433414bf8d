"""The requests of the JSON API that stop, kill, start and restart brokers and elect leaders.

The status is 409 if the cluster refuses, 404 if the broker or partition does not exist, 503 if the cluster cannot do it
now, and 504 if replicas were not in sync in time.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.metadata.controller import ElectionResult
from purgatorio.broker.operator import ClusterControl, ClusterUnavailable, NotInSync, NotThere, OperationRefused
from purgatorio.broker.web import document
from purgatorio.broker.web.members import read_members, read_placements
from purgatorio.broker.web.requests import Body, Nothing, broker_id_of, int_param, json_response, read_change
from purgatorio.broker.web.views import ClusterView

MAX_PLACEMENTS: Final = 1000
"""Partitions that one response lists."""


class Stop(Body):
    """Options for stopping a broker.

    Attributes:
        force: stop the broker even if it is the last in-sync replica of partitions; their records are lost.
    """

    force: bool = False


class Addition(Body):
    """Options of a broker that is added.

    Attributes:
        rack: its rack; the next one of the setting `racks` if it is not given.
    """

    rack: Annotated[str, Field(min_length=1, max_length=249)] | None = None


class Election(Body):
    """The partitions for which leaders are elected.

    Attributes:
        topic: all topics if it is not given.
        partition: a partition of `topic`; all its partitions if it is not given.
        unclean: elect any live replica of a partition without a leader, even if it lacks acknowledged records.
    """

    topic: Annotated[str, Field(min_length=1, max_length=249)] | None = None
    partition: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    unclean: bool = False

    @model_validator(mode="after")
    def _names_the_topic(self) -> Self:
        if self.partition is not None and self.topic is None:
            raise ValueError("give the topic of that partition")
        return self


class ControlApi:
    """The handlers.

    Args:
        cluster: the cluster of the brokers.
        control: stops and starts them.
        allowed_host: the configured host (see `purgatorio.broker.web.guard`).
    """

    def __init__(self, cluster: ClusterView, control: ClusterControl, allowed_host: str) -> None:
        self._cluster = cluster
        self._control = control
        self._allowed_host = allowed_host

    def routes(self) -> list[Route]:
        """The routes."""
        broker = "/api/v1/brokers/{broker_id}"
        return [
            Route("/api/v1/brokers", self.brokers),
            Route("/api/v1/brokers", self.add, methods=["POST"]),
            Route("/api/v1/topics", self.topics),
            Route("/api/v1/brokers/restart", self.restart, methods=["POST"]),
            Route("/api/v1/topics/elect", self.elect, methods=["POST"]),
            Route(f"{broker}/stop", self.stop, methods=["POST"]),
            Route(f"{broker}/kill", self.kill, methods=["POST"]),
            Route(f"{broker}/start", self.start, methods=["POST"]),
        ]

    async def brokers(self, request: Request) -> Response:
        """``GET /api/v1/brokers``: all brokers, running or not."""
        return json_response({"brokers": read_members(self._cluster.brokers, self._control)})

    async def topics(self, request: Request) -> Response:
        """``GET /api/v1/topics?topic=orders&limit=1000``: the leader and replicas of each partition."""
        limit = int_param(request, "limit", MAX_PLACEMENTS, most=MAX_PLACEMENTS)
        placements, count, offline = read_placements(self._control.image, request.query_params.get("topic"), limit)
        return json_response({"partitions": placements, "partition_count": count, "offline_count": offline})

    async def stop(self, request: Request) -> Response:
        """``POST /api/v1/brokers/{id}/stop`` with a `Stop`: stop a broker in good order."""
        change = await read_change(request, Stop, self._allowed_host, self._cluster.clock)
        broker_id = self._broker_id(request)
        await self._control.stop_broker(broker_id, force=change.force)
        return json_response({"broker": broker_id, "state": "stopped"})

    async def kill(self, request: Request) -> Response:
        """``POST /api/v1/brokers/{id}/kill`` with ``{}``: end a broker without unregistering it."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        broker_id = self._broker_id(request)
        await self._control.kill_broker(broker_id)
        return json_response({"broker": broker_id, "state": "killed"})

    async def start(self, request: Request) -> Response:
        """``POST /api/v1/brokers/{id}/start`` with ``{}``: start a broker with empty logs."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        broker_id = self._broker_id(request)
        await self._control.start_broker(broker_id)
        return json_response({"broker": broker_id, "state": "running"})

    async def add(self, request: Request) -> Response:
        """``POST /api/v1/brokers`` with an `Addition`: start one more broker, until the cluster is reset."""
        wanted = await read_change(request, Addition, self._allowed_host, self._cluster.clock)
        broker_id = await self._control.add_broker(wanted.rack)
        return json_response({"broker": broker_id, "state": "running"})

    async def restart(self, request: Request) -> Response:
        """``POST /api/v1/brokers/restart`` with ``{}``: restart all brokers in turn; answers after the last."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        await self._control.restart_brokers()
        return json_response({"brokers": [member.broker_id for member in self._control.members], "state": "running"})

    async def elect(self, request: Request) -> Response:
        """``POST /api/v1/topics/elect`` with an `Election`: a result for each partition that needed an election."""
        wanted = await read_change(request, Election, self._allowed_host, self._cluster.clock)
        results = await self._control.elect_leaders(wanted.topic, wanted.partition, unclean=wanted.unclean)
        return json_response({"unclean": wanted.unclean, "partitions": [_elected(result) for result in results]})

    def _broker_id(self, request: Request) -> int:
        return broker_id_of(request, self._control.broker_ids)


def _elected(result: ElectionResult) -> document.Elected:
    state = result.state
    return {
        "topic": result.topic,
        "partition": result.partition,
        "error": result.error.name,
        "message": result.message or "",
        "leader": -1 if state is None else state.leader,
        "leader_epoch": -1 if state is None else state.leader_epoch,
    }


async def not_done(request: Request, error: Exception) -> Response:
    """Answer an `OperationRefused` with JSON."""
    assert isinstance(error, OperationRefused)
    content: dict[str, Any] = {"error": str(error)}
    status = 409
    if isinstance(error, NotInSync):
        status = 504
        content["not_in_sync"] = [str(tp) for tp in error.partitions[:MAX_PLACEMENTS]]
    elif isinstance(error, NotThere):
        status = 404
    elif isinstance(error, ClusterUnavailable):
        status = 503
    return json_response(content, status)


CONTROL_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {"method": "GET", "path": "/api/v1/brokers", "does": "all brokers, running or not, with their epochs and leases"},
    {
        "method": "POST",
        "path": "/api/v1/brokers",
        "does": "start one more broker, of which clients learn by their metadata; answers when it is registered",
        "body": {"rack": "its rack; the next one of the setting racks if it is not given"},
    },
    {
        "method": "GET",
        "path": "/api/v1/topics",
        "does": "leader, replicas, ISR and ELR of each partition, by name",
        "query": {"topic": "only this topic's", "limit": f"how many, up to {MAX_PLACEMENTS}"},
    },
    {
        "method": "POST",
        "path": "/api/v1/brokers/{id}/stop",
        "does": "stop a broker in good order; the records in its memory are lost",
        "body": {"force": "true: even if it is the last in-sync replica of partitions; their records are lost"},
    },
    {
        "method": "POST",
        "path": "/api/v1/brokers/{id}/kill",
        "does": "end a broker without unregistering it: the others notice when its lease runs out",
        "body": {},
    },
    {
        "method": "POST",
        "path": "/api/v1/brokers/{id}/start",
        "does": "start a broker with empty logs; answers when it is registered",
        "body": {},
    },
    {
        "method": "POST",
        "path": "/api/v1/brokers/restart",
        "does": "restart all brokers in turn, each when all partitions are in sync again; answers after the last",
        "body": {},
    },
    {
        "method": "POST",
        "path": "/api/v1/topics/elect",
        "does": "elect preferred leaders, or unclean leaders for partitions that have none",
        "body": {
            "topic": "all topics if it is not given",
            "partition": "of that topic; all its partitions if it is not given",
            "unclean": "true: any live replica may lead where there is no leader; acknowledged records may be lost",
        },
    },
]
