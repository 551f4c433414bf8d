"""A transport that stands still: nothing is read from it and nothing sent, while the connection stays open.

So a process looks that was stopped (SIGSTOP), or a network that loses all packets. Tests put it in a transport's place,
which costs the others nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

Bytes = bytes | bytearray | memoryview


class HeldTransport(asyncio.Transport):
    """Keeps what is written, until `release`.

    Its owner bounds the kept bytes: a connection has a bounded number of requests in flight, and reads no further ones.

    Args:
        transport: the transport that is held.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._reads = transport.is_reading()
        self._kept: list[Bytes] = []
        self._kept_bytes = 0
        self._closes = False
        transport.pause_reading()

    def release(self) -> asyncio.Transport:
        """Send what was written, read on if the owner wants to, and return the transport."""
        transport = self._transport
        if not transport.is_closing():
            if self._kept:
                transport.writelines(self._kept)
            if self._closes:
                transport.close()
            elif self._reads:
                transport.resume_reading()
        self._kept = []
        return transport

    def replace(self, change: Callable[[asyncio.Transport], asyncio.Transport]) -> None:
        """Hold the transport that `change` returns for the one that is held."""
        self._transport = change(self._transport)

    def write(self, data: Bytes) -> None:
        """Keep the data."""
        self._kept.append(data)
        self._kept_bytes += len(data)

    def writelines(self, list_of_data: Iterable[Bytes]) -> None:
        """Keep all data."""
        for data in list_of_data:
            self.write(data)

    def pause_reading(self) -> None:
        """Do not read after the release either."""
        self._reads = False

    def resume_reading(self) -> None:
        """Read after the release."""
        self._reads = True

    def close(self) -> None:
        """Close after the release, when what was written is sent."""
        self._closes = True

    def abort(self) -> None:
        """Close now."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Return whether it was closed."""
        return self._closes or self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return the bytes that are not sent yet."""
        return self._kept_bytes + self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits of the transport that is held."""
        self._transport.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport that is held knows."""
        return self._transport.get_extra_info(name, default)


def held(transport: asyncio.Transport) -> asyncio.Transport:
    """Return a transport that stands still in place of this one; itself if it does already."""
    return transport if isinstance(transport, HeldTransport) else HeldTransport(transport)


def released(transport: asyncio.Transport) -> asyncio.Transport:
    """Return the transport that was held, which goes on; itself if it was not."""
    return transport.release() if isinstance(transport, HeldTransport) else transport
