"""A listener on a real socket: bad input, limits, deadlines and stopping."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from purgatorio.broker.routing.request import Principal, Routes
from purgatorio.broker.server.limits import ConnectionLimits, Refusal
from purgatorio.broker.server.listener import Listener
from purgatorio.broker.server.request_queue import RequestMemory
from purgatorio.broker.time.running_clock import RunningClock
from purgatorio.protocol.api import ApiKey
from purgatorio.purgatory.clock import ManualClock
from tests.broker.server.listeners import listener_of, listener_parts
from tests.logs import capture_logs

if TYPE_CHECKING:
    from .conftest import Client, Handler, Probe

Start = Callable[..., Awaitable[Listener]]
Connect = Callable[[Listener], Awaitable["Client"]]
RequestOf = Callable[..., bytes]

CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(200)


async def test_requests_are_answered_in_order_over_tcp(
    start_listener: Start, connect: Connect, handler: Handler, request_of: RequestOf
) -> None:
    """Pipelined, and cut anywhere."""
    handler.decide = handler.answer
    client = await connect(await start_listener())
    client.send(b"".join(request_of(number) for number in range(100)))
    assert [(await client.answer())[0] for _ in range(100)] == list(range(100))


async def test_a_client_that_closes_its_sending_end_reads_all_answers(
    start_listener: Start, connect: Connect, handler: Handler, probe: Probe, request_of: RequestOf
) -> None:
    """Also that of a parked request, for which they all wait."""
    client = await connect(await start_listener(max_requests_per_turn=8))
    client.send(b"".join(request_of(number) for number in range(100)))
    client.writer.write_eof()
    while len(handler.parked) < 100:  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0)
    for reply in reversed(handler.parked):
        handler.answer(reply)
    assert [(await client.answer())[0] for _ in range(100)] == list(range(100))
    assert await client.reader.read() == b""
    await probe.until(lambda: probe.closed == 1)
    assert probe.refusals == []


async def test_connections_are_listed(
    start_listener: Start, connect: Connect, handler: Handler, probe: Probe, clock: ManualClock, request_of: RequestOf
) -> None:
    """With their sizes and states."""
    listener = await start_listener()
    client = await connect(listener)
    client.send(request_of(1))
    await probe.until(lambda: len(handler.parked) == 1)
    clock.advance_ms(30)
    (snapshot,) = listener.connections()
    assert snapshot.peer == client.name
    assert (snapshot.client_id, snapshot.listener, snapshot.age_ms) == ("tester", "PLAINTEXT", 30)
    assert (snapshot.in_flight, snapshot.waiting, snapshot.reading_paused) == (1, 0, False)
    assert (snapshot.bytes_in, snapshot.bytes_out, snapshot.unsent_bytes) == (len(request_of(1)), 0, 0)
    handler.answer(handler.parked.pop())
    await client.answer()
    assert listener.connections()[0].in_flight == 0
    assert listener.connections()[0].bytes_out == probe.sent_bytes == 14
    client.writer.close()
    await probe.until(lambda: probe.closed == 1)
    assert listener.connections() == []


async def test_a_broker_may_have_several_listeners(
    routes: Routes, clock: ManualClock, connect: Connect, handler: Handler, probe: Probe, request_of: RequestOf
) -> None:
    """Handlers are told which one a request came by, request memory is shared, and each stops for itself."""
    memory = RequestMemory(1_000_000)
    listeners = [
        listener_of(routes, listener_parts(ConnectionLimits(), clock, observer=probe, memory=memory), name=name)
        for name in ("CLIENTS", "BROKERS")
    ]
    clients = []
    for number, listener in enumerate(listeners, 1):
        await listener.start("127.0.0.1", 0)
        clients.append(await connect(listener))
        clients[-1].send(request_of(1))
        await probe.until(lambda number=number: len(handler.parked) == number)  # type: ignore[misc]
    sessions = [context.session for context in handler.contexts]
    assert [session.listener for session in sessions] == ["CLIENTS", "BROKERS"]
    assert [session.connection_id for session in sessions] == ["CLIENTS-1", "BROKERS-1"]
    assert memory.used_bytes == 2 * len(request_of(1))
    await listeners[0].stop(0)
    assert memory.used_bytes == len(request_of(1))
    handler.answer(handler.parked[1])
    assert (await clients[1].answer())[0] == 1
    await listeners[1].stop(0)


async def test_all_requests_of_a_connection_share_its_session(
    start_listener: Start, connect: Connect, handler: Handler, probe: Probe, request_of: RequestOf
) -> None:
    """Authentication changes its principal once, for all later requests; other connections keep theirs."""
    listener = await start_listener()
    first, second = await connect(listener), await connect(listener)
    first.send(request_of(1))
    await probe.until(lambda: len(handler.parked) == 1)
    handler.contexts[0].session.principal = Principal("User", "alice")
    first.send(request_of(2))
    await probe.until(lambda: len(handler.parked) == 2)
    second.send(request_of(1))
    await probe.until(lambda: len(handler.parked) == 3)
    sessions = [context.session for context in handler.contexts]
    assert sessions[0] is sessions[1]
    assert [str(session.principal) for session in sessions] == ["User:alice", "User:alice", "User:ANONYMOUS"]
    assert [session.peer for session in sessions] == [first.name, first.name, second.name]


# Bad input: each costs its own connection and one line in the log.


@pytest.mark.parametrize(
    ("data", "reason", "said"),
    [
        pytest.param(b"\x7f\xff\xff\xff", "frame_too_large", "2147483647", id="frame bomb"),
        pytest.param(b"\0\x10\0\x01", "frame_too_large", "1048577", id="one byte too large"),
        pytest.param(b"\xff\xff\xff\xff", "negative_frame_size", "-1", id="negative size"),
        pytest.param(b"GET / HTTP/1.1\r\n", "frame_too_large", "frame", id="http"),
        pytest.param(CLIENT_HELLO, "tls_on_plain_listener", "TLS", id="tls"),
        pytest.param(b"\0\0\0\0", "undecodable_request", "0 bytes", id="empty frame"),
        pytest.param(b"\0\0\0\x0b" + bytes(8) + b"\0\x09x", "undecodable_request", "client_id", id="client id"),
        pytest.param(b"\0\0\0\x0a" + b"\0\x03\0\0" + bytes(6), "unsupported_api", "METADATA", id="api"),
        pytest.param(b"\0\0\0\x0a" + b"\0\0\0\0" + bytes(6), "unsupported_version", "PRODUCE", id="version"),
        pytest.param(
            b"\0\0\0\x16" + b"\0\0\0\x03" + bytes(6) + b"\xff\xff\0\x01\0\0\0\0" + b"\x7f\xff\xff\xff",
            "undecodable_request",
            "topic_data",
            id="array count bomb",
        ),
    ],
)
async def test_bad_input_closes_the_connection_with_one_line_and_harms_no_other(
    start_listener: Start,
    connect: Connect,
    handler: Handler,
    probe: Probe,
    request_of: RequestOf,
    data: bytes,
    reason: str,
    said: str,
) -> None:
    """The line names the peer and the reason; another connection's parked request is answered as if nothing were."""
    listener = await start_listener(max_request_bytes=1 << 20)
    bystander = await connect(listener)
    bystander.send(request_of(1))
    await probe.until(lambda: len(handler.parked) == 1)
    bad = await connect(listener)
    with capture_logs() as logs:
        bad.send(data)
        assert await bad.rest() == b""
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("connection refused", "warning")
    assert (line["peer"], line["reason"]) == (bad.name, reason)
    assert said in line["detail"]
    assert probe.refusals == [Refusal(reason)]
    await probe.until(lambda: probe.closed == 1)
    handler.answer(handler.parked.pop())
    assert (await bystander.answer())[0] == 1
    assert listener.memory.used_bytes == 0


