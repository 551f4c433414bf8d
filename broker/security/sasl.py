"""A connection's way to its principal: which SASL requests it may send now, and their answers. Knows no connection.

A session begins with SaslHandshake, goes on with tokens and ends with the principal, or with the connection. A client
whose session has a lifetime begins again before it ends (KIP-368): by the same mechanism, for the same principal.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final, NamedTuple

from purgatorio.broker.routing.request import Principal
from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity, SaslExchange, SaslMechanisms
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from purgatorio.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1_000
"""The shortest time between the beginnings of two authentications of one connection, as in Kafka."""
MAX_TOKEN_BYTES: Final = 96 * 1024
"""The longest token of a client: the longest JSON Web Token and what is around it. A request may be longer, but
mechanisms that take 512 KiB apart hold the event loop for up to 40 ms, and all clients may do that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """How clients of one listener authenticate.

    Attributes:
        mechanisms: the enabled ones.
        max_request_bytes: the largest request before authentication (sasl.server.max.receive.size).
        failure_delay_ms: how long an answer to a failed attempt waits (connection.failed.authentication.delay.ms,
            KIP-306), so that passwords cannot be tried fast on one connection.
        max_reauth_ms: the longest session (connections.max.reauth.ms); 0: sessions last as long as connections.
    """

    mechanisms: SaslMechanisms
    max_request_bytes: int = 524_288
    failure_delay_ms: int = 100
    max_reauth_ms: int = 0


class Phase(enum.Enum):
    """How far a connection has come."""

    START = enum.auto()
    """SaslHandshake comes next."""
    TOKENS = enum.auto()
    """A mechanism was chosen, and its tokens come next."""
    DONE = enum.auto()
    """The client has authenticated."""


class SaslOutcome(NamedTuple):
    """The result of a SASL request.

    Attributes:
        response: the answer; None closes the connection without one.
        failure: why the connection closes after the answer, for the log; empty if it stays.
    """

    response: SaslHandshakeResponse | SaslAuthenticateResponse | None
    failure: str = ""


class SaslSession:
    """The authentication of one connection.

    Args:
        now_ms: returns monotonic milliseconds, for lifetimes.
        wall_ms: returns wall milliseconds, for the validity of credentials.

    Attributes:
        phase: how far it has come.
        raw_tokens: whether tokens come without request headers (SaslHandshake version 0).
        principal: the client's, once it has authenticated; it stays while it does so again.
        mechanism: the chosen one; empty before.
        expires_ms: when the session's lifetime ends, in monotonic milliseconds; None if it has none.
    """

    def __init__(self, settings: SaslSettings, now_ms: Callable[[], int], wall_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._exchange: SaslExchange | None = None
        self._began_ms = now_ms()
        self.phase = Phase.START
        self.raw_tokens = False
        self.principal: Principal | None = None
        self.mechanism = ""
        self.expires_ms: int | None = None

    @property
    def has_expired(self) -> bool:
        """Whether the session's lifetime has ended, and the client has not begun to authenticate again."""
        return self.phase is Phase.DONE and self.expires_ms is not None and self._now_ms() >= self.expires_ms

    def handshake(self, request: SaslHandshakeRequest, version: int) -> SaslOutcome:
        """Choose a mechanism."""
        if self.phase is Phase.TOKENS:
            return SaslOutcome(self._chosen(ErrorCode.ILLEGAL_SASL_STATE), "SaslHandshake in place of a token")
        if self.phase is Phase.DONE and not self._may_begin_again():
            return SaslOutcome(self._chosen(ErrorCode.ILLEGAL_SASL_STATE))
        mechanism = self._settings.mechanisms.get(request.mechanism)
        if mechanism is None or self.mechanism not in ("", request.mechanism):
            failure = f"mechanism {request.mechanism!r} is not enabled"
            return SaslOutcome(self._chosen(ErrorCode.UNSUPPORTED_SASL_MECHANISM), failure)
        self.phase = Phase.TOKENS
        self.mechanism = request.mechanism
        self.raw_tokens = version == 0
        self._exchange = mechanism.begin()
        self._began_ms = self._now_ms()
        return SaslOutcome(self._chosen(ErrorCode.NONE))

    def authenticate(self, request: SaslAuthenticateRequest) -> SaslOutcome:
        """Take a token."""
        if self._exchange is None:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="SaslHandshake comes before SaslAuthenticate."
            )
            return (
                SaslOutcome(response) if self.phase is Phase.DONE else SaslOutcome(None, "SaslAuthenticate comes first")
            )
        try:
            if len(request.auth_bytes) > MAX_TOKEN_BYTES:
                raise AuthenticationFailed(f"a token has {len(request.auth_bytes)} bytes")
            step = self._exchange.step(bytes(request.auth_bytes))
            if step.identity is not None:
                self._finish(step.identity)
        except AuthenticationFailed as error:
            self._exchange = None
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=f"Authentication by {self.mechanism} failed: the credentials are not valid.",
            )
            return SaslOutcome(response, f"{self.mechanism}: {error}")
        response = SaslAuthenticateResponse(auth_bytes=step.token)
        if step.identity is not None and self.expires_ms is not None:
            response.session_lifetime_ms = self.expires_ms - self._now_ms()
        return SaslOutcome(response)

    def _chosen(self, error_code: ErrorCode) -> SaslHandshakeResponse:
        return SaslHandshakeResponse(error_code=error_code, mechanisms=list(self._settings.mechanisms))

    def _may_begin_again(self) -> bool:
        return self.expires_ms is not None and self._now_ms() - self._began_ms >= MIN_REAUTHENTICATION_INTERVAL_MS

    def _finish(self, identity: Identity) -> None:
        """Begin the session; raises `AuthenticationFailed` if it was another principal's, or is over already."""
        principal = Principal(identity.type, identity.name)
        if self.principal not in (None, principal):
            raise AuthenticationFailed(f"{self.principal} may not become {principal}")
        lifetimes_ms = [self._settings.max_reauth_ms] if self._settings.max_reauth_ms else []
        if identity.expires_ms is not None:
            left_ms = identity.expires_ms - self._wall_ms()
            if left_ms <= 0:
                raise AuthenticationFailed(f"the credentials of {identity.name!r} have expired")
            if lifetimes_ms:  # as in Kafka: without a longest session, no client authenticates again (KIP-368)
                lifetimes_ms.append(left_ms)
        self.expires_ms = self._now_ms() + min(lifetimes_ms) if lifetimes_ms else None
        self.principal = principal
        self.phase = Phase.DONE
        self.raw_tokens = False
        self._exchange = None
