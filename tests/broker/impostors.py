"""A process that has taken a dead broker's port: it keeps what brokers send there, and sends it to the living ones."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from purgatorio.broker.config.listeners import BROKERS
from purgatorio.broker.metadata.image import ClusterImage, Endpoint
from purgatorio.protocol.api import decode_response, encode_request
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_cluster import DescribeClusterRequest

_ASKED = 0x5EC2E7
"""The correlation id of the request that only a broker may send."""
Address = tuple[str, int]


@dataclass
class Impostor:
    """What listens at the port.

    Attributes:
        port: the port.
        ended: how many of them are closed.
        ends: set by each end of one.
        living: where the living brokers listen for brokers; each connection is passed on to the next of them, so that
            the one who connects gets a broker's true answers.
        heard: the bytes that came by each connection.
        accepted: how many connections have got an answer of a living broker that only brokers get.
    """

    living: Sequence[Address]
    port: int = 0
    heard: list[bytearray] = field(default_factory=list)
    accepted: int = 0
    ended: int = 0
    ends: asyncio.Event = field(default_factory=asyncio.Event)

    async def passed_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: whatever the one end says, the other end hears."""
        heard = bytearray()
        self.heard.append(heard)
        there, to = await asyncio.open_connection(*self.living[len(self.heard) % len(self.living)])
        both = asyncio.gather(self._pump(reader, to, heard), self._pump(there, writer, bytearray()))
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):  # asyncio logs what a server's tasks raise
            await both
        self.ended += 1
        self.ends.set()

    async def hears(self, connections: int) -> None:
        """Wait until brokers have given up this many connections."""
        while self.ended < connections:
            await self.ends.wait()
            self.ends.clear()

    async def replay(self, times: int = 1) -> None:
        """Send each recorded connection to every living broker, with a request after it."""
        recorded = [bytes(each) for each in self.heard if each] * times
        await asyncio.gather(*(self._send(*each) for each in itertools.product(recorded, self.living)))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: bytearray) -> None:
        try:
            while data := await reader.read(65_536):
                heard += data
                writer.write(data)
        finally:
            writer.close()

    async def _send(self, recorded: bytes, address: Address) -> None:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(
            recorded + b"".join(encode_request(ApiKey.DESCRIBE_CLUSTER, 0, _ASKED, "me", DescribeClusterRequest()))
        )
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                if int.from_bytes(answer[:4]) == _ASKED:
                    _, response = decode_response(ApiKey.DESCRIBE_CLUSTER, 0, answer)
                    self.accepted += response.error_code == ErrorCode.NONE
                    break
        writer.close()


def taken(port: int) -> bool:
    """Whether another socket can listen on a port of this machine now, by any option and address."""
    for options in ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)):
        for address in ("127.0.0.1", "0.0.0.0"):
            with socket.socket() as sock, contextlib.suppress(OSError):
                for each in options:
                    sock.setsockopt(socket.SOL_SOCKET, each, 1)
                sock.bind((address, port))
                sock.listen()
                return True
    return False


def moved(image: ClusterImage, broker_id: int, port: int) -> ClusterImage:
    """Return the image of a broker that believes another one to be at this port."""
    at = (Endpoint(BROKERS, "127.0.0.1", port),)
    return image.with_broker(replace(image.brokers[broker_id], endpoints=at))


@asynccontextmanager
async def impostor(*living: Address, at: Address = ("127.0.0.1", 0)) -> AsyncIterator[Impostor]:
    """Listen at an address until the end."""
    found = Impostor(living)
    async with await asyncio.start_server(found.passed_on, *at) as server:
        found.port = server.sockets[0].getsockname()[1]
        yield found