async def test_a_frame_bomb_allocates_nothing(start_listener: Start, connect: Connect, probe: Probe) -> None:
    """A frame that is allowed, but never sent, costs only the bytes that came."""
    listener = await start_listener()
    client = await connect(listener)
    client.send((100 << 20).to_bytes(4) + b"x")
    await probe.until(lambda: probe.received_bytes == 5)
    assert listener.memory.used_bytes == 5


async def test_an_unknown_version_of_api_versions_keeps_the_connection(
    start_listener: Start, connect: Connect, handler: Handler, request_of: RequestOf
) -> None:
    """The client reads error 35 and the table, and asks again."""
    handler.decide = handler.answer
    client = await connect(await start_listener())
    data = bytearray(request_of(1, ApiKey.API_VERSIONS, 4))
    data[6:8] = (99).to_bytes(2)
    client.send(bytes(data) + request_of(2))
    number, body = await client.answer()
    assert (number, body[:2]) == (1, b"\0\x23")
    assert (await client.answer())[0] == 2


async def test_too_many_connections_are_refused(
    start_listener: Start, connect: Connect, handler: Handler, probe: Probe, request_of: RequestOf
) -> None:
    """The new one goes, the old ones stay; when one leaves there is room again."""
    handler.decide = handler.answer
    listener = await start_listener(max_connections=2)
    first, second = await connect(listener), await connect(listener)
    for client in (first, second):
        client.send(request_of(1))
        await client.answer()
    with capture_logs() as logs:
        third = await connect(listener)
        assert await third.rest() == b""
    assert [(line["peer"], line["reason"]) for line in logs] == [(third.name, "too_many_connections")]
    second.writer.close()
    await probe.until(lambda: probe.closed == 1)
    for client in (first, await connect(listener)):
        client.send(request_of(1))
        assert (await client.answer())[0] == 1


