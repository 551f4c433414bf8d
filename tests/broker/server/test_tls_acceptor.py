"""TLS connections on their way to a listener: handshakes that end well, badly, late or never."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trustme

from purgatorio.broker.clock import SystemClock
from purgatorio.broker.server.limits import Refusal
from purgatorio.broker.server.tls_acceptor import MAX_HANDSHAKES_PER_TURN, TlsAcceptor

AUTHORITY = trustme.CA()


def context() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(made)
    return made


def trusting() -> ssl.SSLContext:
    made = ssl.create_default_context()
    AUTHORITY.configure_trust(made)
    return made


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Acceptor:
    """An acceptor of echoes that remembers what it refused."""

    def __init__(self, handshake_ms: int, most: int) -> None:
        self.refusals: asyncio.Queue[tuple[Refusal, str]] = asyncio.Queue()
        self.most = most
        made = context()
        self.acceptor = TlsAcceptor(
            Echo,
            lambda: made,
            may_enter=self._may_enter,
            refused=self._refused,
            handshake_ms=handshake_ms,
            clock=SystemClock(),
        )

    def _may_enter(self, host: str, handshakes: int, of_host: int) -> tuple[Refusal, str] | None:
        assert host == "127.0.0.1"
        assert handshakes == of_host, "all are of one address"
        return None if handshakes < self.most else (Refusal.TOO_MANY_CONNECTIONS, "full")

    def _refused(self, reason: Refusal, detail: str, peer: str) -> None:
        self.refusals.put_nowait((reason, detail))


@asynccontextmanager
async def listening(handshake_ms: int = 10_000, most: int = 100) -> AsyncIterator[tuple[Acceptor, int]]:
    made = Acceptor(handshake_ms, most)
    await made.acceptor.start("127.0.0.1", 0, 200)
    try:
        yield made, made.acceptor.sockets[0].getsockname()[1]
    finally:
        made.acceptor.close()
        await made.acceptor.wait_closed()
        assert made.acceptor.handshakes == 0


async def test_a_client_that_trusts_the_authority_is_served() -> None:
    async with listening() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"\0\0\0\x10" + bytes(16), "the client does not speak TLS; is its security.protocol PLAINTEXT?"),
        (b"GET / HTTP/1.1\r\n\r\n", "the client speaks HTTP"),
        (b"", "the client closed the connection during the TLS handshake"),
    ],
)
async def test_a_client_without_tls_is_told_of(sent: bytes, why: str) -> None:
    async with listening() as (made, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        if not sent:
            writer.close()
        assert await made.refusals.get() == (Refusal.TLS_HANDSHAKE_FAILED, why)
        writer.close()


async def test_a_client_that_does_not_trust_the_broker_is_told_of() -> None:
    async with listening() as (made, port):
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())
        reason, _ = await made.refusals.get()
        assert reason is Refusal.TLS_HANDSHAKE_FAILED


async def test_a_client_that_says_nothing_is_closed_when_its_time_is_up() -> None:
    async with listening(handshake_ms=20) as (made, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await made.refusals.get() == (Refusal.HANDSHAKE_TIMEOUT, "the TLS handshake took too long")
        assert await reader.read() == b""
        writer.close()


async def test_handshakes_under_way_count_as_connections_and_end_with_the_listener() -> None:
    async with listening(most=2) as (made, port):
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        assert await made.refusals.get() == (Refusal.TOO_MANY_CONNECTIONS, "full")
        assert made.acceptor.handshakes == 2
        for _, writer in silent:
            writer.close()


async def test_a_crowd_is_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two turns of the loop no more than eight handshakes begin, though a hundred clients wait."""
    begun = [0]
    all_began = asyncio.Event()
    begin: Callable[..., None] = TlsAcceptor._begin

    def counted(self: TlsAcceptor, *args: object) -> None:
        begun[-1] += 1
        if sum(begun) == 100:
            all_began.set()
        begin(self, *args)

    def next_turn() -> None:
        begun.append(0)
        if not all_began.is_set():
            loop.call_soon(next_turn)

    monkeypatch.setattr(TlsAcceptor, "_begin", counted)
    loop = asyncio.get_running_loop()
    async with listening() as (_, port):
        sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        next_turn()
        await all_began.wait()
        assert max(begun) == MAX_HANDSHAKES_PER_TURN
        for each in sockets:
            each.close()
