"""Connections over the simulated network, and the faults of its links."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator

import pytest

from broker.simulation.loop import SimulatedLoop
from broker.simulation.network import Network
from broker.simulation.transport import WINDOW_BYTES


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
        self.network = Network(loop, random.Random(2))
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


@pytest.fixture
def pair() -> Iterator[Pair]:
    loop = SimulatedLoop(random.Random(1))
    yield Pair(loop)
    loop.close()


def run(pair: Pair, main: Callable[[], Awaitable[None]]) -> None:
    async def as_coroutine() -> None:
        await main()

    pair.loop.run_until_complete(as_coroutine())


@pytest.mark.parametrize("split", [False, True])
def test_what_is_written_arrives_whole_and_in_order(pair: Pair, split: bool) -> None:
    async def main() -> None:
        pair.network.split_writes = split
        await pair.listen(echo=True)
        client = await pair.connect()
        sent = b"".join(bytes([number]) * 1000 for number in range(100))
        for start in range(0, len(sent), 777):
            client.transport.write(sent[start : start + 777])
        await asyncio.sleep(5)
        assert pair.accepted[0].data == client.data == sent

    run(pair, main)


def test_closing_sends_what_was_written_before(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = await pair.connect()
        client.transport.write(b"last words")
        client.transport.close()
        await asyncio.sleep(1)
        assert (pair.accepted[0].data, pair.accepted[0].lost, client.lost) == (b"last words", [None], [None])

    run(pair, main)


def test_an_abort_and_a_kill_reset_the_other_end(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        first, second = await pair.connect(), await pair.connect()
        await asyncio.sleep(0.1)
        pair.accepted[0].transport.abort()
        pair.loop.node("server").kill()
        await asyncio.sleep(1)
        assert [type(error) for client in (first, second) for error in client.lost] == [ConnectionResetError] * 2
        with pytest.raises(ConnectionRefusedError):
            await pair.connect()

    run(pair, main)


def test_a_restarted_node_listens_where_its_earlier_life_did(pair: Pair) -> None:
    async def main() -> None:
        port = await pair.listen(0)
        with pytest.raises(OSError, match="bind"):
            await pair.listen(port)
        pair.loop.node("server").kill()
        assert await pair.listen(port) == port
        await pair.connect(port)

    run(pair, main)


def test_a_cut_link_holds_bytes_in_one_direction_and_heals_in_order(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen(echo=True)
        client = await pair.connect()
        client.transport.write(b"1")
        await asyncio.sleep(1)
        pair.network.cut("server", "client")
        client.transport.write(b"2")
        await asyncio.sleep(1)
        client.transport.write(b"3")
        await asyncio.sleep(60)
        assert (pair.accepted[0].data, client.data) == (b"123", b"1")
        pair.network.heal("server", "client")
        await asyncio.sleep(1)
        assert client.data == b"123"

    run(pair, main)


def test_a_reset_does_not_cross_a_cut_link(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = await pair.connect()
        pair.network.partition(["server"], ["client"])
        pair.loop.node("server").kill()
        await asyncio.sleep(60)
        assert client.lost == []
        pair.network.heal_all()
        await asyncio.sleep(1)
        assert [type(error) for error in client.lost] == [ConnectionResetError]

    run(pair, main)


def test_connecting_over_a_cut_link_takes_until_the_caller_gives_up(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        pair.network.cut("client", "server")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await pair.connect()
        pair.network.heal_all()
        await asyncio.sleep(1)
        assert [type(error) for error in pair.accepted[0].lost] == [ConnectionResetError], (
            "nobody waits for it any more"
        )

    run(pair, main)


def test_a_reader_that_pauses_holds_the_writer_back(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = await pair.connect()
        await asyncio.sleep(0.1)
        pair.accepted[0].transport.pause_reading()
        client.transport.write(bytes(2 * WINDOW_BYTES))
        await asyncio.sleep(1)
        assert client.writing_paused
        assert client.transport.get_write_buffer_size() == WINDOW_BYTES
        pair.accepted[0].transport.resume_reading()
        await asyncio.sleep(1)
        assert not client.writing_paused
        assert len(pair.accepted[0].data) == 2 * WINDOW_BYTES

    run(pair, main)


def test_a_paused_node_receives_nothing_until_it_goes_on(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = await pair.connect()
        await asyncio.sleep(0.1)
        pair.loop.node("server").pause()
        client.transport.write(b"hello")
        await asyncio.sleep(60)
        assert pair.accepted[0].data == b""
        pair.loop.node("server").resume()
        await asyncio.sleep(1)
        assert pair.accepted[0].data == b"hello"

    run(pair, main)


def test_a_slow_link_takes_its_time(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = await pair.connect()
        pair.network.link("client", "server").bytes_per_second = 1000.0
        client.transport.write(bytes(5000))
        await asyncio.sleep(4.9)
        assert pair.accepted[0].data == b""
        await asyncio.sleep(0.2)
        assert len(pair.accepted[0].data) == 5000

    run(pair, main)