async def test_honest_clients_get_in_beside_a_crowd_that_has_requested_nothing(
    start_listener: Start, connect: Connect, handler: Handler, probe: Probe, request_of: RequestOf
) -> None:
    """Connections with half a request each made the listener refuse all others, until their deadline."""
    handler.decide = handler.answer
    listener = await start_listener(max_connections=3)
    crowd = [await connect(listener) for _ in range(3)]
    for client in crowd:
        client.send(request_of(1)[:-1])
    await probe.until(lambda: probe.received_bytes == 3 * len(request_of(1)[:-1]))
    with capture_logs() as logs:
        for number, client in enumerate([await connect(listener) for _ in range(2)]):
            client.send(request_of(number))
            assert (await client.answer())[0] == number
    assert [(line["peer"], line["reason"]) for line in logs] == [
        (client.name, "not_logged_in") for client in crowd[:2]
    ], "the oldest go first"
    assert [await client.rest() for client in crowd[:2]] == [b"", b""]
    assert probe.refusals == [Refusal.NOT_LOGGED_IN] * 2


async def test_too_many_connections_of_one_address_are_refused(
    start_listener: Start, connect: Connect, handler: Handler, probe: Probe, request_of: RequestOf
) -> None:
    """One host cannot take them all."""
    handler.decide = handler.answer
    listener = await start_listener(max_connections_per_ip=1)
    first = await connect(listener)
    first.send(request_of(1))
    await first.answer()
    with capture_logs() as logs:
        assert await (await connect(listener)).rest() == b""
    assert [line["reason"] for line in logs] == ["too_many_connections_of_address"]
    first.writer.close()
    await probe.until(lambda: probe.closed == 1)
    await connect(listener)
    await probe.until(lambda: probe.opened == 2)


