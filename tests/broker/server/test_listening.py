"""Accepting from real sockets: several clients in a turn, every address of a host, and times without a free file."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from purgatorio.broker.server.connection_snapshot import host_and_peer
from purgatorio.broker.server.listening import (
    ACCEPT_RETRY_MS,
    FREE_PORT_TRIES,
    ListeningSockets,
    PlainAcceptor,
    can_watch_sockets,
    hold,
    open_sockets,
)
from purgatorio.broker.time.event_loop import loop_factory
from purgatorio.purgatory.clock import ManualClock
from purgatorio.simulation.world.loop import SimulatedLoop


class Crowd:
    """Clients that were accepted, by the turns of the loop."""

    def __init__(self, most_per_turn: int = 64) -> None:
        self.clock = ManualClock()
        self.sockets: list[socket.socket] = []
        self.peers: list[str] = []
        self.in_turn = [0]
        self.listening = ListeningSockets(self._accepted, self.clock, most_per_turn)

    def _accepted(self, client: socket.socket, host: str, peer: str) -> None:
        assert client.getblocking() is False
        assert peer.startswith(host)
        self.sockets.append(client)
        self.peers.append(peer)
        self.in_turn[-1] += 1

    async def turns(self, count: int) -> list[int]:
        """Run turns of the loop; return how many were accepted in each, but for the last ones without any."""
        for _ in range(count):
            self.in_turn.append(0)
            await asyncio.sleep(0)
        while self.in_turn and not self.in_turn[-1]:
            self.in_turn.pop()
        return [each for each in self.in_turn if each]


@contextlib.asynccontextmanager
async def crowd(clients: int, most_per_turn: int = 64) -> AsyncIterator[Crowd]:
    made = Crowd(most_per_turn)
    await made.listening.open("127.0.0.1", 0, 200)
    with contextlib.ExitStack() as stack:
        address = made.listening.sockets[0].getsockname()
        for _ in range(clients):
            stack.enter_context(socket.create_connection(address))
        try:
            yield made
        finally:
            made.listening.close()
            for each in made.sockets:
                each.close()


async def test_new_connections_do_not_wait_a_turn_of_the_loop_each() -> None:
    """libuv's own server accepts one a turn, so that two hundred starve beside a busy client."""
    async with crowd(100, most_per_turn=40) as made:
        assert await made.turns(10) == [40, 40, 20]
        assert len(set(made.peers)) == 100


async def test_without_a_free_file_accepting_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        """Listens, but has no file for a client."""

        def __init__(self, opened: socket.socket) -> None:
            self.opened = opened

        def _accept(self) -> None:
            raise OSError(errno.EMFILE, "too many open files")

    async with crowd(1) as made:
        made.listening._accept(Full(made.listening.sockets[0]))  # type: ignore[arg-type]
        assert await made.turns(5) == [], "it would be called in every turn"
        made.clock.advance_ms(ACCEPT_RETRY_MS)
        assert await made.turns(5) == [1]


async def test_all_addresses_of_a_host_are_listened_on_at_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    async def both(host: str | None, port: int, **_: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, 1, 6, "", ("127.0.0.1", port)), (socket.AF_INET6, 1, 6, "", ("::1", port, 0, 0))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)
    opened = await open_sockets("localhost", 0, 10)
    try:
        ports = {each.getsockname()[1] for each in opened}
        assert len(ports) == 1
        assert [each.family for each in opened][:1] == [socket.AF_INET]
        if socket.has_ipv6 and len(opened) == 2:
            assert opened[1].getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    finally:
        for each in opened:
            each.close()


async def test_no_socket_stays_open_when_an_address_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await open_sockets("127.0.0.1", taken.getsockname()[1], 10)


async def test_a_client_that_was_accepted_but_has_no_protocol_is_closed_with_the_acceptor() -> None:
    made: list[asyncio.Protocol] = []

    def protocol() -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    acceptor = PlainAcceptor(protocol, ManualClock())
    await acceptor.open("127.0.0.1", 0, 10)
    with socket.create_connection(acceptor.sockets[0].getsockname()) as client:
        while not acceptor._beginning:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0)
        acceptor.close()
        await acceptor.wait_closed()
        client.settimeout(5)
        assert client.recv(1) == b""
    assert not made


