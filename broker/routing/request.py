"""Requests, replies and routes: the interface between `broker.server` and `broker.api`."""

# compiled: docs/compiled.md

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

USER: Final = "User"
BROKER: Final = "Broker"


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated identity of a client; its text is ``User:alice``, as in Kafka's ACLs and logs.

    Attributes:
        type: USER, or BROKER for the other brokers of the cluster; Kafka's own authenticators know users only.
        name: unique within its kind.
    """

    type: str
    name: str

    @property
    def is_broker(self) -> bool:
        """Whether this is a broker of the cluster."""
        return self.type == BROKER

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


_BROKERS_CLIENT_ID: Final = re.compile(r"broker-\d+-[a-z]+")


def is_of_broker(client_id: str) -> bool:
    """Return whether a client id is that of a connection between brokers (`BrokerConnections`); a client may lie."""
    return _BROKERS_CLIENT_ID.fullmatch(client_id) is not None


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of a client that has not authenticated (Kafka's `KafkaPrincipal.ANONYMOUS`)."""


class Channel(Protocol):
    """A client's connection, as a layer that delays its requests sees it; Kafka's name, since Kafka mutes channels."""

    def mute(self) -> None:
        """Start no further request of this connection until `unmute` has been called as often; those started go on."""
        ...

    def unmute(self) -> None:
        """Take back one `mute`. Requests that waited start in a later turn of the event loop, in their order."""
        ...

    def throttle(self) -> None:
        """Mute, and read nothing until `unthrottle`; one quota at a time may."""
        ...

    def unthrottle(self, then: Callable[[], None] | None = None) -> None:
        """Take back `throttle`; call `then` in a later turn of the event loop, before further requests are started."""
        ...


class _NoChannel:
    """The channel of a session whose connection is gone."""

    def mute(self) -> None:
        """Do nothing: no request comes any more."""

    def unmute(self) -> None:
        """Do nothing."""

    def throttle(self) -> None:
        """Do nothing."""

    def unthrottle(self, then: Callable[[], None] | None = None) -> None:
        """Do nothing."""


NO_CHANNEL: Final[Channel] = _NoChannel()
"""The channel of a session without a connection: it is gone, or a test has none."""


class Throttled(Protocol):
    """The throttle of a connection, which ends with the connection."""

    def channel_lost(self) -> None:
        """End: the connection is gone."""
        ...


class Stopwatch(Protocol):
    """Times a request whose answer is made in steps."""

    def resumed(self) -> None:
        """Begin to count: a step of the request is taken."""
        ...

    def paused(self) -> None:
        """Count no more, until the next step."""
        ...


@dataclass(slots=True, eq=False, kw_only=True)
class Session:
    """A client's connection, as handlers see it; all requests of the connection share it.

    Sessions are compared and hashed by identity.

    Attributes:
        connection_id: unique within the broker.
        listener: the name of the listener that accepted the connection.
        host: the client's address; `unknown` if the connection was lost before the server asked.
        peer: the client's address and port, as `host:port`; or `unknown`.
        client_id: the client id of the newest request.
        principal: the identity of the client; only authentication changes it.
        channel: the connection, to be muted; `NO_CHANNEL` as soon as it is gone.
        throttled_by: the quota that throttles the connection now; None if none does.
        parked_partitions: the partitions of its fetches that wait, but for those of a fetch session.
        when_lost: called when the connection is gone; by what the callers choose as a key.
        timed_by: what times the request that is worked on now, if a quota is about it.
        permissions: the authorizer's, of this connection; None if there is no authorizer, and before its first request.
        is_broker: whether the client has proved to be another broker, by its login or the broker epoch in a fetch. It
            is read even if the memory for requests is spent: requests with acks=all keep that until followers fetch.
    """

    connection_id: str
    listener: str
    host: str
    peer: str
    client_id: str | None = None
    principal: Principal = ANONYMOUS
    channel: Channel = NO_CHANNEL
    throttled_by: Throttled | None = None
    timed_by: Stopwatch | None = None
    permissions: Any = None
    parked_partitions: int = 0
    is_broker: bool = False
    when_lost: dict[Hashable, Callable[[], None]] = field(default_factory=dict)

    def lost(self) -> None:
        """Forget the connection: it is gone, and parked requests that keep their session need no more of it."""
        self.channel = NO_CHANNEL
        if self.when_lost:
            calls, self.when_lost = self.when_lost, {}
            for call in calls.values():
                call()
        if self.throttled_by is not None:
            self.throttled_by.channel_lost()


