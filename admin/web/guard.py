"""Checks the host of every request and the origin of those that change something; adds headers to every response.

The admin HTTP has no users: it listens on this machine, and every program on it may use it. So may a page of another
site that is open in a browser on this machine; therefore requests that change something are checked:

* ``Origin``, which browsers send with every cross-site POST, must be the host of the request.
* ``Content-Type`` must be JSON, which a form cannot send, and a script of another site only after a CORS preflight.
* ``Host`` must be an address, localhost, or the configured host: under another name that was made to resolve to this
  machine (DNS rebinding) the other site's origin and the host of the request would be equal.

A page under such a name could also read; so other requests have their ``Host`` checked too, less strictly: a name
without a dot is allowed, since Prometheus asks `purgatorio:9644` in a network of containers, and no other site has such
a name. A missing host is allowed as well: no browser leaves it out.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from purgatorio.admin.operations.declare import MAX_BODY_BYTES
from purgatorio.purgatory.clock import Clock, time_limit

BODY_TIMEOUT_MS: Final = 5_000
MAX_SHOWN_HOST_CHARS: Final = 100

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class SecurityHeaders:
    """Adds `SECURITY_HEADERS` to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class HostGuard:
    """Refuses requests that are addressed to a name which another site may have."""

    def __init__(self, app: ASGIApp, allowed_host: str) -> None:
        self._app = app
        self._allowed_host = allowed_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        authority = Headers(scope=scope).get("host", "").lower()
        host = _split(f"//{authority}")[1]
        if authority and not (_is_own(host, self._allowed_host) or (host and "." not in host)):
            await JSONResponse({"error": _not_this_host(host)}, 403)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_own(host: str, allowed_host: str) -> bool:
    return _is_address(host) or host in ("localhost", allowed_host.lower())


def _not_this_host(host: str) -> str:
    return f"this server does not answer to the host name {host[:MAX_SHOWN_HOST_CHARS]!r}"


def check_may_change(headers: Headers, allowed_host: str) -> None:
    """Check a request that changes something.

    Args:
        allowed_host: the configured host, allowed beside addresses and localhost.

    Raises:
        HTTPException: 403 for another site's request or an unknown host, 415 for a body that is not JSON.
    """
    authority = headers.get("host", "").lower()
    host = _split(f"//{authority}")[1]
    if not _is_own(host, allowed_host):
        raise HTTPException(403, _not_this_host(host))
    origin = headers.get("origin")
    if origin is not None and _split(origin.lower())[0] != authority:
        raise HTTPException(403, "this is a request from another site")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the content type must be application/json")


def _split(url: str) -> tuple[str, str]:
    """Return the authority (host and port) of a URL, and its host alone; both empty if it is not a URL."""
    try:
        parts = urlsplit(url)
        return parts.netloc, parts.hostname or ""
    except ValueError:
        return "", ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def read_body(request: Request, clock: Clock, limit_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the body of a request.

    Raises:
        HTTPException: 413 when it is larger than `limit_bytes`, 408 when it does not come in time, 400 when the
            connection is lost.
    """
    too_large = HTTPException(413, f"the body is larger than {limit_bytes} bytes")
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit_bytes:
        raise too_large
    body = bytearray()
    try:
        async with time_limit(clock, BODY_TIMEOUT_MS):
            async for part in request.stream():
                body += part
                if len(body) > limit_bytes:
                    raise too_large
    except ClientDisconnect:
        raise HTTPException(400, "the body ended too early") from None  # no client reads it, but a bug would be logged
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {BODY_TIMEOUT_MS / 1000:g} s") from None
    return bytes(body)
