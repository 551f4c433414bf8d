"""Services that the listeners of a broker share, and those that the connections of a listener share."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ssl import SSLContext
from typing import Protocol, TypeVar

from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.routing.request import Principal
from purgatorio.broker.security.sasl import SaslSettings
from purgatorio.broker.server.dispatch import Dispatcher
from purgatorio.broker.server.limits import ConnectionLimits, Refusal
from purgatorio.broker.server.observer import ServerObserver
from purgatorio.broker.server.refusal_log import RefusalLog
from purgatorio.broker.server.request_queue import RequestMemory
from purgatorio.broker.server.turns import Turns
from purgatorio.purgatory.clock import Clock

C = TypeVar("C", contravariant=True)
"""A connection."""

Identify = Callable[[bytes | None], Principal | str]
"""Returns the principal of a certificate in DER (None: the client shows none), or why the client is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerParts:
    """Services that the listeners of one broker share.

    Attributes:
        limits: bounds connections and requests.
        clock: the time at which requests were received, and of the durations that `observer` gets.
        deadline_clock: the time of connections' deadlines: `clock` without the time in which this process stood still
            and read nothing (`RunningClock`).
        turns: when connections work.
        answers: encodes long answers in steps.
        memory: bounds the bytes of requests.
        observer: counts connections, requests and bytes.
    """

    limits: ConnectionLimits
    clock: Clock
    deadline_clock: Clock
    turns: Turns
    answers: Listings
    memory: RequestMemory
    observer: ServerObserver


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How the clients of a listener show who they are; they need not, if nothing is given.

    Attributes:
        tls: returns the TLS context for a new connection; None: the listener speaks plain text.
        identify: returns a client's principal from its certificate; None: clients show none.
        sasl: how clients authenticate; None: they do not.
    """

    tls: Callable[[], SSLContext] | None = None
    identify: Identify | None = None
    sasl: SaslSettings | None = None


@dataclass(slots=True, kw_only=True)
class SharedServices:
    """The parts of a listener that all its connections use.

    Attributes:
        listener: the listener's name.
        deadline_clock: the time of deadlines: `clock` without the time in which this process stood still.
        turns: the turns of the event loop, which all connections of a broker share.
        goes_first: whether the clients are other brokers, whose turns come first once they have proved it.
        sasl: how clients authenticate; None: they do not.
        answers: encodes long answers in steps.
        identify: returns a client's principal from its certificate; None: clients show none.
    """

    listener: str
    limits: ConnectionLimits
    clock: Clock
    deadline_clock: Clock
    turns: Turns
    goes_first: bool = False
    dispatcher: Dispatcher
    answers: Listings
    memory: RequestMemory
    observer: ServerObserver
    refusals: RefusalLog
    sasl: SaslSettings | None = None
    identify: Identify | None = None


class ConnectionOwner(Protocol[C]):
    """Keeps the list of connections: the listener, or a test."""

    def enter(self, connection: C) -> tuple[Refusal, str] | None:
        """Add a new connection to the list, or return why it is refused."""
        ...

    def logged_in(self, connection: C) -> None:
        """A connection that was added has authenticated, or has requested something if it need not."""
        ...

    def left(self, connection: C) -> None:
        """Remove a connection that was added and is gone now."""
        ...

    def throttled(self, connection: C) -> None:
        """A connection is not read from now on, however long that takes."""
        ...

    def unthrottled(self, connection: C) -> None:
        """A connection is read again."""
        ...
