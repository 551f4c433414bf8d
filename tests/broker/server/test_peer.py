"""Connections to other brokers: against our own listener, and against peers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from purgatorio.broker.server.listener import Listener
from purgatorio.broker.server.peer import PeerBusy, PeerConnection
from purgatorio.broker.time.running_clock import RunningClock
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import EncodeError
from purgatorio.protocol.framing import GATHERED_ABOVE_BYTES, gather_plain
from purgatorio.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from purgatorio.purgatory.clock import ManualClock
from tests.logs import capture_logs

if TYPE_CHECKING:
    from .conftest import Handler, Probe

Start = Callable[..., Awaitable[Listener]]
MakePeer = Callable[..., PeerConnection]


@pytest.fixture
async def make_peer(clock: ManualClock) -> AsyncIterator[MakePeer]:
    """Makes peer connections, and closes them in the end."""
    made: list[PeerConnection] = []

    def make(**options: Any) -> PeerConnection:
        peer = PeerConnection(clock, client_id="broker-1", **options)
        made.append(peer)
        return peer

    yield make
    for peer in made:
        peer.close()
        await peer.wait_closed()


async def test_a_large_answer_lies_in_memory_that_was_given_for_it(
    start_listener: Start, make_peer: MakePeer, handler: Handler, probe: Probe
) -> None:
    asked: list[int] = []

    def gather(size_bytes: int) -> memoryview:
        asked.append(size_bytes)
        return gather_plain(size_bytes)

    peer = make_peer(gather=gather)
    versions = [ApiVersion(api_key=3, max_version=each % 100) for each in range(100_000)]
    handler.decide = lambda reply: reply(ApiVersionsResponse(api_keys=versions))
    await peer.connect(*(await start_listener()).address)
    response = await _ask(peer)
    assert response.api_keys == versions
    assert GATHERED_ABOVE_BYTES < max(asked) <= 601_000


def _ask(peer: PeerConnection, timeout_ms: int = 30_000) -> asyncio.Future[Any]:
    request = peer.request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), timeout_ms=timeout_ms)
    return asyncio.ensure_future(request)


async def test_pipelined_requests_get_their_own_answers(
    start_listener: Start, make_peer: MakePeer, handler: Handler, probe: Probe
) -> None:
    """However they were completed."""
    listener = await start_listener()
    peer = make_peer()
    await peer.connect(*listener.address)
    asked = [_ask(peer) for _ in range(5)]
    await probe.until(lambda: len(handler.parked) == 5)
    assert handler.contexts[0].client_id == "broker-1"
    assert peer.outstanding == 5
    for number in (3, 1, 4, 0, 2):
        handler.parked[number](ApiVersionsResponse(error_code=number))
    assert [(await answer).error_code for answer in asked] == [0, 1, 2, 3, 4]
    assert peer.outstanding == 0


async def test_an_answer_is_handed_over_as_it_arrives(
    start_listener: Start, make_peer: MakePeer, handler: Handler
) -> None:
    """Without a task: the next request may be sent from within."""
    handler.decide = handler.answer
    listener = await start_listener()
    peer = make_peer()
    await peer.connect(*listener.address)
    answered = asyncio.Event()
    left = 3

    def done(response: Any, error: Exception | None) -> None:
        nonlocal left
        assert isinstance(response, ApiVersionsResponse)
        assert error is None
        left -= 1
        if left:
            peer.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), timeout_ms=1_000, done=done)
        else:
            answered.set()

    peer.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), timeout_ms=1_000, done=done)
    await answered.wait()


async def test_too_many_outstanding_requests_are_refused(
    start_listener: Start, make_peer: MakePeer, handler: Handler, probe: Probe
) -> None:
    """The connection goes on."""
    listener = await start_listener()
    peer = make_peer(max_outstanding_requests=1)
    await peer.connect(*listener.address)
    first = _ask(peer)
    await probe.until(lambda: len(handler.parked) == 1)
    with pytest.raises(PeerBusy):
        await _ask(peer)
    handler.answer(handler.parked.pop())
    await first
    handler.decide = handler.answer
    await _ask(peer)


async def test_a_request_that_cannot_be_encoded_fails_alone(
    start_listener: Start, make_peer: MakePeer, handler: Handler
) -> None:
    """Nothing of it is sent."""
    handler.decide = handler.answer
    listener = await start_listener()
    peer = make_peer()
    await peer.connect(*listener.address)
    bad = ApiVersionsRequest(client_software_name="x" * 40_000)
    with pytest.raises(EncodeError):
        await peer.request(ApiKey.API_VERSIONS, 3, bad, timeout_ms=1_000)
    assert (peer.outstanding, peer.closed) == (0, False)
    await _ask(peer)


async def test_a_cancelled_request_leaves_the_others_theirs(
    start_listener: Start, make_peer: MakePeer, handler: Handler, probe: Probe
) -> None:
    """Its answer is dropped when it comes."""
    listener = await start_listener()
    peer = make_peer()
    await peer.connect(*listener.address)
    first, second = _ask(peer), _ask(peer)
    await probe.until(lambda: len(handler.parked) == 2)
    first.cancel()
    for number, reply in enumerate(handler.parked):
        reply(ApiVersionsResponse(error_code=number))
    assert (await second).error_code == 1
    assert first.cancelled()


# The end of a connection.


async def test_all_outstanding_requests_fail_when_the_connection_is_lost(
    start_listener: Start, make_peer: MakePeer, handler: Handler, probe: Probe
) -> None:
    """And later ones at once."""
    listener = await start_listener()
    peer = make_peer()
    await peer.connect(*listener.address)
    asked = [_ask(peer) for _ in range(3)]
    await probe.until(lambda: len(handler.parked) == 3)
    with capture_logs():
        await listener.stop(0)
    for answer in asked:
        with pytest.raises(ConnectionError):
            await answer
    with pytest.raises(ConnectionError):
        await _ask(peer)
    assert peer.closed


async def test_closing_fails_what_is_outstanding_and_leaves_nothing(
    start_listener: Start, make_peer: MakePeer, handler: Handler, probe: Probe, clock: ManualClock
) -> None:
    """No task, no alarm, no socket."""
    listener = await start_listener(sweep_interval_ms=1_000_000)
    alarm_before_ms = clock.next_alarm_ms
    tasks_before = asyncio.all_tasks()
    peer = make_peer()
    await peer.connect(*listener.address)
    asked = _ask(peer)
    await probe.until(lambda: len(handler.parked) == 1)
    assert clock.next_alarm_ms == clock.now_ms() + 30_000
    peer.close()
    peer.close()
    with pytest.raises(ConnectionAbortedError):
        await asked
    await peer.wait_closed()
    handler.answer(handler.parked.pop())  # it might only have closed its sending end
    await probe.until(lambda: probe.closed == 1)
    assert clock.next_alarm_ms == alarm_before_ms
    assert asyncio.all_tasks() == tasks_before


async def test_a_request_past_its_deadline_ends_the_connection(
    start_listener: Start, make_peer: MakePeer, handler: Handler, probe: Probe, clock: ManualClock
) -> None:
    """Answers come in order, so nothing behind it could come either."""
    listener = await start_listener()
    peer = make_peer()
    await peer.connect(*listener.address)
    late, behind = _ask(peer, 1_000), _ask(peer, 5_000)
    await probe.until(lambda: len(handler.parked) == 2)
    clock.advance_ms(999)
    peer.expire()
    assert not peer.closed
    clock.advance_ms(1)
    peer.expire()
    with pytest.raises(TimeoutError):
        await late
    with pytest.raises(ConnectionError):
        await behind
    assert peer.closed


async def test_deadlines_are_noticed_by_themselves(
    start_listener: Start, make_peer: MakePeer, clock: ManualClock, handler: Handler, probe: Probe
) -> None:
    """One alarm, set for the earliest; a later request with an earlier deadline moves it."""
    listener = await start_listener()
    peer = make_peer()
    await peer.connect(*listener.address)
    long, short = _ask(peer, 600_000), _ask(peer, 2)
    await probe.until(lambda: len(handler.parked) == 2)
    clock.advance_ms(2)
    with pytest.raises(TimeoutError):
        await short
    with pytest.raises(ConnectionError):
        await long


async def test_a_standstill_of_the_process_ends_no_request_to_another_broker(
    start_listener: Start, handler: Handler, probe: Probe, clock: ManualClock
) -> None:
    """Its answer may wait unread in the socket; only time in which the event loop ran counts."""
    running = RunningClock(clock)
    peer = PeerConnection(running, client_id="broker-1")
    listener = await start_listener()
    await peer.connect(*listener.address)
    asked = _ask(peer, 30_000)
    await probe.until(lambda: len(handler.parked) == 1)
    clock.advance_ms(60_000)
    assert not peer.closed
    handler.parked[0](ApiVersionsResponse(error_code=0))
    assert (await asked).error_code == 0
    silent = _ask(peer, 30_000)
    await probe.until(lambda: len(handler.parked) == 2)
    for _ in range(30_000 // RunningClock.BEAT_MS):
        running.beat()
        clock.advance_ms(RunningClock.BEAT_MS)
    with pytest.raises(TimeoutError):
        await silent
    await peer.wait_closed()


async def test_a_peer_that_cannot_be_reached_is_an_os_error(make_peer: MakePeer) -> None:
    """It refuses the connection."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    server.close()
    await server.wait_closed()
    with pytest.raises(ConnectionRefusedError):
        await make_peer().connect(*address)


