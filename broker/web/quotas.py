"""The requests of the JSON API about client quotas.

The status is 409 if the cluster does not take a quota, and 503 if no broker can decide it now.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.layers.quotas.naming import Part
from purgatorio.broker.operator.quotas import Quotas
from purgatorio.broker.web.requests import Body, json_response, read_change
from purgatorio.broker.web.views import ClusterView

MAX_ENTITIES: Final = 1_000
"""Entities that one response lists."""
_Name = Annotated[str, Field(max_length=1_000)]


class EditQuotas(Body):
    """Quotas of one entity to set or remove.

    Attributes:
        user, client_id, ip: the entity: a name, null for the default, or absent.
        quotas: values by Kafka's names; null removes a quota.
    """

    user: _Name | None = None
    client_id: _Name | None = None
    ip: _Name | None = None
    quotas: Annotated[dict[str, float | None], Field(min_length=1, max_length=10)]

    def parts(self) -> list[Part]:
        """The parts of the entity that were given."""
        given = (("user", "user", self.user), ("client_id", "client-id", self.client_id), ("ip", "ip", self.ip))
        return [(kind, name) for field, kind, name in given if field in self.model_fields_set]


class QuotasApi:
    """The handlers.

    Args:
        cluster: the cluster.
        allowed_host: the configured host (see `purgatorio.broker.web.guard`).
    """

    def __init__(self, cluster: ClusterView, allowed_host: str) -> None:
        self._cluster = cluster
        self._quotas = Quotas(cluster.network)
        self._allowed_host = allowed_host

    def routes(self) -> list[Route]:
        """The routes. Names may contain anything, so they are in bodies."""
        return [
            Route("/api/v1/quotas", self.listed),
            Route("/api/v1/quotas/edit", self.edit, methods=["POST"]),
        ]

    async def listed(self, request: Request) -> Response:
        """``GET /api/v1/quotas``: the quotas by entity."""
        listed = self._quotas.listed()
        quotas = [
            {**{kind.replace("-", "_"): name for kind, name in each.entity}, "quotas": dict(each.values)}
            for each in listed[:MAX_ENTITIES]
        ]
        return json_response({"quotas": quotas, "entity_count": len(listed)})

    async def edit(self, request: Request) -> Response:
        """``POST /api/v1/quotas/edit`` with an `EditQuotas`; connections that are muted stay so."""
        given = await read_change(request, EditQuotas, self._allowed_host, self._cluster.clock)
        await self._quotas.edit(given.parts(), given.quotas)
        return json_response({"quotas": given.quotas})


QUOTA_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {"method": "GET", "path": "/api/v1/quotas", "does": "client quotas by user, client id and IP address"},
    {
        "method": "POST",
        "path": "/api/v1/quotas/edit",
        "does": "set and remove quotas of an entity; answers when all brokers apply them",
        "body": {
            "user, client_id, ip": "the entity: a name, null for the default of its kind, or absent",
            "quotas": "values by Kafka's names, such as producer_byte_rate; null removes one",
        },
    },
]
