"""A link over a blocking socket, for programs without an event loop, and requests as ready frames for it."""

from __future__ import annotations

import socket
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from purgatorio.client.client import KEYS, VERSIONS
from purgatorio.client.link import SIZE_BYTES, Address
from purgatorio.protocol.api import ApiKey, decode_response, encode_request
from purgatorio.protocol.message import Message

TIMEOUT_SECONDS: Final = 30
T = TypeVar("T")


class Wire:
    """One connection, and a link of a client; `frame` builds requests, `exchange` sends one and reads its response."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.closed = False

    @classmethod
    async def open(cls, address: Address) -> Wire:
        """Connect to a broker; it blocks."""
        return cls(address)

    def exchange(self, frame: bytes) -> bytes:
        """Send a request, and return the response without its size; without one the connection is closed."""
        try:
            self.socket.sendall(frame)
            return self.receive()
        except OSError:
            self.close()  # a late response would be taken for that of the next request
            raise

    def receive(self) -> bytes:
        """Read one response, without its size."""
        return self._exactly(int.from_bytes(self._exactly(SIZE_BYTES)))

    def _exactly(self, size_bytes: int) -> bytes:
        data = self.socket.recv(size_bytes, socket.MSG_WAITALL)
        while len(data) < size_bytes:  # a socket with a timeout does not wait for all
            rest = self.socket.recv(size_bytes - len(data), socket.MSG_WAITALL)
            if not rest:
                raise ConnectionResetError("the broker closed the connection")
            data += rest
        return data

    def ask(self, message: Message, version: int | None = None) -> Any:
        """Send a message, and return the response."""
        return decoded(KEYS[type(message)], self.exchange(frame(message, version)), version)

    async def request(self, api_key: int, api_version: int, message: Any, *, timeout_ms: int) -> Any:
        """Send a message, and return the response; it blocks."""
        return self.ask(message, api_version)

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
        self.socket.close()


def frame(message: Message, version: int | None = None, client_id: str = "wire") -> bytes:
    """Encode a request, with its size in front."""
    key = KEYS[type(message)]
    return b"".join(encode_request(key, VERSIONS[key] if version is None else version, 1, client_id, message))


def decoded(api_key: ApiKey, response: bytes, version: int | None = None) -> Any:
    """Decode a response, without its size."""
    return decode_response(api_key, VERSIONS[api_key] if version is None else version, response)[1]


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that blocks where others wait for the event loop: its links are wires."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits for an event loop")
