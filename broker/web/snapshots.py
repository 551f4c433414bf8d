"""The requests of the JSON API that save what a cluster has, and make it so again.

The status is 404 if there is no such snapshot, 409 if there are too many, a name is taken or a broker is being stopped
or started, and 503 if a partition has no leader that runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.metadata.topic_name import is_internal
from purgatorio.broker.operator import ClusterControl
from purgatorio.broker.operator.snapshots import Snapshot
from purgatorio.broker.web.requests import Body, Nothing, json_response, read_change
from purgatorio.broker.web.views import ClusterView

MAX_SNAPSHOTS: Final = 10
"""Snapshots that are kept; each keeps its records in memory, also those that the brokers have deleted since."""
MAX_TOPICS_SHOWN: Final = 100
MAX_NAME_CHARS: Final = 100


class Take(Body):
    """How a snapshot is called; by default it gets a number."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)] | None = None


class SnapshotsApi:
    """The handlers; they keep the snapshots.

    Args:
        cluster: the cluster.
        control: completes a restore even if its client is gone.
        allowed_host: the configured host (see `purgatorio.broker.web.guard`).
    """

    def __init__(self, cluster: ClusterView, control: ClusterControl, allowed_host: str) -> None:
        self._cluster = cluster
        self._control = control
        self._allowed_host = allowed_host
        self._kept: dict[str, tuple[Snapshot, dict[str, Any]]] = {}
        self._taken = 0

    def routes(self) -> list[Route]:
        """The routes. A name may contain anything, slashes too."""
        snapshot = "/api/v1/snapshots/{name:path}"
        return [
            Route("/api/v1/snapshots", self.listed, methods=["GET"]),
            Route("/api/v1/snapshots", self.take, methods=["POST"]),
            Route(f"{snapshot}/restore", self.restore, methods=["POST"]),
            Route(snapshot, self.remove, methods=["DELETE"]),
        ]

    async def listed(self, request: Request) -> Response:
        """``GET /api/v1/snapshots``: the snapshots, oldest first."""
        return json_response({"snapshots": [shown for _, shown in self._kept.values()]})

    async def take(self, request: Request) -> Response:
        """``POST /api/v1/snapshots`` with a `Take`: save what the cluster has now."""
        wanted = await read_change(request, Take, self._allowed_host, self._cluster.clock)
        if len(self._kept) >= MAX_SNAPSHOTS:
            raise HTTPException(409, f"there are {MAX_SNAPSHOTS} snapshots already; remove one first")
        if wanted.name in self._kept:
            raise HTTPException(409, f"there is a snapshot {wanted.name!r} already; remove it first")
        snapshot = self._cluster.snapshot()
        name = wanted.name or next(each for each in self._numbers() if each not in self._kept)
        shown = _shown(name, snapshot)
        self._kept[name] = snapshot, shown
        return json_response(shown)

    def _numbers(self) -> Iterator[str]:
        while True:
            self._taken += 1
            yield str(self._taken)

    async def restore(self, request: Request) -> Response:
        """``POST /api/v1/snapshots/{name}/restore`` with ``{}``: make the cluster as it was; it can be done again."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        snapshot, shown = self._found(request)
        await self._control.complete(self._cluster.restore(snapshot))
        return json_response(shown)

    async def remove(self, request: Request) -> Response:
        """``DELETE /api/v1/snapshots/{name}`` with ``{}``: forget a snapshot."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        _, shown = self._found(request)
        del self._kept[shown["name"]]
        return json_response(shown)

    def _found(self, request: Request) -> tuple[Snapshot, dict[str, Any]]:
        name = request.path_params["name"]
        if name not in self._kept:
            raise HTTPException(404, f"there is no snapshot {name[:MAX_NAME_CHARS]!r}{nearest(name, self._kept)}")
        return self._kept[name]


def _shown(name: str, snapshot: Snapshot) -> dict[str, Any]:
    topics = [each for each in sorted(snapshot.topics) if not is_internal(each)]
    return {
        "name": name,
        "topics": topics[:MAX_TOPICS_SHOWN],
        "topic_count": len(topics),
        "size_bytes": sum(len(batch) for saved in snapshot.logs.values() for batch in saved.batches),
    }


SNAPSHOT_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {"method": "GET", "path": "/api/v1/snapshots", "does": "the snapshots that were taken here, oldest first"},
    {
        "method": "POST",
        "path": "/api/v1/snapshots",
        "does": f"save topics, records, groups, producers and transactions; up to {MAX_SNAPSHOTS} are kept",
        "body": {"name": "a name; a number if it is not given"},
    },
    {
        "method": "POST",
        "path": "/api/v1/snapshots/{name}/restore",
        "does": "make the cluster as it was at a snapshot: all brokers are replaced, clients connect again",
        "body": {},
    },
    {"method": "DELETE", "path": "/api/v1/snapshots/{name}", "does": "forget a snapshot", "body": {}},
]
