"""Asks a running cluster's admin HTTP; needs the standard library only, so that a command starts at once."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import urlsplit

TIMEOUT_SECONDS: Final = 15.0
"""How long an answer may take: a broker that was killed registers again only when its session is over (1 s)."""
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024


class AdminError(Exception):
    """It could not be done; the message is a sentence for the user."""


class AdminUrlError(AdminError):
    """The address cannot be one of an admin HTTP."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Purgatorio never redirects, so whoever does is somebody else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Take the redirect as the answer."""


class AdminClient:
    """The admin HTTP of one cluster.

    Args:
        url: such as ``http://127.0.0.1:9644``.

    Raises:
        AdminUrlError: the URL is none, or not of HTTP.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or any(not char.isprintable() or char == " " for char in url):
            raise AdminUrlError(f"{_printable(url)!r} is not an address like http://127.0.0.1:9644")
        # No proxy: the brokers answer to addresses and to names of this machine (see broker.web.guard).
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())

    def get(self, path: str) -> dict[str, Any]:
        """What is at an address below ``/api/v1/``.

        Raises:
            AdminError: there is no such answer.
        """
        return self._ask(urllib.request.Request(f"{self.url}/api/v1/{path}"), TIMEOUT_SECONDS)

    def post(
        self, path: str, body: dict[str, Any] | None = None, *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> dict[str, Any]:
        """Change something; returns the answer.

        Raises:
            AdminError: it was refused, or there is no answer: then it may have been done nevertheless.
        """
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}",
            data=json.dumps(body or {}).encode(),
            headers={"Content-Type": "application/json"},
            method="POST",
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
            raise AdminError(f"whoever answers at {self.url} does not speak HTTP as Purgatorio does") from error
        answer = _parse(content)
        if answer is None or (status != 200 and not isinstance(answer.get("error"), str)):
            raise AdminError(f"whoever answers at {self.url} is not Purgatorio (status {status})")
        if status != 200:
            raise AdminError(_printable(answer["error"]))
        return answer

    def _exchange(self, request: urllib.request.Request, timeout_seconds: float) -> tuple[int, bytes]:
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
                f"nobody listens at {self.url}: is a cluster running? "
                "--admin or PURGATORIO_ADMIN says where its admin HTTP is"
            )
        if isinstance(reason, ConnectionError):
            return f"{self.url} hung up without an answer"
        number = reason.errno or 0 if isinstance(reason, OSError) else 0
        told = os.strerror(number) if number > 0 else str(reason)  # below 0: a failed look-up of a name
        return f"cannot reach {self.url}: {_printable(told).lower()}"


def _parse(content: bytes) -> dict[str, Any] | None:
    """A JSON object; None if it is none."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _printable(text: str) -> str:
    """Text that does nothing to a terminal, whoever sent it."""
    return "".join(char if char.isprintable() else "?" for char in text)