@pytest.mark.parametrize(
    ("sent", "limits", "reason"),
    [
        pytest.param(b"", {"handshake_ms": 1_000}, "handshake_timeout", id="silent"),
        pytest.param(b"\0\0", {"handshake_ms": 1_000}, "handshake_timeout", id="almost silent"),
        pytest.param(b"\0\0\0\x20\0", {"partial_frame_ms": 1_000}, "partial_frame_timeout", id="trickling"),
    ],
)
async def test_a_sweep_closes_connections_past_a_deadline(
    start_listener: Start,
    connect: Connect,
    probe: Probe,
    clock: ManualClock,
    sent: bytes,
    limits: dict[str, int],
    reason: str,
) -> None:
    """With one line in the log."""
    listener = await start_listener(**limits)
    client = await connect(listener)
    client.send(sent)
    await probe.until(lambda: probe.opened == 1 and probe.received_bytes == len(sent))
    clock.advance_ms(1_000)
    listener.sweep()
    clock.advance_ms(1)
    with capture_logs() as logs:
        listener.sweep()
        assert await client.rest() == b""
    assert [(line["peer"], line["reason"]) for line in logs] == [(client.name, reason)]


async def test_a_connection_idle_for_ten_minutes_is_closed(
    start_listener: Start, connect: Connect, handler: Handler, probe: Probe, clock: ManualClock, request_of: RequestOf
) -> None:
    """Kafka's connections.max.idle.ms."""
    handler.decide = handler.answer
    listener = await start_listener()
    client = await connect(listener)
    client.send(request_of(1))
    await client.answer()
    clock.advance_ms(600_001)
    with capture_logs() as logs:
        listener.sweep()
        assert await client.rest() == b""
    assert [line["event"] for line in logs] == ["idle connection closed"]


async def test_a_standstill_of_the_process_closes_no_connection(
    start_listener: Start, connect: Connect, handler: Handler, probe: Probe, clock: ManualClock, request_of: RequestOf
) -> None:
    """Nobody read while it lasted: no client was idle, nor slow to send the rest of a request."""
    handler.decide = handler.answer
    running = RunningClock(clock, RunningClock.MAX_GAP_OF_CLIENTS_MS)
    listener = await start_listener(deadline_clock=running)
    idle, slow, silent = [await connect(listener) for _ in range(3)]
    for client in (idle, slow):
        client.send(request_of(1))
        await client.answer()
    await probe.until(lambda: probe.opened == 3)
    late = request_of(2)
    slow.send(late[:10])
    await probe.until(lambda: probe.received_bytes % len(late) == 10)
    clock.advance_ms(3_600_000)
    running.beat()
    assert probe.refusals == []
    slow.send(late[10:])
    silent.send(request_of(3))
    idle.send(request_of(4))
    for client in (slow, silent, idle):
        await client.answer()


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of Linux's loopback")
async def test_a_port_is_kept_on_every_address_of_the_host(routes: Routes, clock: ManualClock) -> None:
    first = listener_of(routes, listener_parts(ConnectionLimits(), clock))
    one = socket.create_server(("127.0.0.1", 0))
    other = socket.create_server(("127.0.0.2", one.getsockname()[1]))
    addresses = [one.getsockname(), other.getsockname()]
    await first.start("127.0.0.1", 0, [one, other])
    kept = first.keep_port()
    await first.stop(0)
    assert [each.getsockname() for each in kept] == addresses
    again = listener_of(routes, listener_parts(ConnectionLimits(), clock))
    await again.start("127.0.0.1", 0, kept)
    for address in addresses:
        socket.create_connection(address, timeout=5).close()
    await again.stop(0)


