"""The requests of the JSON API about users with SCRAM credentials.

A password is salted by the client that sets it, and never gets here. The status is 404 if there is no such credential,
409 if the cluster does not take it, and 503 if no broker can decide it now.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Base64Bytes, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.operator.users import Users
from purgatorio.broker.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, NAMES
from purgatorio.broker.security.scram_users import MAX_NAME_CHARS, ScramEdit
from purgatorio.broker.web.requests import Body, json_response, read_change
from purgatorio.broker.web.views import ClusterView

MAX_USERS: Final = 1_000
"""Credentials that one response lists."""
_Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
_Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]


class SetCredential(Body):
    """A user's credential.

    Attributes:
        name: the user's.
        mechanism: whose hash the password was salted with.
        salt, salted_password: in base64.
    """

    name: _Name
    mechanism: _Mechanism
    iterations: Annotated[int, Field(ge=MIN_ITERATIONS, le=MAX_ITERATIONS)]
    salt: Base64Bytes
    salted_password: Base64Bytes


class DeleteCredential(Body):
    """The credential that is deleted."""

    name: _Name
    mechanism: _Mechanism


class UsersApi:
    """The handlers.

    Args:
        cluster: the cluster.
        allowed_host: the configured host (see `purgatorio.broker.web.guard`).
    """

    def __init__(self, cluster: ClusterView, allowed_host: str) -> None:
        self._cluster = cluster
        self._users = Users(cluster.network)
        self._allowed_host = allowed_host

    def routes(self) -> list[Route]:
        """The routes. Names may contain anything, so they are in bodies."""
        return [
            Route("/api/v1/users", self.listed),
            Route("/api/v1/users/set", self.set, methods=["POST"]),
            Route("/api/v1/users/delete", self.delete, methods=["POST"]),
        ]

    async def listed(self, request: Request) -> Response:
        """``GET /api/v1/users``: the users with their mechanisms, by name."""
        listed = self._users.listed()
        users = [
            {"name": each.name, "mechanism": NAMES[each.mechanism], "iterations": each.iterations}
            for each in listed[:MAX_USERS]
        ]
        return json_response({"users": users, "credential_count": len(listed)})

    async def set(self, request: Request) -> Response:
        """``POST /api/v1/users/set`` with a `SetCredential`: set it in place of the one that is there."""
        given = await read_change(request, SetCredential, self._allowed_host, self._cluster.clock)
        mechanism = _MECHANISMS[given.mechanism]
        await self._users.edit(ScramEdit(given.name, mechanism, given.iterations, given.salt, given.salted_password))
        return json_response({"name": given.name, "mechanism": given.mechanism})

    async def delete(self, request: Request) -> Response:
        """``POST /api/v1/users/delete`` with a `DeleteCredential`; open connections stay."""
        given = await read_change(request, DeleteCredential, self._allowed_host, self._cluster.clock)
        await self._users.edit(ScramEdit(given.name, _MECHANISMS[given.mechanism]))
        return json_response({"name": given.name, "mechanism": given.mechanism})


_MECHANISMS: Final = {name: mechanism for mechanism, name in NAMES.items()}

USER_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {"method": "GET", "path": "/api/v1/users", "does": "users with SCRAM credentials: mechanisms and iterations"},
    {
        "method": "POST",
        "path": "/api/v1/users/set",
        "does": "set a user's SCRAM credential; answers when all brokers know it",
        "body": {
            "name": "the user's",
            "mechanism": "SCRAM-SHA-256 or SCRAM-SHA-512",
            "iterations": f"{MIN_ITERATIONS} to {MAX_ITERATIONS}",
            "salt": "in base64",
            "salted_password": "in base64: PBKDF2 of the password with this salt and these iterations (RFC 5802)",
        },
    },
    {
        "method": "POST",
        "path": "/api/v1/users/delete",
        "does": "delete a user's SCRAM credential; open connections stay",
        "body": {"name": "the user's", "mechanism": "SCRAM-SHA-256 or SCRAM-SHA-512"},
    },
]
