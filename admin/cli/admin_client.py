"""A client of a running cluster's admin HTTP. It uses the standard library only, so that a command starts at once."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from purgatorio.admin.cli.printable import printable

TIMEOUT_SECONDS: Final = 15.0
"""Time limit of an answer. A broker that was killed can register again only after its session timeout."""
SHARED_SECONDS: Final = 10
"""The greatest age of an answer that was made for others."""
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024


class AdminError(Exception):
    """The request failed; the message is a sentence for the user."""


class AdminUrlError(AdminError):
    """The URL cannot be the address of an admin HTTP."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: Purgatorio sends none, so another server answers."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return the redirect itself as the answer."""


class AdminClient:
    """The admin HTTP of one cluster.

    Args:
        url: such as ``http://127.0.0.1:9644``; it may have a token, as ``/?token=…``.
        token: what requests need; that of the URL wins.

    Raises:
        AdminUrlError: this is not a URL of HTTP.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url, _, query = url.partition("?")
        self.url = self.url.rstrip("/")
        self._token = parse_qs(query).get("token", [token])[0]
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or any(not char.isprintable() or char == " " for char in url):
            raise AdminUrlError(f"{printable(url)!r} is not an address like http://127.0.0.1:9644")
        # No proxy: the brokers answer to addresses and to names of this machine (see admin.web.guard).
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())

    def get(self, path: str, *, shared: bool = False, timeout_seconds: float | None = None) -> dict[str, Any]:
        """The answer to GET at a path below ``/api/v1/``.

        Args:
            shared: an answer will do that was made for a page, which may be some tenths of a second old.
            timeout_seconds: how long to wait; `TIMEOUT_SECONDS` if it is not given.

        Raises:
            AdminError: the cluster refused, or did not answer.
        """
        headers = {"Cache-Control": f"max-age={SHARED_SECONDS}"} if shared else {}
        return self._ask(
            urllib.request.Request(f"{self.url}/api/v1/{path}", headers=headers), timeout_seconds or TIMEOUT_SECONDS
        )

    def post(
        self,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        method: str = "POST",
    ) -> dict[str, Any]:
        """The answer to POST, or DELETE, at a path below ``/api/v1/``, which changes something.

        Raises:
            AdminError: the cluster refused, or did not answer; in the latter case it may have made the change.
        """
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}",
            data=json.dumps(body or {}).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        return self._ask(request, timeout_seconds)

    def _ask(self, request: urllib.request.Request, timeout_seconds: float) -> dict[str, Any]:
        try:
            status, content = self._exchange(request, timeout_seconds)
        except urllib.error.URLError as error:
            raise AdminError(self._unreachable(error.reason, timeout_seconds)) from error
        except OSError as error:
            raise AdminError(self._unreachable(error, timeout_seconds)) from error
        except http.client.HTTPException as error:
            raise AdminError(f"the server at {self.url} does not speak HTTP as Purgatorio does") from error
        answer = _parse(content)
        if answer is None or (status != 200 and not isinstance(answer.get("error"), str)):
            raise AdminError(f"the server at {self.url} is not Purgatorio (status {status})")
        if status != 200:
            raise AdminError(printable(answer["error"]))
        return answer

    def _exchange(self, request: urllib.request.Request, timeout_seconds: float) -> tuple[int, bytes]:
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=timeout_seconds) as response:
                return response.status, response.read(MAX_ANSWER_BYTES)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read(MAX_ANSWER_BYTES)

    def _unreachable(self, reason: object, timeout_seconds: float) -> str:
        if isinstance(reason, TimeoutError):
            return f"no answer from {self.url} within {timeout_seconds:g} s"
        if isinstance(reason, ConnectionRefusedError):
            return (
                f"no server listens at {self.url}: is a cluster running? "
                "Give the address of its admin HTTP by --admin or PURGATORIO_ADMIN"
            )
        if isinstance(reason, ConnectionError):
            return f"{self.url} closed the connection without an answer"
        number = reason.errno or 0 if isinstance(reason, OSError) else 0
        told = os.strerror(number) if number > 0 else str(reason)  # below 0: a failed look-up of a name
        return f"cannot reach {self.url}: {printable(told).lower()}"


def _parse(content: bytes) -> dict[str, Any] | None:
    """The JSON object, or None if the content is not one."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
