"""The ends of simulated connections: flow control, closing, and what a protocol is told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from purgatorio.simulation.world.loop import SimulatedLoop
from purgatorio.simulation.world.transport import WINDOW_BYTES
from tests.simulation.pair import Pair, Recorder, run


@pytest.fixture
def pair() -> Iterator[Pair]:
    loop = SimulatedLoop(random.Random(1))
    yield Pair(loop)
    loop.close()


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


class Refuser(Recorder):
    """Ends every connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.abort()


def test_a_client_whose_connection_is_refused_when_it_is_made_hears_of_it(pair: Pair) -> None:
    async def main() -> None:
        await pair.loop.node("server").spawn(pair.loop.create_server(Refuser, "host", 9092))
        early = await pair.connect()
        connecting = pair.loop.node("client").spawn(pair.loop.create_connection(Recorder, "host", 9092))
        await asyncio.sleep(0)
        pair.loop.node("client").pause()
        await asyncio.sleep(1)
        pair.loop.node("client").resume()
        _, late = await connecting  # the reset came first
        await asyncio.sleep(1)
        assert [type(error) for client in (early, late) for error in client.lost] == [ConnectionResetError] * 2

    run(pair, main)


def test_a_paused_writer_sends_nothing_when_there_is_room_again(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = await pair.connect()
        await asyncio.sleep(0.1)
        server = pair.accepted[0]
        server.transport.pause_reading()
        client.transport.write(bytes(2 * WINDOW_BYTES))
        await asyncio.sleep(1)
        pair.loop.node("client").pause()
        server.transport.resume_reading()
        await asyncio.sleep(1)
        assert len(server.data) == WINDOW_BYTES
        pair.loop.node("client").resume()
        await asyncio.sleep(1)
        assert len(server.data) == 2 * WINDOW_BYTES

    run(pair, main)


def test_a_writer_hears_of_room_only_when_the_way_back_is_not_cut(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = await pair.connect()
        pair.network.cut("server", "client")
        client.transport.write(bytes(2 * WINDOW_BYTES))
        await asyncio.sleep(1)
        assert len(pair.accepted[0].data) == WINDOW_BYTES
        pair.network.heal("server", "client")
        await asyncio.sleep(1)
        assert len(pair.accepted[0].data) == 2 * WINDOW_BYTES

    run(pair, main)


def test_closing_takes_until_the_other_end_has_room_for_what_was_written(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = await pair.connect()
        await asyncio.sleep(0.1)
        server = pair.accepted[0]
        server.transport.pause_reading()
        client.transport.write(bytes(2 * WINDOW_BYTES))
        client.transport.close()
        await asyncio.sleep(1)
        assert (client.transport.get_write_buffer_size(), client.lost) == (WINDOW_BYTES, [])
        server.transport.resume_reading()
        await asyncio.sleep(1)
        assert (len(server.data), server.lost, client.lost) == (2 * WINDOW_BYTES, [None], [None])

    run(pair, main)


def test_who_closes_without_having_read_everything_resets(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = await pair.connect()
        await asyncio.sleep(0.1)
        server = pair.accepted[0]
        server.transport.pause_reading()
        client.transport.write(bytes(2 * WINDOW_BYTES))
        client.transport.close()
        await asyncio.sleep(1)
        server.transport.close()
        await asyncio.sleep(1)
        assert [type(error) for error in client.lost] == [ConnectionResetError]

    run(pair, main)


def test_limits_that_are_exceeded_when_they_are_set_pause_writing(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = await pair.connect()
        pair.accepted[0].transport.pause_reading()
        client.transport.write(bytes(WINDOW_BYTES + 1000))
        assert not client.writing_paused
        client.transport.set_write_buffer_limits(high=999)
        assert client.writing_paused

    run(pair, main)


class Failing(Recorder):
    """Cannot cope with anything."""

    def data_received(self, data: bytes) -> None:
        raise ValueError("not that")


def test_a_protocol_that_fails_on_what_it_receives_loses_its_connection(pair: Pair) -> None:
    told: list[dict[str, Any]] = []

    async def main() -> None:
        pair.loop.set_exception_handler(lambda loop, context: told.append(context))
        failing = Failing()
        await pair.loop.node("server").spawn(pair.loop.create_server(lambda: failing, "host", 9092))
        client = await pair.connect()
        client.transport.write(b"anything")
        await asyncio.sleep(1)
        assert [type(error) for error in failing.lost] == [ValueError]
        assert [type(error) for error in client.lost] == [ConnectionResetError]
        assert [str(context["exception"]) for context in told] == ["not that"]

    run(pair, main)
