"""Decodes requests and calls their handlers: everything about a request that does not depend on the connection."""

# compiled: docs/compiled.md

from __future__ import annotations

from typing import Any

from purgatorio.broker.routing.request import RequestContext, Route, Routes, Session, api_versions_response
from purgatorio.broker.server.exchange import Exchange
from purgatorio.broker.server.limits import Refusal
from purgatorio.logger import get_logger
from purgatorio.protocol.api import ApiKey, RequestHeader, decode_request, decode_request_header
from purgatorio.protocol.errors import DecodeError, ErrorCode
from purgatorio.protocol.primitives import Buffer

_log = get_logger(__name__)


def api_name(api_key: int) -> str:
    """The name of an API in Kafka's protocol, or its number if it has none."""
    try:
        return ApiKey(api_key).name
    except ValueError:
        return str(api_key)


class Dispatcher:
    """Decodes requests and calls their handlers.

    Args:
        routes: the APIs that are answered.
    """

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    def dispatch(self, frame: Buffer, exchange: Exchange, session: Session, received_ms: int) -> None:
        """Start a request. Its answer or its refusal goes to `exchange`, now or later. Never raises."""
        try:
            header, position = decode_request_header(frame)
            exchange.api_key = header.api_key
            exchange.api_version = header.api_version
            exchange.correlation_id = header.correlation_id
            session.client_id = header.client_id
            route = self._routes.find(header.api_key)
            if (
                route is None
                or not route.min_version <= header.api_version <= route.max_version
                or header.api_version < route.min_answered_version
            ):
                self._unsupported(route, header, exchange)
                return
            request = decode_request(header, frame, position)
        except DecodeError as error:
            exchange.refuse(Refusal.UNDECODABLE_REQUEST, f"{type(error).__name__}: {error}")
            return
        except Exception:  # a bug in a codec costs the connection that met it, and no other
            _log.exception("decoder failed", peer=session.peer, api=api_name(exchange.api_key))
            exchange.refuse(Refusal.INTERNAL_ERROR, "the decoder failed")
            return
        context = RequestContext(
            session, header.client_id, header.api_key, header.api_version, received_ms, exchange.request_bytes
        )
        try:
            route.handler(context, request, exchange)
        except Exception:  # a bug in a handler costs the request that met it, and no other
            _log.exception(
                "handler failed", peer=session.peer, api=api_name(header.api_key), version=header.api_version
            )
            _answer_failed(route, request, exchange)

    def error_response(self, header: RequestHeader, request: Any, error_code: ErrorCode) -> Any | None:
        """Return the response of an API to a request that failed as a whole; None closes the connection."""
        route = self._routes.find(header.api_key)
        return None if route is None else route.error_response(request, error_code)

    def _unsupported(self, route: Route | None, header: RequestHeader, exchange: Exchange) -> None:
        """Refuse a request of an unknown API or version: a response can be encoded for ApiVersions only.

        Clients begin with the newest ApiVersions request that they know. The response is of version 0, which all can
        read, and lists the versions to use instead (KIP-511).
        """
        if route is None:
            exchange.refuse(Refusal.UNSUPPORTED_API, f"API {api_name(header.api_key)} is not answered")
        elif header.api_key == ApiKey.API_VERSIONS:
            exchange.api_version = 0
            exchange(api_versions_response(self._routes.versions, ErrorCode.UNSUPPORTED_VERSION))
        else:
            answered = f"{max(route.min_version, route.min_answered_version)} to {route.max_version}"
            asked = f"{api_name(header.api_key)} version {header.api_version}"
            exchange.refuse(Refusal.UNSUPPORTED_VERSION, f"{asked} is not answered, only {answered}")


def _answer_failed(route: Route, request: Any, exchange: Exchange) -> None:
    if exchange.is_answered:
        return
    try:
        response = route.error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    except Exception:  # a bug while answering for a bug is logged, and closes the connection
        _log.exception("error response failed", api=api_name(exchange.api_key))
        response = None
    if response is None:
        exchange.refuse(Refusal.INTERNAL_ERROR, "the handler failed")
    else:
        exchange(response)
