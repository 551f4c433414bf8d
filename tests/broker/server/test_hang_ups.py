"""Clients that go while their connections are not read, on real sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from purgatorio.broker.server.hang_ups import HangUps
from purgatorio.broker.server.listener import Listener
from purgatorio.purgatory.clock import ManualClock

if TYPE_CHECKING:
    from .conftest import Client, Handler, Probe

Start = Callable[..., Awaitable[Listener]]
Connect = Callable[[Listener], Awaitable["Client"]]
RequestOf = Callable[..., bytes]


class Pair:
    """The two ends of a connection; the server's is looked at."""

    def __init__(self) -> None:
        self.server, self.client = socket.socketpair()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.client.close()
            self.server.close()
            self.client = socket.create_connection(listening.getsockname())
            self.server, _ = listening.accept()

    def get_extra_info(self, name: str) -> Any:
        assert name == "socket"
        return self.server


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.server.close()
    made.client.close()


def test_a_client_that_stays_is_not_found_whatever_it_sends(pair: Pair) -> None:
    hang_ups: HangUps[str] = HangUps()
    hang_ups.watch("a", pair)  # type: ignore[arg-type]
    pair.client.send(b"x")
    assert hang_ups.gone() == []


@pytest.mark.parametrize("sent", [b"", b"more"])
def test_a_client_that_has_closed_is_found_with_what_it_sent(pair: Pair, sent: bytes) -> None:
    hang_ups: HangUps[str] = HangUps()
    hang_ups.watch("a", pair)  # type: ignore[arg-type]
    pair.client.sendall(sent)
    pair.client.close()
    assert hang_ups.gone() == [("a", bool(sent))]
    hang_ups.forget("a")
    hang_ups.forget("a")
    assert hang_ups.gone() == []


def test_a_client_that_reset_the_connection_has_sent_nothing(pair: Pair) -> None:
    hang_ups: HangUps[str] = HangUps()
    hang_ups.watch("a", pair)  # type: ignore[arg-type]
    pair.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    pair.client.close()
    assert hang_ups.gone() == [("a", False)]


def test_a_file_that_another_connection_has_by_now_is_the_others(pair: Pair) -> None:
    hang_ups: HangUps[str] = HangUps()
    hang_ups.watch("old", pair)  # type: ignore[arg-type]
    hang_ups.watch("new", pair)  # type: ignore[arg-type]
    hang_ups.forget("old")
    pair.client.close()
    assert hang_ups.gone() == [("new", False)]


async def until_gone(listener: Listener, probe: Probe, closed: int) -> None:
    """Sweep, in turns of the loop, until a connection is closed; the kernel may take a moment to tell of it."""
    while probe.closed < closed:
        listener.sweep()
        await asyncio.sleep(0)


async def test_a_muted_connection_whose_client_has_gone_is_closed(
    start_listener: Start, connect: Connect, handler: Handler, probe: Probe, request_of: RequestOf
) -> None:
    """Nothing reads it until its throttle is over, which may take hours: it would keep its file."""
    listener = await start_listener()
    clients = [await connect(listener) for _ in range(2)]
    for client in clients:
        client.send(request_of(1))
    await probe.until(lambda: len(handler.parked) == 2)
    for context, reply in zip(handler.contexts, handler.parked, strict=True):
        context.session.channel.throttle()
        handler.answer(reply)
    clients[0].writer.close()
    await until_gone(listener, probe, 1)
    assert len(listener.connections()) == 1
    handler.contexts[1].session.channel.unthrottle()
    assert (await clients[1].answer())[0] == 1


async def test_what_a_client_sent_before_it_went_has_its_time(
    start_listener: Start,
    connect: Connect,
    handler: Handler,
    probe: Probe,
    clock: ManualClock,
    request_of: RequestOf,
) -> None:
    """A producer with acks=0 may be gone before its throttle is over."""
    listener = await start_listener(partial_frame_ms=1_000)
    client = await connect(listener)
    client.send(request_of(1))
    await probe.until(lambda: len(handler.parked) == 1)
    handler.contexts[0].session.channel.throttle()
    client.send(request_of(2))
    await client.writer.drain()
    client.writer.close()
    while not listener._hang_ups.gone():  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0)
    listener.sweep()
    clock.advance_ms(1_000)
    listener.sweep()
    await asyncio.sleep(0)
    assert probe.closed == 0
    clock.advance_ms(1)
    await until_gone(listener, probe, 1)
