"""A broker's authentication at another broker, before it sends anything else."""

from __future__ import annotations

from typing import Final

from purgatorio.broker.server.peer import PeerConnection
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from purgatorio.protocol.messages.sasl_handshake import SaslHandshakeRequest

TIMEOUT_MS: Final = 10_000
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2


async def log_in(peer: PeerConnection, mechanism: str, token: bytes) -> None:
    """Authenticate by a mechanism that has one token.

    Raises:
        ConnectionError: the other broker refuses, or the connection was lost; it is closed.
        TimeoutError: no answer within `TIMEOUT_MS`; the connection is closed.
    """
    for key, version, request in (
        (ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, SaslHandshakeRequest(mechanism=mechanism)),
        (ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, SaslAuthenticateRequest(auth_bytes=token)),
    ):
        response = await peer.request(key, version, request, timeout_ms=TIMEOUT_MS)
        if response.error_code != ErrorCode.NONE:
            peer.close()
            raise ConnectionError(f"another broker refuses this one: {ErrorCode(response.error_code).name}")
