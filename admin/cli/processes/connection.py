"""The connection between the supervisor and the process of a broker: a pair of sockets that the process inherits.

No other process can connect, so that neither end has to prove who it is; and each end notices when the other has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from purgatorio.broker.metadata.served import Decoder, Message, encode
from purgatorio.logger import get_logger

logger = get_logger(__name__)


class MessageConnection(asyncio.Protocol):
    """Sends and receives messages.

    Args:
        receive: called with each message; if it raises, the connection is closed.

    Attributes:
        when_slow: called with True when the other end does not read what was sent, and with False when it does again.
        closed: done when the connection is closed, by whichever end.
    """

    def __init__(self, receive: Callable[[Message], None]) -> None:
        self._receive = receive
        self._decoder = Decoder()
        self._transport: asyncio.Transport | None = None
        self.when_slow: Callable[[bool], None] = lambda is_slow: None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def send(self, message: Message) -> None:
        """Send a message; nothing happens if the connection is closed."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode(message))

    def close(self) -> None:
        """Close the connection when what was sent is on its way."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._decoder.feed(data):
                self._receive(message)
        except Exception:
            # The other end sent no message of ours: nothing more can be sent to it.
            logger.exception("a message of another process cannot be understood")
            self.close()

    def pause_writing(self) -> None:
        self.when_slow(True)

    def resume_writing(self) -> None:
        self.when_slow(False)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


async def connect(sock: Any, receive: Callable[[Message], None]) -> MessageConnection:
    """Return the connection over one socket of a pair, which it owns from then on."""
    _, connection = await asyncio.get_running_loop().create_unix_connection(
        lambda: MessageConnection(receive), sock=sock
    )
    return connection
