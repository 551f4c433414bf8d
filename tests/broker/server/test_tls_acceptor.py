"""TLS connections on their way to a listener: handshakes that end well, badly, late or never."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest
import trustme

from purgatorio.broker.server.connection_slots import ConnectionSlots, Slot
from purgatorio.broker.server.limits import ConnectionLimits, Refusal
from purgatorio.broker.server.tls_acceptor import MAX_HANDSHAKES_PER_TURN, TlsAcceptor
from purgatorio.broker.time.event_loop import loop_factory
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.purgatory.clock import Clock, ManualClock

AUTHORITY = trustme.CA()
CLOSED = "the client closed the connection during the TLS handshake"


def client_hello() -> bytes:
    """The first message of a client, as OpenSSL sends it."""
    sent = ssl.MemoryBIO()
    client = trusting().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


def context() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(made)
    return made


def trusting() -> ssl.SSLContext:
    made = ssl.create_default_context()
    AUTHORITY.configure_trust(made)
    return made


HELLO = client_hello()


class Echo(asyncio.Protocol):
    """A connection that takes its handshake's slot over."""

    def __init__(self, slots: ConnectionSlots, slot: Slot) -> None:
        self._slots = slots
        self._slot = slot

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._slot.guest = self
        self._slots.logged_in(self._slot)

    def make_room(self, why: str) -> None:
        raise AssertionError("it has logged in")

    def connection_lost(self, exc: Exception | None) -> None:
        self._slots.leave(self._slot)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Acceptor:
    """An acceptor of echoes that remembers what it refused."""

    def __init__(self, handshake_ms: int, most: int, clock: Clock) -> None:
        self.refusals: asyncio.Queue[tuple[Refusal, str]] = asyncio.Queue()
        made = context()
        self.slots = ConnectionSlots(ConnectionLimits(max_connections=most))
        self.acceptor = TlsAcceptor(
            lambda slot: Echo(self.slots, slot),
            lambda: made,
            slots=self.slots,
            refused=self._refused,
            handshake_ms=handshake_ms,
            clock=clock,
        )

    def _refused(self, reason: Refusal, detail: str, peer: str) -> None:
        self.refusals.put_nowait((reason, detail))


@asynccontextmanager
async def listening(
    handshake_ms: int = 10_000, most: int = 1_000, clock: Clock | None = None
) -> AsyncIterator[tuple[Acceptor, int]]:
    made = Acceptor(handshake_ms, most, clock or SystemClock())
    await made.acceptor.open("127.0.0.1", 0, 200)
    try:
        yield made, made.acceptor.sockets[0].getsockname()[1]
    finally:
        made.acceptor.close()
        await made.acceptor.wait_closed()
        assert made.acceptor.handshakes == 0
        assert made.slots.before_login == 0


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


async def test_a_handshake_that_stops_half_way_is_ended_by_the_clock_of_deadlines_alone() -> None:
    """The event loop's own time goes on while the process stands still."""
    clock = ManualClock()
    async with listening(handshake_ms=20, clock=clock) as (made, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HELLO)
        assert await reader.read(1)  # the broker's part of the handshake
        time.sleep(0.03)  # noqa: ASYNC251 - the process stands still
        await asyncio.sleep(0)
        assert made.refusals.empty()
        clock.advance_ms(21)
        assert await made.refusals.get() == (Refusal.HANDSHAKE_TIMEOUT, "the TLS handshake took too long")
        await reader.read()
        writer.close()


async def test_a_client_that_sends_half_a_hello_is_closed_when_its_time_is_up() -> None:
    async with listening(handshake_ms=20) as (made, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HELLO[:100])
        assert await made.refusals.get() == (Refusal.HANDSHAKE_TIMEOUT, "the TLS handshake took too long")
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_a_client_that_goes_after_half_a_hello_is_told_of() -> None:
    async with listening() as (made, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HELLO[:100])
        writer.close()
        assert await made.refusals.get() == (Refusal.TLS_HANDSHAKE_FAILED, CLOSED)


async def test_handshakes_under_way_count_as_connections_and_make_room_for_others() -> None:
    """Clients that connect and say nothing do not keep the others out."""
    async with listening(most=2) as (made, port):
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            silent.append((reader, writer))
            reason, detail = await made.refusals.get()
            assert reason is Refusal.NOT_LOGGED_IN
            assert detail.startswith("2 connections are open")
        for reader, _ in silent[:2]:
            assert await reader.read() == b""
        _, refused = await asyncio.open_connection("127.0.0.1", port)
        silent.append((reader, refused))
        assert await made.refusals.get() == (
            Refusal.TOO_MANY_CONNECTIONS,
            "2 connections are open, as many as max.connections and the limit of open files allow",
        )
        assert made.acceptor.handshakes == 0
        for _, writer in silent:
            writer.close()


async def test_silent_clients_end_with_the_listener() -> None:
    async with listening() as (made, port):
        readers = [(await asyncio.open_connection("127.0.0.1", port)) for _ in range(3)]
        readers[0][1].write(HELLO[:50])
        while made.acceptor.handshakes < 3:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0)
    for reader, writer in readers:
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_a_crowd_is_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that all send the last bytes of their hellos at once: in each turn of the loop eight are answered."""
    begun = [0]
    begin: Callable[..., None] = TlsAcceptor._begin

    def counted(self: TlsAcceptor, *args: object) -> None:
        begun[-1] += 1
        begin(self, *args)

    monkeypatch.setattr(TlsAcceptor, "_begin", counted)
    async with listening() as (made, port):
        sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        for each in sockets:
            each.sendall(HELLO[:-1])
        while made.acceptor.handshakes < 100:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        assert begun == [0], "no handshake can get on before the whole hello is there"
        for each in sockets:
            each.sendall(HELLO[-1:])
        while sum(begun) < 100:
            begun.append(0)
            await asyncio.sleep(0)
        assert max(begun) == MAX_HANDSHAKES_PER_TURN
        for each in sockets:
            each.close()


class Aborted(asyncio.Protocol):
    """A connection whose acceptor is closed in the turn in which it is made, and which is aborted then."""

    def __init__(self, made: Acceptor, slot: Slot) -> None:
        self._made = made
        self._slot = slot
        self.lost = asyncio.Event()

    def make_room(self, why: str) -> None:
        raise AssertionError("it has logged in")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._slot.guest = self
        self._made.slots.logged_in(self._slot)
        asyncio.get_running_loop().call_soon(self.stop)  # before the task of its handshake goes on

    def stop(self) -> None:
        self._made.acceptor.close()
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._made.slots.leave(self._slot)
        self.lost.set()


@pytest.mark.parametrize("loop_of", [asyncio.new_event_loop, loop_factory()], ids=["asyncio", "ours"])
def test_a_connection_that_is_made_while_the_acceptor_closes_is_told_of_its_end(
    loop_of: Callable[[], asyncio.AbstractEventLoop] | None,
) -> None:
    """A listener waits for that."""
    connections: list[Aborted] = []

    async def run() -> None:
        async with listening() as (made, port):

            def protocol(slot: Slot) -> Aborted:
                connections.append(Aborted(made, slot))
                return connections[0]

            made.acceptor._protocol = protocol
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
                writer.close()
                await writer.wait_closed()
            async with asyncio.timeout(5):
                await connections[0].lost.wait()

    with asyncio.Runner(loop_factory=loop_of) as runner:
        runner.run(run())
