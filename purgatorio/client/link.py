"""A connection to one broker, a link: a request after its size, then its response, in the same order."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from purgatorio.protocol.api import decode_response, encode_request
from purgatorio.protocol.errors import FrameTooLarge
from purgatorio.purgatory.clock import Clock, time_limit

if TYPE_CHECKING:
    import ssl

L = TypeVar("L", bound="StreamLink")
Address = tuple[str, int]
"""Host and port."""
SIZE_BYTES: Final = 4
MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024
"""The longest response that is read; what announces a longer one speaks another protocol."""


class Link(Protocol):
    """A connection to a broker."""

    @property
    def closed(self) -> bool:
        """Whether the connection has ended, so that no request can be sent."""
        ...

    async def request(self, api_key: int, api_version: int, message: Any, *, timeout_ms: int) -> Any:
        """Send a request and wait for its response.

        Raises:
            OSError: the connection was lost, or there was no answer in time (TimeoutError).
            ProtocolError: the request cannot be encoded, or the response cannot be decoded.
        """
        ...

    def close(self) -> None:
        """Close the connection; may be called again."""
        ...


class StreamLink:
    """A link over asyncio's streams, for one request at a time. After a request that fails it is closed."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clock: Clock, client_id: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._client_id = client_id
        self._correlation_ids = itertools.count(1)

    @classmethod
    async def open(
        cls: type[L], clock: Clock, client_id: str, address: Address, *, tls: ssl.SSLContext | None = None
    ) -> L:
        """Connect to a broker; raises OSError."""
        return cls(*await asyncio.open_connection(*address, ssl=tls), clock, client_id)

    @property
    def closed(self) -> bool:
        return self._writer.is_closing()

    async def request(self, api_key: int, api_version: int, message: Any, *, timeout_ms: int) -> Any:
        correlation_id = next(self._correlation_ids)
        self._writer.writelines(encode_request(api_key, api_version, correlation_id, self._client_id, message))
        try:
            async with time_limit(self._clock, timeout_ms):
                size_bytes = int.from_bytes(await self._reader.readexactly(SIZE_BYTES))
                if size_bytes > MAX_RESPONSE_BYTES:
                    raise FrameTooLarge(size_bytes, MAX_RESPONSE_BYTES)
                frame = await self._reader.readexactly(size_bytes)
        except BaseException as error:
            self.close()  # the response of this request may still come, and would be taken for that of the next one
            if isinstance(error, asyncio.IncompleteReadError):
                raise ConnectionResetError("the broker closed the connection") from error
            raise
        answered_id, response = decode_response(api_key, api_version, frame)
        assert answered_id == correlation_id, "responses come in the order of the requests"
        return response

    async def post(self, api_key: int, api_version: int, message: Any) -> None:
        """Send a request that has no response; raises OSError."""
        self._writer.writelines(
            encode_request(api_key, api_version, next(self._correlation_ids), self._client_id, message)
        )
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()
