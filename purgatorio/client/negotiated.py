"""A link to a broker of any release: it asks for the broker's versions first, and logs in if it has to (KIP-35)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from purgatorio.client.client import Refused
from purgatorio.client.link import Address, StreamLink
from purgatorio.protocol.api import APIS, ApiKey
from purgatorio.protocol.errors import ErrorCode, ProtocolError
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from purgatorio.purgatory.clock import Clock, time_limit

if TYPE_CHECKING:
    import ssl

NAME: Final = "purgatorio"
"""The client's name for itself (KIP-511)."""
FIRST_VERSION: Final = 3
"""The version of the first question: brokers that do not know it name those that they know."""
Login = Callable[["NegotiatedLink"], Awaitable[None]]
"""Logs the client in at a broker before its first request; raises Unavailable if the broker refuses."""


class NotServed(Refused):
    """The broker is of a release that does not serve an API, or none of its versions that are known here."""

    def __init__(self, api_key: int) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION)
        self.args = (f"UNSUPPORTED_VERSION: the broker does not serve {ApiKey(api_key).name.lower()} as needed here",)


class NegotiatedLink(StreamLink):
    """A link that sends a request in the newest version that the broker knows, up to the one that it is given.

    Messages of this package are for all versions: a request has what any of them needs, and the reader of a response
    knows where each has it.

    Attributes:
        served: the lowest and the highest version of each API that the broker serves.
    """

    served: Mapping[int, tuple[int, int]] = {}

    @classmethod
    async def connect(
        cls,
        clock: Clock,
        client_id: str,
        address: Address,
        *,
        timeout_ms: int,
        version: str = "0",
        tls: ssl.SSLContext | None = None,
        login: Login | None = None,
    ) -> NegotiatedLink:
        """Connect to a broker, ask for its versions, and log in; `version` is that of this program.

        Raises:
            OSError: it cannot be reached, or what listens there is no such broker; the message is for people.
            Unavailable: it refuses the login.
        """
        try:
            async with time_limit(clock, timeout_ms):
                link = await cls.open(clock, client_id, address, tls=tls)
        except OSError as error:
            raise ConnectionError(_why(error, timeout_ms)) from error
        with contextlib.ExitStack() as stack:
            stack.callback(link.close)
            try:
                await link._negotiate(version, timeout_ms)
            except (OSError, ProtocolError, AssertionError) as error:
                hint = "" if tls else "; it may want TLS, or speak another protocol"
                raise ConnectionError(f"does not answer as a broker of Kafka{hint}") from error
            if login is not None:
                await login(link)
            stack.pop_all()
        return link

    async def _negotiate(self, version: str, timeout_ms: int) -> None:
        request = ApiVersionsRequest(client_software_name=NAME, client_software_version=version)
        key = ApiKey.API_VERSIONS
        answer = await super().request(key, FIRST_VERSION, request, timeout_ms=timeout_ms)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = await super().request(key, 0, request, timeout_ms=timeout_ms)
        self.served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def version_of(self, api_key: int, newest: int) -> int:
        """Return the newest version of an API that both ends know, up to `newest`.

        Raises:
            NotServed: there is none.
        """
        lowest, highest = self.served.get(api_key, (0, -1))
        version = min(newest, highest)
        if version < lowest or version not in APIS[api_key].versions:
            raise NotServed(api_key)
        return version

    async def request(self, api_key: int, api_version: int, message: Any, *, timeout_ms: int) -> Any:
        return await super().request(api_key, self.version_of(api_key, api_version), message, timeout_ms=timeout_ms)

    def close(self) -> None:
        self._writer.transport.abort()  # at once, under TLS too: after a response nothing is left to send

    async def send(self, api_key: int, api_version: int, message: Any) -> None:
        """Send a request that has no response, as Produce with acks=0; raises as `request`."""
        await self.post(api_key, self.version_of(api_key, api_version), message)


def _why(error: OSError, timeout_ms: int) -> str:
    """Return why a broker cannot be reached."""
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "no server listens there"
    if isinstance(error, TimeoutError):
        return f"no connection within {timeout_ms / 1000:g} s"
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    if verified := getattr(error, "verify_message", ""):  # of ssl.SSLCertVerificationError
        return f"its certificate is not to be trusted: {verified}"
    if getattr(error, "library", "") == "SSL":
        return "it does not speak TLS as this client does"
    return error.strerror or str(error) or "the connection was closed"
