"""Asks every request for a token, if the admin HTTP has one: it must have one beyond this machine.

A program sends ``Authorization: Bearer …``. A browser opens the page once with ``?token=…`` and gets a cookie for it,
so that the token is in no later address. Health checks need none: they return only whether the brokers run.

The token that may only read is for monitoring: Prometheus, and people who watch the page.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from purgatorio.late import dataclass

FREE_PATHS: Final = ("/healthz", "/readyz")
READING: Final = ("GET", "HEAD")
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="purgatorio"'}


@dataclass(frozen=True, slots=True, repr=False)
class AdminTokens:
    """The tokens of an admin HTTP.

    Attributes:
        full: may do everything.
        read: may only read; None: there is no such token.
    """

    full: str
    read: str | None = None


class TokenGuard:
    """Passes requests on that have a token for what they do."""

    def __init__(self, app: ASGIApp, tokens: AdminTokens) -> None:
        self._app = app
        self._full = tokens.full.encode()
        self._read = tokens.read.encode() if tokens.read is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        answer = self._refusal(scope) if scope["type"] == "http" and scope["path"] not in FREE_PATHS else None
        await (answer or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that is not passed on; None if it is."""
        headers = Headers(scope=scope)
        in_address = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if in_address and scope["path"] == "/" and self._may_read(in_address):
            return _with_cookie(in_address, headers)
        given = _given(headers)
        if hmac.compare_digest(given.encode(), self._full):
            return None
        if not self._may_read(given):
            why = "this token is not valid" if given else "this needs a token: the address with ?token=… has it"
            return JSONResponse({"error": f"{why}; programs send Authorization: Bearer …"}, 401, _CHALLENGE)
        if scope["method"] in READING:
            return None
        return JSONResponse({"error": "this token may only read"}, 403)

    def _may_read(self, token: str) -> bool:
        given = token.encode()
        is_full = hmac.compare_digest(given, self._full)
        return is_full or (self._read is not None and hmac.compare_digest(given, self._read))


def _given(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(_cookie_name(headers))
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value


def _with_cookie(token: str, headers: Headers) -> Response:
    response = RedirectResponse("/", 303, {"Cache-Control": "no-store"})
    response.set_cookie(_cookie_name(headers), token, httponly=True, samesite="strict", path="/")
    return response


def _cookie_name(headers: Headers) -> str:
    """Return a name for the cookie that has the port: browsers share cookies among all ports of a host."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"purgatorio_token_{port}" if port.isdecimal() else "purgatorio_token"
