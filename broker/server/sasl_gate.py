"""Stands before the dispatcher on connections of SASL listeners: until the client has authenticated, little passes.

`security.sasl` decides about SASL requests; this module decodes them, answers them, and lets a failed attempt wait.
Connections without SASL have no gate, and those whose session lasts as long as they do lose theirs.
"""

from __future__ import annotations

from typing import Final, Protocol

from purgatorio.broker.routing.request import Session
from purgatorio.broker.security.sasl import Phase, SaslOutcome, SaslSession, SaslSettings
from purgatorio.broker.server.dispatch import Dispatcher, api_name
from purgatorio.broker.server.exchange import Exchange
from purgatorio.broker.server.limits import Refusal
from purgatorio.logger import get_logger
from purgatorio.protocol.api import APIS, ApiKey, RequestHeader, decode_request, decode_request_header
from purgatorio.protocol.errors import DecodeError, EncodeError, ErrorCode
from purgatorio.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from purgatorio.protocol.messages.sasl_handshake import SaslHandshakeRequest
from purgatorio.protocol.primitives import Buffer
from purgatorio.purgatory.clock import Alarm, Clock

MAX_API_VERSIONS: Final = 4
"""ApiVersions requests before SaslHandshake: a client that learns of another version asks again (KIP-511)."""
MAX_ANSWERED_BYTES: Final = 1_024
"""The longest request that is answered with its own error where a token must come. To read a long one and to make its
answer takes up to 50 ms, and clients that are not authenticated may ask for it."""

_log = get_logger(__name__)


class GatedConnection(Protocol):
    """The connection, as its gate needs it; tests have one of their own."""

    session: Session

    def authenticated(self, *, keeps_gate: bool) -> None:
        """Allow what was not allowed before; without `keeps_gate` all further requests go to the dispatcher."""
        ...

    def accept_no_more(self) -> None:
        """Start no further request."""
        ...


