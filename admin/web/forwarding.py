"""Forwards an admin request to another process."""

from __future__ import annotations

import json
from typing import Final, NamedTuple
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message

HEADERS_PASSED_ON: Final = ("accept", "content-type", "host", "origin")
"""The headers that an application reads, its guards apart."""


READ_LIMIT_MS: Final = 1_000
"""How long another process may take to answer a read."""
RECORDS_LIMIT_MS: Final = 15_000
"""How long it may take to read records: it may wait for followers and end markers, and there may be many."""
CHANGE_LIMIT_MS: Final = 120_000
"""How long it may take to answer a change: some wait for replicas, or let time pass."""


class Unreachable(Exception):
    """The other process does not answer; the message says why.

    Args:
        was_asked: whether the request was sent, and may have been done.
    """

    def __init__(self, why: str, *, was_asked: bool = False) -> None:
        super().__init__(why)
        self.was_asked = was_asked


class ForwardedRequest(NamedTuple):
    """A request, in types that JSON has.

    Attributes:
        target: path and query.
        headers: those of `HEADERS_PASSED_ON` that it has, names in lower case.
    """

    method: str
    target: str
    headers: dict[str, str]
    body: str = ""

    @property
    def limit_ms(self) -> int:
        """How long the answer may take."""
        if self.method != "GET":
            return CHANGE_LIMIT_MS
        return RECORDS_LIMIT_MS if self.target.partition("?")[0].endswith("/records") else READ_LIMIT_MS

    @classmethod
    def of(cls, request: Request, body: bytes = b"") -> ForwardedRequest:
        """Return a request that came over HTTP."""
        headers = {name: request.headers[name] for name in HEADERS_PASSED_ON if name in request.headers}
        path = request.scope.get("raw_path", b"").decode("latin-1") or request.url.path
        target = path.partition("?")[0] + (f"?{request.url.query}" if request.url.query else "")
        return cls(request.method, target, headers, body.decode(errors="replace"))


class ForwardedAnswer(NamedTuple):
    """The answer to such a request."""

    status: int
    media_type: str
    body: str

    @property
    def refusal(self) -> str:
        """The kind of a refusal that says whether it may be asked again; "" if it says nothing."""
        if self.status != 503:
            return ""
        try:
            refused = json.loads(self.body)
        except ValueError:
            return ""
        return str(refused.get("refusal", "")) if isinstance(refused, dict) else ""


async def ask(app: ASGIApp, asked: ForwardedRequest) -> ForwardedAnswer:
    """Run an application on a request, and return its answer."""
    path, _, query = asked.target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in asked.headers.items()],
    }
    start: Message = {}
    body = bytearray()

    async def receive() -> Message:
        return {"type": "http.request", "body": asked.body.encode(), "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            body.extend(message.get("body", b""))

    await app(scope, receive, send)
    headers = Headers(raw=start["headers"])
    return ForwardedAnswer(start["status"], headers.get("content-type", ""), body.decode())