async def test_a_peer_that_does_not_accept_in_time_is_given_up(
    make_peer: MakePeer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In time by the clock that the connection was given."""

    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    connecting = asyncio.ensure_future(make_peer().connect("192.0.2.7", 9092, timeout_ms=3_000))
    await clock.run_for(2_999)
    assert not connecting.done()
    await clock.run_for(1)
    with pytest.raises(TimeoutError, match=r"192\.0\.2\.7:9092 did not accept a connection within 3000 ms"):
        await connecting


async def test_a_connection_is_used_once(start_listener: Start, make_peer: MakePeer) -> None:
    """Neither before it is connected, nor twice, nor after it was closed."""
    listener = await start_listener()
    peer = make_peer()
    with pytest.raises(ConnectionError, match="not connected"):
        await _ask(peer)
    await peer.connect(*listener.address)
    with pytest.raises(RuntimeError, match="once"):
        await peer.connect(*listener.address)
    closed = make_peer()
    closed.close()
    with pytest.raises(RuntimeError, match="once"):
        await closed.connect(*listener.address)


@contextlib.asynccontextmanager
async def _server_that_says(data: bytes) -> AsyncIterator[tuple[str, int]]:
    """A server that answers anything with `data`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b"\x7f\xff\xff\xff", "larger than the limit", id="frame bomb"),
        pytest.param(b"\xff\xff\xff\xff", "negative", id="negative size"),
        pytest.param(b"\0\0\0\x02xx", "header", id="too short"),
        pytest.param(b"\0\0\0\x0a" + (7).to_bytes(4) + bytes(6), "request 7 instead of 1", id="correlation id"),
        pytest.param(b"\0\0\0\x0a" + (1).to_bytes(4) + b"\0\0\x7f\xff\xff\xff", "api_keys", id="array count bomb"),
    ],
)
async def test_a_peer_that_sends_an_invalid_answer_is_dropped(make_peer: MakePeer, data: bytes, said: str) -> None:
    """The error says why."""
    async with _server_that_says(data) as address:
        peer = make_peer()
        await peer.connect(*address)
        with pytest.raises(ConnectionError, match=said):
            await _ask(peer)
        assert peer.closed


