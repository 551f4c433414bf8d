"""A SASL mechanism, as authentication needs it: tokens in, tokens out, and in the end a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from purgatorio.broker.routing.request import USER


class AuthenticationFailed(Exception):
    """A client failed to prove its identity. The text is for the broker's log only: it may reveal which users exist."""


class Identity(NamedTuple):
    """The proven identity of a client.

    Attributes:
        name: the user's.
        expires_ms: when the credentials expire, in wall milliseconds since 1970; None if they do not.
        type: of the principal.
    """

    name: str
    expires_ms: int | None = None
    type: str = USER


class SaslStep(NamedTuple):
    """The broker's answer to a token.

    Attributes:
        token: for the client; empty if there is nothing to say.
        identity: the client's, if this was the last step.
    """

    token: bytes
    identity: Identity | None = None


class SaslExchange(Protocol):
    """One client's authentication by one mechanism."""

    def step(self, token: bytes) -> SaslStep:
        """Answer the client's next token.

        Raises:
            AuthenticationFailed: the client's credentials are wrong, or it broke the rules; the exchange is over.
        """
        ...


class SaslMechanism(Protocol):
    """Begins exchanges of one mechanism."""

    def begin(self) -> SaslExchange:
        """Return a new exchange."""
        ...


SaslMechanisms = Mapping[str, SaslMechanism]
"""The enabled mechanisms of a listener by their registered names, in the order in which clients see them."""
