"""SaslAuthenticate (key 36): carry a token of a SASL mechanism. Versions 0–2 (KIP-152, KIP-368).

As SaslHandshake, it is answered by connections of SASL listeners; here come those that have no place.
"""

from __future__ import annotations

from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import anyone
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(ctx: RequestContext, request: SaslAuthenticateRequest, reply: Reply) -> None:
    """Refuse: no SaslHandshake came before it."""
    reply(error_response(request, ErrorCode.ILLEGAL_SASL_STATE))


def error_response(request: SaslAuthenticateRequest, error_code: ErrorCode) -> SaslAuthenticateResponse:
    """Return the response with `error_code`."""
    return SaslAuthenticateResponse(error_code=error_code, error_message="No SaslHandshake has come before.")


API: Final = ApiHandler(
    key=ApiKey.SASL_AUTHENTICATE,
    min_version=0,
    max_version=2,
    needs=anyone,
    bind=lambda services: handle,
    error_response=error_response,
)
