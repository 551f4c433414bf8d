"""SaslAuthenticate, key 36, versions 0 to 2: carry a token of a SASL mechanism (KIP-152).

Version 1 adds session_lifetime_ms (KIP-368); 2 is the first flexible one.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.message import Api, Message, binary, int16, int64, nullable_string, wire_struct
from purgatorio.protocol.primitives import Buffer


@wire_struct
class SaslAuthenticateRequest(Message):
    """Gives the broker a token; what it means depends on the mechanism."""

    auth_bytes: Buffer = binary()


@wire_struct
class SaslAuthenticateResponse(Message):
    """Gives the client a token; in the last answer, how long the session lives (0: as long as the connection)."""

    error_code: int = int16()
    error_message: str | None = nullable_string()
    auth_bytes: Buffer = binary()
    session_lifetime_ms: int = int64(since=1)


API = Api(
    ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest, SaslAuthenticateResponse, versions=range(3), flexible_from=2
)
