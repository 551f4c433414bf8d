"""Two nodes on a simulated network, and protocols that keep what comes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from purgatorio.simulation.world.loop import SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork


class Recorder(asyncio.Protocol):
    """Keeps what comes; echoes it if told to."""

    def __init__(self, *, echo: bool = False) -> None:
        self.echo = echo
        self.data = b""
        self.writing_paused = False
        self.lost: list[Exception | None] = []
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        if self.echo:
            self.transport.write(data)

    def pause_writing(self) -> None:
        self.writing_paused = True

    def resume_writing(self) -> None:
        self.writing_paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Pair:
    """A server node and a client node."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.network = SimulatedNetwork(loop, random.Random(2))
        self.accepted: list[Recorder] = []

    async def listen(self, port: int = 9092, *, echo: bool = False) -> int:
        def accept() -> Recorder:
            self.accepted.append(Recorder(echo=echo))
            return self.accepted[-1]

        server = await self.loop.node("server").spawn(self.loop.create_server(accept, "host", port))
        port_taken: int = server.sockets[0].getsockname()[1]
        return port_taken

    async def connect(self, port: int = 9092) -> Recorder:
        _, protocol = await self.loop.node("client").spawn(self.loop.create_connection(Recorder, "host", port))
        assert isinstance(protocol, Recorder)
        return protocol


def run(pair: Pair, main: Callable[[], Awaitable[None]]) -> None:
    async def as_coroutine() -> None:
        await main()

    pair.loop.run_until_complete(as_coroutine())
