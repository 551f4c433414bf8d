"""Connections over the simulated network, and the faults of its links."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Iterator

import pytest

from purgatorio.simulation.world.loop import SimulatedLoop
from purgatorio.simulation.world.network import FIRST_FREE_PORT
from tests.simulation.pair import Pair, Recorder, run


@pytest.fixture
def pair() -> Iterator[Pair]:
    loop = SimulatedLoop(random.Random(1))
    yield Pair(loop)
    loop.close()


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


def test_all_connections_over_a_slow_link_share_it(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        clients = [await pair.connect() for _ in range(5)]
        pair.network.link("client", "server").bytes_per_second = 1000.0
        for client in clients:
            client.transport.write(bytes(1000))
        await asyncio.sleep(2.5)
        assert [len(accepted.data) for accepted in pair.accepted] == [1000, 1000, 0, 0, 0]
        await asyncio.sleep(2.6)
        assert [len(accepted.data) for accepted in pair.accepted] == [1000] * 5

    run(pair, main)


def test_what_a_slow_link_has_kept_arrives_when_it_is_fast_again(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = await pair.connect()
        pair.network.link("client", "server").bytes_per_second = 1.0
        client.transport.write(bytes(5000))
        await asyncio.sleep(1)
        pair.network.heal("client", "server")
        client.transport.write(b"and more")
        await asyncio.sleep(0.01)
        assert pair.accepted[0].data == bytes(5000) + b"and more"

    run(pair, main)


def test_a_spike_holds_back_what_comes_after_it(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = await pair.connect()
        link = pair.network.link("client", "server")
        link.spike_probability, link.spike_ms = 1.0, (1000.0, 1000.0)
        client.transport.write(b"late, ")
        link.spike_probability = 0.0
        client.transport.write(b"in order")
        await asyncio.sleep(0.99)
        assert pair.accepted[0].data == b""
        await asyncio.sleep(0.02)
        assert pair.accepted[0].data == b"late, in order"

    run(pair, main)


def test_what_is_sent_after_a_link_has_healed_does_not_come_early_with_what_was_held(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = await pair.connect()
        link = pair.network.link("client", "server")
        link.latency_ms = (100.0, 100.0)
        client.transport.write(b"1")
        pair.network.cut("client", "server")
        client.transport.write(b"2")
        await asyncio.sleep(0.0995)
        pair.network.heal("client", "server")
        link.latency_ms = (100.0, 100.0)
        client.transport.write(b"3")
        await asyncio.sleep(0.01)
        assert pair.accepted[0].data == b"12"
        await asyncio.sleep(0.1)
        assert pair.accepted[0].data == b"123"

    run(pair, main)


def test_a_refusal_does_not_cross_a_cut_link(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        pair.loop.node("server").kill()
        pair.network.cut("server", "client")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await pair.connect()

    run(pair, main)


def test_a_free_port_is_one_that_nobody_has_taken(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen(FIRST_FREE_PORT)
        assert await pair.listen(0) == FIRST_FREE_PORT + 1

    run(pair, main)


def test_a_connection_that_comes_when_its_caller_is_cancelled_is_ended(pair: Pair) -> None:
    async def main() -> None:
        await pair.listen()
        client = pair.loop.node("client")
        connecting = client.spawn(pair.loop.create_connection(Recorder, "host", 9092))
        await asyncio.sleep(0)
        client.pause()
        await asyncio.sleep(1)
        connecting.cancel()
        client.resume()
        await asyncio.sleep(1)
        assert connecting.cancelled()
        assert [type(error) for error in pair.accepted[0].lost] == [ConnectionResetError]

    run(pair, main)


def test_a_killed_node_neither_connects_nor_listens_while_its_tasks_unwind(pair: Pair) -> None:
    seen: list[int | None] = []

    async def insist() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            for attempt in (
                pair.loop.create_connection(Recorder, "host", 9092),
                pair.loop.create_server(Recorder, "elsewhere", 9092),
            ):
                try:
                    await attempt
                except OSError as error:
                    seen.append(error.errno)

    async def main() -> None:
        await pair.listen()
        pair.loop.node("client").spawn(insist())
        await asyncio.sleep(1)
        pair.loop.node("client").kill()
        await asyncio.sleep(1)
        assert seen == [errno.ENETDOWN] * 2
        assert pair.accepted == []

    run(pair, main)


def test_a_node_far_away_has_long_delays_in_both_directions_and_still_after_faults(pair: Pair) -> None:
    pair.network.place("client", (50.0, 60.0))
    for _ in range(2):
        for source, target in (("client", "server"), ("server", "client")):
            assert pair.network.link(source, target).latency_ms == (50.0, 60.0)
        assert pair.network.link("server", "other").latency_ms == (0.1, 1.0)
        pair.network.link("client", "server").latency_ms = (1.0, 1.0)
        pair.network.heal_all()
