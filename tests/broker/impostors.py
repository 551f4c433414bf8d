"""A process that has taken a dead broker's port: it keeps what brokers send there, and sends it to the living ones."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from purgatorio.protocol.api import encode_request
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.describe_cluster import DescribeClusterRequest

_ASKED = 0x5EC2E7
"""The correlation id of the request that only a broker may send."""
Address = tuple[str, int]


@dataclass
class Impostor:
    """What listens at the port.

    Attributes:
        port: the port.
        living: where the living brokers listen for brokers; each connection is passed on to the next of them, so that
            the one who connects gets a broker's true answers.
        heard: the bytes that came by each connection.
        accepted: how many connections have got an answer of a living broker that only brokers get.
    """

    living: Sequence[Address]
    port: int = 0
    heard: list[bytearray] = field(default_factory=list)
    accepted: int = 0

    async def passed_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: whatever the one end says, the other end hears."""
        heard = bytearray()
        self.heard.append(heard)
        there, to = await asyncio.open_connection(*self.living[len(self.heard) % len(self.living)])
        both = asyncio.gather(_pump(reader, to, heard), _pump(there, writer, bytearray()))
        with contextlib.suppress(ConnectionError):
            await both

    async def replay(self) -> None:
        """Send each recorded connection to every living broker, with a request after it."""
        recorded = [bytes(each) for each in self.heard if each]
        await asyncio.gather(*(self._send(*each) for each in itertools.product(recorded, self.living)))

    async def _send(self, recorded: bytes, address: Address) -> None:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(recorded + b"".join(encode_request(ApiKey.DESCRIBE_CLUSTER, 0, _ASKED, "me", _question())))
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                if int.from_bytes(answer[:4]) == _ASKED:
                    self.accepted += 1
                    break
        writer.close()


def _question() -> DescribeClusterRequest:
    return DescribeClusterRequest()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: bytearray) -> None:
    try:
        while data := await reader.read(65_536):
            heard += data
            writer.write(data)
    finally:
        writer.close()


@asynccontextmanager
async def impostor(*living: Address, at: Address = ("127.0.0.1", 0)) -> AsyncIterator[Impostor]:
    """Listen at an address until the end."""
    found = Impostor(living)
    async with await asyncio.start_server(found.passed_on, *at) as server:
        found.port = server.sockets[0].getsockname()[1]
        yield found
