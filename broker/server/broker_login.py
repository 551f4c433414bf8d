"""A broker's authentication at another broker, and that one's at this one, before it sends anything else."""

from __future__ import annotations

from typing import Any, Final

from purgatorio.broker.security.mechanism import AuthenticationFailed
from purgatorio.broker.security.scram import ScramLogin
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from purgatorio.protocol.messages.sasl_handshake import SaslHandshakeRequest

TIMEOUT_MS: Final = 10_000
MAX_ANSWER_BYTES: Final = 8 * 1024
"""The largest answer of a login, which has some 200 bytes: what answers may be no broker, and to read a large one holds
the event loop."""
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2


async def log_in(peer: PeerConnection, mechanism: str, login: ScramLogin) -> None:
    """Authenticate to each other; until the other broker has proved itself it gets nothing that is of use elsewhere.

    Raises:
        ConnectionError: one of the two refuses the other, or the connection was lost; it is closed.
        TimeoutError: no answer within `TIMEOUT_MS`; the connection is closed.
    """
    max_response_bytes, peer.max_response_bytes = peer.max_response_bytes, MAX_ANSWER_BYTES
    try:
        await _ask(peer, ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, SaslHandshakeRequest(mechanism=mechanism))
        login.verify(await _token(peer, login.final(await _token(peer, login.first()))))
    except AuthenticationFailed as error:
        peer.close()
        raise ConnectionError(f"what answers does not have the cluster's secret: {error}") from None
    except BaseException:  # cancelled, too: its caller has no connection yet that it could close
        peer.close()
        raise
    peer.max_response_bytes = max_response_bytes


async def _token(peer: PeerConnection, token: bytes) -> bytes:
    request = SaslAuthenticateRequest(auth_bytes=token)
    return bytes((await _ask(peer, ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, request)).auth_bytes)


async def _ask(peer: PeerConnection, key: ApiKey, version: int, request: Any) -> Any:
    response = await peer.request(key, version, request, timeout_ms=TIMEOUT_MS)
    if response.error_code == ErrorCode.NONE:
        return response
    why = ErrorCode(response.error_code).name
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        why += ": it is of a version before or after this one; run the same version everywhere"
    raise ConnectionError(f"another broker refuses this one: {why}")