@pytest.mark.parametrize(
    ("address", "found"),
    [
        (("192.0.2.1", 5), ("192.0.2.1", "192.0.2.1:5")),
        (("::1", 5, 0, 0), ("::1", "[::1]:5")),
        (None, ("unknown", "unknown")),
        ("", ("unknown", "unknown")),
    ],
)
def test_a_client_is_named_by_its_address(address: object, found: tuple[str, str]) -> None:
    assert host_and_peer(address) == found


async def test_loops_without_sockets_accept_for_themselves() -> None:
    assert can_watch_sockets(asyncio.get_running_loop())
    assert SimulatedLoop.add_reader is asyncio.AbstractEventLoop.add_reader


# --- the end ---


class Ended(asyncio.Protocol):
    """A connection whose acceptor is closed in the turn in which it is made, and which is aborted then."""

    def __init__(self) -> None:
        self.acceptor = PlainAcceptor(lambda: self, ManualClock())
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        asyncio.get_running_loop().call_soon(self.stop)  # before the task that accepts it goes on

    def stop(self) -> None:
        self.acceptor.close()
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


@pytest.mark.parametrize("loop_of", [asyncio.new_event_loop, loop_factory()], ids=["asyncio", "ours"])
def test_a_connection_that_is_made_while_the_acceptor_closes_is_told_of_its_end(
    loop_of: Callable[[], asyncio.AbstractEventLoop] | None,
) -> None:
    """A listener waits for that; uvloop does not tell it where the acceptance is cancelled."""

    async def run() -> None:
        ended = Ended()
        await ended.acceptor.open("127.0.0.1", 0, 1)
        with socket.create_connection(ended.acceptor.sockets[0].getsockname()):
            async with asyncio.timeout(5):
                await ended.lost.wait()
            await ended.acceptor.wait_closed()
            assert asyncio.all_tasks() == {asyncio.current_task()}

    with asyncio.Runner(loop_factory=loop_of) as runner:
        runner.run(run())


@pytest.fixture
async def listening() -> AsyncIterator[socket.socket]:
    (opened,) = await open_sockets("127.0.0.1", 0, 5)
    yield opened
    opened.close()


def cannot(error: int) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(error, "not here")

    return refuse


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends listening without closing")
def test_a_port_that_the_system_chose_stays_when_its_socket_listens_no_more(listening: socket.socket) -> None:
    """And the socket listens on it again, which has not been free for a moment."""
    address = listening.getsockname()
    for _ in range(2):
        assert hold([listening]) == [listening]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        with pytest.raises(OSError, match="in use"):
            socket.create_server(address)
        listening.listen()
        assert listening.getsockname() == address
        socket.create_connection(address).close()


def test_where_listening_ends_with_closing_another_socket_has_the_port(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on BSD and macOS; a port that another process has taken meanwhile is not held."""
    address = listening.getsockname()
    monkeypatch.setattr(socket.socket, "shutdown", cannot(errno.ENOTCONN))
    (holder,) = hold([listening])
    assert (holder is listening, listening.fileno(), holder.getsockname()) == (False, -1, address)
    assert hold([holder]) == [holder]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    holder.listen()
    monkeypatch.setattr(socket.socket, "bind", cannot(errno.EADDRINUSE))
    assert hold([holder]) == []
    assert holder.fileno() == -1


async def test_a_free_port_is_looked_for_again_when_another_process_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    create_server = socket.create_server

    def taken_at_first(address: tuple[str, int], **options: Any) -> socket.socket:
        asked.append(address[1])
        if len(asked) < FREE_PORT_TRIES:
            raise OSError(errno.EADDRINUSE, "taken")
        return create_server(address, **options)

    monkeypatch.setattr(socket, "create_server", taken_at_first)
    (opened,) = await open_sockets("127.0.0.1", 0, 5)
    assert opened.getsockname()[1] == asked[-1]
    opened.close()
    monkeypatch.setattr(socket, "create_server", cannot(errno.EADDRINUSE))
    for port in (0, 9):
        with pytest.raises(OSError, match="not here"):
            await open_sockets("127.0.0.1", port, 5)
