"""Requests to etcd over its JSON gateway (`/v3/…`), which every member answers beside gRPC.

A request goes to the member that answered last, and to the next one if it does not answer. A member that has no leader,
or that cannot reach it, counts as one that does not answer.
"""

from __future__ import annotations

import contextlib
import json
import ssl
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

import httpx

from purgatorio.broker.metadata.etcd.address import EtcdAddress
from purgatorio.broker.metadata.etcd.requests import EtcdRefused, EtcdUnreachable

CONNECT_LIMIT_SECONDS: Final = 1.0
ANSWER_LIMIT_SECONDS: Final = 3.0
"""How long a member may take; etcd itself gives up a request without a leader after 5 s or more."""
_IN_TROUBLE: Final = frozenset({2, 4, 14})
"""gRPC's UNKNOWN, DEADLINE_EXCEEDED, UNAVAILABLE: another member, or the same one later, may answer."""
_UNAUTHENTICATED: Final = 16


class EtcdGateway:
    """A client of one etcd cluster.

    Raises:
        ValueError: the file of the address with certificates cannot be used.
    """

    def __init__(self, address: EtcdAddress) -> None:
        self._address = address
        self._endpoints = deque(address.endpoints)
        self._token: str | None = None
        verify: ssl.SSLContext | bool = True
        if address.endpoints[0].startswith("https:"):
            try:
                verify = ssl.create_default_context(cafile=address.ca_file)
            except OSError as error:  # ssl.SSLError is one
                raise ValueError(f"the certificates in {address.ca_file} cannot be used: {error}") from None
        timeout = httpx.Timeout(ANSWER_LIMIT_SECONDS, connect=CONNECT_LIMIT_SECONDS)
        # No settings from the environment: a proxy is none of a broker's ways to its store.
        self._client = httpx.AsyncClient(verify=verify, timeout=timeout, trust_env=False)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def call(
        self, path: str, body: dict[str, Any], limit_seconds: float = ANSWER_LIMIT_SECONDS
    ) -> dict[str, Any]:
        """Return the answer to a request.

        Args:
            limit_seconds: how long one member may take.

        Raises:
            EtcdUnreachable: no member answers.
            EtcdRefused: etcd refuses it.
        """
        reasons = []
        for _ in range(len(self._endpoints)):
            endpoint = self._endpoints[0]
            try:
                return await self._call(endpoint, path, body, limit_seconds)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                reasons.append(f"{endpoint}: {error or type(error).__name__}")
            except EtcdRefused as error:
                if error.code not in _IN_TROUBLE:
                    raise
                reasons.append(f"{endpoint}: {error}")
            self._endpoints.rotate(-1)
        raise EtcdUnreachable("; ".join(reasons))

    async def watch(self, create: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the messages of a watch, until it ends or is broken.

        Raises:
            EtcdUnreachable: the connection is broken.
            EtcdRefused: etcd refuses the watch.
        """
        endpoint = self._endpoints[0]
        try:
            headers = await self._headers(endpoint)
            body = {"create_request": create}
            timeout = httpx.Timeout(ANSWER_LIMIT_SECONDS, connect=CONNECT_LIMIT_SECONDS, read=None)
            url = f"{endpoint}/v3/watch"
            async with self._client.stream("POST", url, json=body, headers=headers, timeout=timeout) as response:
                async for line in response.aiter_lines():
                    yield _checked(json.loads(line))["result"]
        except httpx.HTTPError as error:
            self._endpoints.rotate(-1)
            raise EtcdUnreachable(f"{endpoint}: {error or type(error).__name__}") from error

    async def _call(self, endpoint: str, path: str, body: dict[str, Any], limit_seconds: float) -> dict[str, Any]:
        for _ in range(2):
            headers = await self._headers(endpoint)
            timeout = httpx.Timeout(limit_seconds, connect=min(limit_seconds, CONNECT_LIMIT_SECONDS))
            url = f"{endpoint}/v3/{path}"
            response = await self._client.post(url, json=body, headers=headers, timeout=timeout)
            try:
                return _checked(_json(response))
            except EtcdRefused as error:
                if error.code != _UNAUTHENTICATED or self._token is None:
                    raise
                self._token = None  # it has expired, or this member was restarted
        raise EtcdRefused("etcd does not take the token that it has just given", _UNAUTHENTICATED)

    async def _headers(self, endpoint: str) -> dict[str, str]:
        if self._address.user is None:
            return {}
        if self._token is None:
            login = {"name": self._address.user, "password": self._address.password}
            response = await self._client.post(f"{endpoint}/v3/auth/authenticate", json=login)
            self._token = _checked(_json(response))["token"]
        return {"Authorization": self._token or ""}


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        text = response.text[:80]
        raise EtcdRefused(f"{response.url} does not answer as etcd does, but: {text!r}", 2) from None


def _checked(answer: Any) -> dict[str, Any]:
    """Return an answer that is no error."""
    if not isinstance(answer, dict):
        raise EtcdRefused(f"etcd's answer is no object: {json.dumps(answer)[:80]}", 2)
    error = answer.get("error")
    if error is None:
        return answer
    if isinstance(error, dict):  # within a stream
        raise EtcdRefused(str(error.get("message")), int(error.get("grpc_code") or error.get("code") or 2))
    raise EtcdRefused(str(answer.get("message", error)), int(answer.get("code", 2)))


@contextlib.asynccontextmanager
async def gateway(address: EtcdAddress) -> AsyncIterator[EtcdGateway]:
    """A gateway that is closed at the end."""
    client = EtcdGateway(address)
    try:
        yield client
    finally:
        await client.close()
