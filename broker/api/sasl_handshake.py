"""SaslHandshake (key 17): choose a SASL mechanism. Versions 0–1 (KIP-43).

Connections of SASL listeners answer it themselves while clients authenticate, and again when their sessions have a
lifetime; see `purgatorio.broker.server.sasl_gate`. Here come those that have no place.
"""

from __future__ import annotations

from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import anyone
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(ctx: RequestContext, request: SaslHandshakeRequest, reply: Reply) -> None:
    """Refuse: the listener has no SASL, or the client's session lasts as long as the connection."""
    reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


API: Final = ApiHandler(
    key=ApiKey.SASL_HANDSHAKE,
    min_version=0,
    max_version=1,
    needs=anyone,
    bind=lambda services: handle,
)
