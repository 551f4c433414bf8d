"""The requests of the JSON API about access control lists.

An ACL is text, ``allow User:alice READ,WRITE topic orders``, or the list of its words (see
`purgatorio.broker.security.acl_text`). The status is 400 if a text is no ACL, 404 if there is no such ACL, 409 if the
cluster has no authorizer or refuses it, and 503 if no broker can decide it now.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.metadata.acls import AclBinding
from purgatorio.broker.operator.acls import Acls
from purgatorio.broker.security.acl_text import EXAMPLE, AclTextError, acl_text, parse_acls
from purgatorio.broker.web.requests import Body, int_param, json_response, read_change
from purgatorio.broker.web.views import ClusterView

MAX_LISTED: Final = 10_000
LISTED: Final = 1_000
"""ACLs that one response lists, unless more are asked for."""
MAX_TEXTS: Final = 1_000
_Text = Annotated[str, Field(max_length=4_096)]
_Words = Annotated[list[_Text], Field(max_length=7)]


class AclTexts(Body):
    """The ACLs that are added or removed, each as text or as its words."""

    acls: Annotated[list[_Text | _Words], Field(min_length=1, max_length=MAX_TEXTS)]


class AclsApi:
    """The handlers.

    Args:
        cluster: the cluster.
        allowed_host: the configured host (see `purgatorio.broker.web.guard`).
    """

    def __init__(self, cluster: ClusterView, allowed_host: str) -> None:
        self._cluster = cluster
        self._allowed_host = allowed_host

    def routes(self) -> list[Route]:
        """The routes. Names may contain anything, so they are in bodies."""
        return [
            Route("/api/v1/acls", self.listed),
            Route("/api/v1/acls/add", self.add, methods=["POST"]),
            Route("/api/v1/acls/remove", self.remove, methods=["POST"]),
        ]

    async def listed(self, request: Request) -> Response:
        """``GET /api/v1/acls?limit=1000``: the ACLs, oldest first."""
        limit = int_param(request, "limit", LISTED, most=MAX_LISTED)
        acls = self._acls
        listed = acls.listed()
        return json_response(
            {
                "authorizer": acls.has_authorizer,
                "acls": [_shown(each) for each in listed[:limit]],
                "acl_count": len(listed),
            }
        )

    async def add(self, request: Request) -> Response:
        """``POST /api/v1/acls/add`` with `AclTexts`: add them all, or none; answers when they are in effect."""
        acls = await self._read(request)
        await self._acls.add(acls)
        return json_response({"acls": [_shown(each) for each in acls]})

    async def remove(self, request: Request) -> Response:
        """``POST /api/v1/acls/remove`` with `AclTexts`: remove them all, or none."""
        acls = await self._read(request)
        await self._acls.remove(acls)
        return json_response({"acls": [_shown(each) for each in acls]})

    async def _read(self, request: Request) -> list[AclBinding]:
        given = await read_change(request, AclTexts, self._allowed_host, self._cluster.clock)
        try:
            return parse_acls(given.acls)
        except AclTextError as error:
            raise HTTPException(400, str(error)) from None

    @property
    def _acls(self) -> Acls:
        has_authorizer = any(broker.access is not None for broker in self._cluster.brokers)
        return Acls(self._cluster.network, has_authorizer=has_authorizer)


def _shown(acl: AclBinding) -> dict[str, str]:
    return {
        "text": acl_text(acl),
        "permission": acl.permission.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "resource_type": acl.resource_type.name,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type.name,
    }


_BODY: Final = {"acls": f"a list of texts like {EXAMPLE!r}, or of their words"}
ACL_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {"method": "GET", "path": "/api/v1/acls", "does": "the access control lists, oldest first"},
    {
        "method": "POST",
        "path": "/api/v1/acls/add",
        "does": "add ACLs, all or none; answers when they are in effect at all brokers",
        "body": _BODY,
    },
    {"method": "POST", "path": "/api/v1/acls/remove", "does": "remove ACLs, all or none", "body": _BODY},
]