class RequestContext:
    """The facts about a request besides its message.

    Attributes:
        client_id: the client id of this request; `session` has that of the newest request.
        received_ms: the clock's monotonic time when the last byte of the request was received.
        request_bytes: the size of the request on the wire.
    """

    __slots__ = ("api_key", "api_version", "client_id", "received_ms", "request_bytes", "session")

    def __init__(
        self,
        session: Session,
        client_id: str | None,
        api_key: int,
        api_version: int,
        received_ms: int,
        request_bytes: int = 0,
    ) -> None:
        self.session = session
        self.client_id = client_id
        self.api_key = api_key
        self.api_version = api_version
        self.received_ms = received_ms
        self.request_bytes = request_bytes


class Reply(Protocol):
    """Answers one request: the handler calls exactly one of the methods, once, now or later.

    After the connection is lost every method is a no-op.
    """

    def __call__(self, response: Any) -> None:
        """Send `response`, a message of the request's API, or one that is encoded already (`EncodedResponse`).

        Responses are sent in the order of their requests.
        """
        ...

    def nothing(self) -> None:
        """Send nothing (for a produce request with acks=0)."""
        ...

    def close(self, reason: str) -> None:
        """Close the connection instead of answering; `reason` is logged."""
        ...


Handler = Callable[[RequestContext, Any, Reply], None]


class Versions(NamedTuple):
    """The versions of one API.

    Attributes:
        lowest: the lowest that ApiVersions advertises.
        highest: the highest that is answered.
        lowest_answered: the lowest that is answered, if it is above `lowest`.
        highest_advertised: the highest that ApiVersions advertises, if it is below `highest`.
    """

    lowest: int
    highest: int
    lowest_answered: int = 0
    highest_advertised: int | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """The handler of one API, with the versions that it answers.

    Attributes:
        min_version: the lowest version that ApiVersions advertises.
        max_version: the highest version that is answered.
        error_response: returns the response for a request that failed as a whole; None closes the connection, for
            APIs whose response has no place for an error code.
        min_answered_version: the lowest version that is answered, if it is above `min_version`.
    """

    handler: Handler
    min_version: int
    max_version: int
    error_response: Callable[[Any, ErrorCode], Any | None]
    min_answered_version: int = 0


class Routes:
    """The routes of one broker. Each is made when it is first asked for: a cluster of a test uses few of them.

    Args:
        versions: those of the APIs that the broker answers, by API key.
        make: returns the route of one of these.
    """

    def __init__(self, versions: Mapping[int, Versions], make: Callable[[int], Route]) -> None:
        self.versions = versions
        self._make = make
        self._made: dict[int, Route] = {}

    def find(self, api_key: int) -> Route | None:
        """Return the route of an API; None if the broker does not answer it."""
        route = self._made.get(api_key)
        if route is None and api_key in self.versions:
            route = self._made[api_key] = self._make(api_key)
        return route

    def make_anew(self) -> None:
        """Have each route made again when it is next asked for."""
        self._made = {}


def api_versions_response(
    versions: Mapping[int, Versions], error_code: ErrorCode = ErrorCode.NONE
) -> ApiVersionsResponse:
    """Return the ApiVersions response that advertises these versions, which are given by API key."""
    return ApiVersionsResponse(
        error_code=error_code,
        api_keys=[
            ApiVersion(
                api_key=int(api_key),
                min_version=each.lowest,
                max_version=each.highest if each.highest_advertised is None else each.highest_advertised,
            )
            for api_key, each in sorted(versions.items())
        ],
    )
