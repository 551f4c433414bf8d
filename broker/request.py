"""What a handler receives and what it answers with: the seam between `broker.server` and `broker.api`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity that a client has proved; its text is ``User:alice``, as in Kafka's ACLs and logs.

    Attributes:
        type: the kind of principal; Kafka's own authenticators know `User` only.
        name: unique within its kind.
    """

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of a client that has not authenticated (Kafka's `KafkaPrincipal.ANONYMOUS`)."""


@dataclass(slots=True, eq=False, kw_only=True)
class Session:
    """A client's connection, as handlers see it: made once per connection, and shared by all its requests.

    Sessions are compared by identity, so they may be the keys of a dict.

    Attributes:
        connection_id: unique within the broker.
        listener: the name of the listener that accepted the connection.
        host: the client's address; `unknown` if the connection was lost before the server asked.
        peer: the client's address and port, as `host:port`; or `unknown`.
        client_id: the client id of the newest request.
        principal: changed by authentication only.
    """

    connection_id: str
    listener: str
    host: str
    peer: str
    client_id: str | None = None
    principal: Principal = ANONYMOUS


@dataclass(slots=True)
class RequestContext:
    """What a handler is told about a request besides its message.

    Attributes:
        session: the connection that the request came by.
        client_id: the client id of this request; `session` has that of the newest.
        received_ms: the clock's monotonic time at which the last byte of the request had arrived.
    """

    session: Session
    client_id: str | None
    api_key: int
    api_version: int
    received_ms: int


class Reply(Protocol):
    """The answer to one request: exactly one of its methods is called, once, now or any time later.

    Once the connection is gone every method is a no-op.
    """

    def __call__(self, response: Any) -> None:
        """Answer with `response`, a message of the request's API; it leaves in the order of the requests."""
        ...

    def nothing(self) -> None:
        """Answer with no bytes at all (a produce request with acks=0)."""
        ...

    def close(self, reason: str) -> None:
        """Close the connection instead of answering; `reason` goes to the log."""
        ...


Handler = Callable[[RequestContext, Any, Reply], None]


@dataclass(frozen=True, slots=True)
class Route:
    """How one API is answered.

    Attributes:
        min_version: the lowest version that ApiVersions advertises.
        max_version: the highest version that is advertised and answered.
        error_response: the response that says that the whole request failed with a code, or None where the
            API's response has no place for one; the connection is closed then.
        min_answered_version: the lowest version that is answered, where that is above the advertised one.
    """

    handler: Handler
    min_version: int
    max_version: int
    error_response: Callable[[Any, ErrorCode], Any | None]
    min_answered_version: int = 0


Routes = Mapping[int, Route]


def api_versions_response(routes: Routes, error_code: ErrorCode = ErrorCode.NONE) -> ApiVersionsResponse:
    """The table of what is answered, derived from `routes`, so that it cannot drift from them."""
    return ApiVersionsResponse(
        error_code=error_code,
        api_keys=[
            ApiVersion(api_key=int(api_key), min_version=route.min_version, max_version=route.max_version)
            for api_key, route in sorted(routes.items())
        ],
    )