async def test_a_listener_without_sockets_of_its_own_holds_no_port(
    routes: Routes, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not started, or its event loop has them and would listen on."""
    listener = listener_of(routes, listener_parts(ConnectionLimits(), clock))
    assert listener.hold_port() == []
    monkeypatch.setattr("purgatorio.broker.server.listener.can_watch_sockets", lambda loop: False)
    await listener.start("127.0.0.1", 0)
    assert listener.hold_port() == []
    (kept,) = listener.keep_port()
    await listener.stop(0)
    socket.create_connection(kept.getsockname(), timeout=5).close()
    kept.close()


async def test_the_sweep_runs_by_itself(
    start_listener: Start, connect: Connect, clock: ManualClock, probe: Probe
) -> None:
    """Every `sweep_interval_ms`, by the listener's clock."""
    listener = await start_listener(sweep_interval_ms=700, handshake_ms=1_000)
    client = await connect(listener)
    await probe.until(lambda: probe.opened == 1)
    clock.advance_ms(1_399)
    assert probe.refusals == []
    clock.advance_ms(1)
    assert probe.refusals == [Refusal.HANDSHAKE_TIMEOUT]
    assert await client.rest() == b""


async def test_a_client_that_never_reads_is_bounded_and_then_closed(
    start_listener: Start, handler: Handler, probe: Probe, clock: ManualClock, request_of: RequestOf
) -> None:
    """It asks for 12 MB in small pieces: answers back up, reading pauses, and when nothing moves it is closed."""
    handler.decide = handler.answer_large
    listener = await start_listener(write_high_water_bytes=20_000, write_low_water_bytes=10_000, write_stall_ms=1_000)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(listener.address)
        client.sendall(b"".join(request_of(number) for number in range(2_000)))
        await probe.until(lambda: probe.received_bytes > 0)
        while probe.closed == 0:
            unsent_bytes = sum(snapshot.unsent_bytes for snapshot in listener.connections())
            assert unsent_bytes <= 20_000 + 2 * 6_100
            clock.advance_ms(1_001)
            listener.sweep()
            await asyncio.sleep(0)
    assert probe.refusals == [Refusal.SLOW_READER]
    assert probe.sent_bytes < 12_000_000


# Stopping.


async def _cannot_connect(address: tuple[str, int]) -> bool:
    try:
        _, writer = await asyncio.open_connection(*address)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False


async def test_stopping_lets_parked_requests_be_answered(
    start_listener: Start, connect: Connect, handler: Handler, probe: Probe, request_of: RequestOf
) -> None:
    """First no more comes in, then the broker answers parked requests, then the connections close."""
    listener = await start_listener()
    client = await connect(listener)
    client.send(request_of(1) + request_of(2))
    await probe.until(lambda: len(handler.parked) == 2)
    listener.stop_accepting()
    client.send(request_of(3))
    assert await _cannot_connect(listener.address)
    for reply in reversed(handler.parked):
        handler.answer(reply)
    await listener.drain(2_000)
    assert [(await client.answer())[0] for _ in range(2)] == [1, 2]
    assert await client.rest() == b""
    assert len(handler.contexts) == 2


async def test_draining_waits_for_answers_that_come_meanwhile(
    start_listener: Start, connect: Connect, handler: Handler, probe: Probe, request_of: RequestOf
) -> None:
    """And returns as soon as the last has left."""
    listener = await start_listener()
    client = await connect(listener)
    client.send(request_of(1))
    await probe.until(lambda: len(handler.parked) == 1)
    draining = asyncio.ensure_future(listener.drain(60_000))
    asyncio.get_running_loop().call_soon(lambda: handler.answer(handler.parked[0]))
    await draining
    assert (await client.answer())[0] == 1


async def test_what_is_not_answered_in_time_is_aborted(
    start_listener: Start, connect: Connect, handler: Handler, probe: Probe, clock: ManualClock, request_of: RequestOf
) -> None:
    """The clock tells when the grace is over; late answers go nowhere."""
    listener = await start_listener()
    client = await connect(listener)
    client.send(request_of(1))
    await probe.until(lambda: len(handler.parked) == 1)
    stopping = asyncio.ensure_future(listener.stop(grace_ms=2_000))
    with capture_logs() as logs:
        await clock.run_for(1_999)
        assert (logs, stopping.done()) == ([], False)
        await clock.run_for(1)
        await stopping
        handler.answer(handler.parked[0])
    assert [(line["event"], line["count"]) for line in logs] == [("connections aborted", 1)]
    assert await client.rest() == b""


async def test_stopping_leaves_nothing(
    routes: Routes, clock: ManualClock, probe: Probe, handler: Handler, connect: Connect, request_of: RequestOf
) -> None:
    """No task, no alarm, no connection, and the port is free for the next."""
    loop = asyncio.get_running_loop()
    tasks_before = asyncio.all_tasks()
    listener = listener_of(routes, listener_parts(ConnectionLimits(), clock, observer=probe))
    await listener.start("127.0.0.1", 0)
    clients = [await connect(listener) for _ in range(3)]
    for client in clients[:2]:
        client.send(request_of(1) + request_of(2)[:7])
    await probe.until(lambda: len(handler.parked) == 2)
    handler.answer(handler.parked[0])
    await listener.stop(grace_ms=0)  # which a clock that stands still does not hold up
    assert probe.closed == probe.opened == 3
    assert asyncio.all_tasks() == tasks_before
    assert clock.next_alarm_ms is None
    assert [timer for timer in loop._scheduled if not timer.cancelled()] == []  # type: ignore[attr-defined]
    assert (listener.memory.used_bytes, listener.memory.waiting, listener.connections()) == (0, 0, [])
    again = listener_of(routes, listener_parts(ConnectionLimits(), clock))
    await again.start(*listener.address)
    await again.stop(0)


async def test_a_cancelled_drain_aborts_the_connections(
    start_listener: Start, connect: Connect, handler: Handler, probe: Probe, request_of: RequestOf
) -> None:
    """They end as they would at the end of the grace."""
    listener = await start_listener()
    client = await connect(listener)
    client.send(request_of(1))
    await probe.until(lambda: len(handler.parked) == 1)
    draining = asyncio.ensure_future(listener.drain(60_000))
    asyncio.get_running_loop().call_soon(draining.cancel)
    with pytest.raises(asyncio.CancelledError):
        await draining
    assert await client.rest() == b""


async def test_stopping_twice_or_before_the_start_is_harmless(
    routes: Routes, clock: ManualClock, start_listener: Start
) -> None:
    """So that a failed start can be cleaned up."""
    listener = await start_listener()
    await asyncio.gather(listener.stop(100), listener.stop(100))
    await listener.stop(0)
    await listener_of(routes, listener_parts(ConnectionLimits(), clock)).stop(0)


async def test_a_listener_starts_once_and_knows_its_address_then(routes: Routes, clock: ManualClock) -> None:
    """Not earlier."""
    listener = listener_of(routes, listener_parts(ConnectionLimits(), clock))
    with pytest.raises(RuntimeError, match="not started"):
        _ = listener.address
    await listener.start("127.0.0.1", 0)
    assert listener.address[1] > 0
    with pytest.raises(RuntimeError, match="started before"):
        await listener.start("127.0.0.1", 0)
    await listener.stop(0)


async def test_the_listener_works_on_uvloop(
    routes: Routes, clock: ManualClock, handler: Handler, request_of: RequestOf
) -> None:
    """Answers, back-pressure and stopping, on the loop that the broker runs on."""
    uvloop = pytest.importorskip("uvloop")
    handler.decide = handler.answer_large

    async def main() -> tuple[list[int], dict[str, Any]]:
        limits = ConnectionLimits(write_high_water_bytes=10_000, write_low_water_bytes=5_000, max_requests_per_turn=7)
        listener = listener_of(routes, listener_parts(limits, clock))
        await listener.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listener.address)
        writer.write(b"".join(request_of(number) for number in range(1_000)))
        numbers = []
        for _ in range(1_000):
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            numbers.append(int.from_bytes(frame[:4]))
        await listener.stop(1_000)
        rest = await reader.read()
        writer.close()
        return numbers, {"rest": rest, "tasks": len(asyncio.all_tasks()), "connections": listener.connections()}

    def run() -> tuple[list[int], dict[str, Any]]:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())

    numbers, left = await asyncio.to_thread(run)
    assert numbers == list(range(1_000))
    assert left == {"rest": b"", "tasks": 1, "connections": []}