async def test_an_answer_for_which_the_system_has_no_memory_ends_the_connection(make_peer: MakePeer) -> None:
    def gather(_: int) -> memoryview:
        raise MemoryError

    async with _server_that_says((200_000).to_bytes(4) + bytes(100_000)) as address:
        peer = make_peer(gather=gather)
        await peer.connect(*address)
        with pytest.raises(ConnectionError, match="the system has no memory for an answer"):
            await _ask(peer)
        assert peer.closed


async def test_an_answer_without_a_request_ends_the_connection(make_peer: MakePeer) -> None:
    """The right one before it is delivered still."""
    answer = b"\0\0\0\x0a" + (1).to_bytes(4) + bytes(6)
    async with _server_that_says(answer + answer) as address:
        peer = make_peer()
        await peer.connect(*address)
        assert (await _ask(peer)).error_code == 0
        await peer.wait_closed()
        assert peer.closed


async def test_a_caller_that_fails_on_its_answer_harms_no_other(
    start_listener: Start, make_peer: MakePeer, handler: Handler
) -> None:
    """Its traceback is logged."""
    handler.decide = handler.answer
    listener = await start_listener()
    peer = make_peer()
    await peer.connect(*listener.address)

    def fail(response: Any, error: Exception | None) -> None:
        raise ZeroDivisionError("a bug")

    with capture_logs() as logs:
        peer.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), timeout_ms=1_000, done=fail)
        await _ask(peer)
    assert [line["event"] for line in logs] == ["handling an answer failed"]