class SaslGate:
    """The gate of one connection.

    Args:
        settings: the listener's.
        dispatcher: gets the requests that pass.
        clock: times lifetimes and the delay after a failure.
    """

    def __init__(
        self, settings: SaslSettings, dispatcher: Dispatcher, connection: GatedConnection, clock: Clock
    ) -> None:
        self._settings = settings
        self._dispatcher = dispatcher
        self._connection = connection
        self._clock = clock
        self._sasl = SaslSession(settings, clock.now_ms, clock.wall_ms)
        self._api_versions_left = MAX_API_VERSIONS
        self._failing: Alarm | None = None

    def dispatch(self, frame: Buffer, exchange: Exchange, session: Session, received_ms: int) -> None:
        """Start a request, as `Dispatcher.dispatch` does, or refuse it. Never raises."""
        sasl = self._sasl
        api_key = int.from_bytes(frame[:2])
        if sasl.phase is Phase.TOKENS and sasl.raw_tokens:
            self._take_raw_token(frame, exchange)
        elif api_key == ApiKey.SASL_HANDSHAKE or (api_key == ApiKey.SASL_AUTHENTICATE and not sasl.has_expired):
            self._decode_and(self._take_sasl, frame, exchange)
        elif sasl.phase is Phase.TOKENS and len(frame) <= MAX_ANSWERED_BYTES:
            self._decode_and(self._refuse_with_answer, frame, exchange)
        elif sasl.has_expired:
            exchange.refuse(Refusal.SESSION_EXPIRED, f"{sasl.principal} has not authenticated again in time")
        elif sasl.phase is Phase.DONE:
            self._dispatcher.dispatch(frame, exchange, session, received_ms)
        elif api_key == ApiKey.API_VERSIONS and self._api_versions_left:
            self._api_versions_left -= 1
            self._dispatcher.dispatch(frame, exchange, session, received_ms)
        else:
            exchange.refuse(Refusal.NOT_AUTHENTICATED, f"{api_name(api_key)} before authentication")

    def lost(self) -> None:
        """The connection is gone."""
        if self._failing is not None:
            self._failing.cancel()

    # Before authentication, and when it is done again.

    def _decode_and(self, take: _Take, frame: Buffer, exchange: Exchange) -> None:
        """Read the header, and the message if its version is known, and go on with `take`."""
        try:
            header, position = decode_request_header(frame)
            exchange.api_key = header.api_key
            exchange.api_version = header.api_version
            exchange.correlation_id = header.correlation_id
            self._connection.session.client_id = header.client_id
            api = APIS.get(header.api_key)
            if api is None or header.api_version not in api.versions:
                exchange.refuse(Refusal.UNSUPPORTED_VERSION, "no answer in this version")
                return
            take(header, decode_request(header, frame, position), exchange)
        except DecodeError as error:
            exchange.refuse(Refusal.UNDECODABLE_REQUEST, f"{type(error).__name__}: {error}")
        except Exception:  # a bug costs the connection that met it, and no other
            _log.exception("authentication failed by a bug", peer=self._connection.session.peer)
            exchange.refuse(Refusal.INTERNAL_ERROR, "authentication failed by a bug")

    def _take_sasl(self, header: RequestHeader, request: object, exchange: Exchange) -> None:
        if isinstance(request, SaslHandshakeRequest):
            outcome = self._sasl.handshake(request, header.api_version)
        else:
            assert isinstance(request, SaslAuthenticateRequest)
            outcome = self._authenticate(request)
        if outcome.failure:
            self._fail_later(outcome, exchange)
        else:
            exchange(outcome.response)

    def _take_raw_token(self, frame: Buffer, exchange: Exchange) -> None:
        exchange.api_key, exchange.api_version = ApiKey.SASL_AUTHENTICATE, 0
        outcome = self._authenticate(SaslAuthenticateRequest(auth_bytes=frame))
        if outcome.failure:
            self._fail_later(SaslOutcome(None, outcome.failure), exchange)
            return
        assert isinstance(outcome.response, SaslAuthenticateResponse)
        token = bytes(outcome.response.auth_bytes)
        exchange.raw(len(token).to_bytes(4) + token)

    def _authenticate(self, request: SaslAuthenticateRequest) -> SaslOutcome:
        sasl, connection = self._sasl, self._connection
        outcome = sasl.authenticate(request)
        if sasl.phase is Phase.DONE and sasl.principal is not None and not outcome.failure:
            if connection.session.principal != sasl.principal:
                connection.session.principal = sasl.principal
                peer = connection.session.peer
                _log.debug("client authenticated", principal=sasl.principal, mechanism=sasl.mechanism, peer=peer)
            connection.authenticated(keeps_gate=sasl.expires_ms is not None)
        return outcome

    def _refuse_with_answer(self, header: RequestHeader, request: object, exchange: Exchange) -> None:
        """Answer another request than the one that must come with its own error, and close."""
        response = self._dispatcher.error_response(header, request, ErrorCode.ILLEGAL_SASL_STATE)
        self._fail_later(SaslOutcome(response, f"{api_name(header.api_key)} in place of a token"), exchange)

    def _fail_later(self, outcome: SaslOutcome, exchange: Exchange) -> None:
        """Answer and close when the delay is over; until then nothing is started or read."""
        self._connection.accept_no_more()
        self._failing = self._clock.call_later(self._settings.failure_delay_ms, _fail, outcome, exchange)


class _Take(Protocol):
    def __call__(self, header: RequestHeader, request: object, exchange: Exchange) -> None: ...


def _fail(outcome: SaslOutcome, exchange: Exchange) -> None:
    try:
        exchange.refuse(Refusal.AUTHENTICATION_FAILED, outcome.failure, outcome.response)
    except EncodeError:  # that API has no place for the error in this version
        exchange.refuse(Refusal.AUTHENTICATION_FAILED, outcome.failure)
