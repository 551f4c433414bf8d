"""What a handler receives and what it answers with: the seam between `broker.server` and `broker.api`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse


@dataclass(slots=True)
class RequestContext:
    """Who asks, in which version, and since when.

    Attributes:
        received_ms: monotonic time at which the whole request had arrived.
        peer: the client's address as `host:port`.
        listener: the name of the listener that the connection came in by.
    """

    connection_id: str
    peer: str
    client_id: str | None
    api_key: int
    api_version: int
    received_ms: int
    listener: str


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
