"""SaslHandshake, key 17, versions 0 and 1: choose a SASL mechanism (KIP-43).

After version 0 the mechanism's tokens follow without request headers; after version 1 in SaslAuthenticate (KIP-152).
No version is flexible, since clients may send this before they know the broker's versions (KAFKA-9577).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.message import LATEST, STRING, Api, Message, array, int16, string, wire_struct


@wire_struct
class SaslHandshakeRequest(Message):
    """Asks to authenticate by a mechanism."""

    mechanism: str = string()


@wire_struct
class SaslHandshakeResponse(Message):
    """Reports whether the listener has this mechanism enabled, and lists those that it has."""

    error_code: int = int16()
    mechanisms: list[str] = array(STRING)


API = Api(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest, SaslHandshakeResponse, versions=range(2), flexible_from=LATEST)
