"""The requests of the JSON API that compact logs and apply retention at once.

The status is 404 if there is no such topic, and 409 if it is not compacted.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.operator import upkeep
from purgatorio.broker.web.requests import Body, Nothing, json_response, read_change
from purgatorio.broker.web.views import ClusterView


class Compact(Body):
    """What is compacted: a topic, or all topics that are."""

    topic: Annotated[str, Field(min_length=1, max_length=249)] | None = None


class UpkeepApi:
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
            Route("/api/v1/topics/compact", self.compact, methods=["POST"]),
            Route("/api/v1/topics/apply-retention", self.apply_retention, methods=["POST"]),
        ]

    async def compact(self, request: Request) -> Response:
        """``POST /api/v1/topics/compact`` with a `Compact`: run the cleaner now, over active segments too."""
        wanted = await read_change(request, Compact, self._allowed_host, self._cluster.clock)
        await upkeep.compact(self._cluster, wanted.topic)
        return json_response({"topic": wanted.topic, "state": "compacted"})

    async def apply_retention(self, request: Request) -> Response:
        """``POST /api/v1/topics/apply-retention`` with ``{}``: delete what is too old or too much."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        await upkeep.apply_retention(self._cluster)
        return json_response({"state": "applied"})


UPKEEP_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {
        "method": "POST",
        "path": "/api/v1/topics/compact",
        "does": "compact logs now, with their active segments, whatever their dirty ratio",
        "body": {"topic": "only this one; all that are compacted if it is not given"},
    },
    {
        "method": "POST",
        "path": "/api/v1/topics/apply-retention",
        "does": "delete now what is older than retention.ms or beyond retention.bytes",
        "body": {},
    },
]
