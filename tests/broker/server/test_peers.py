"""Requests to other brokers: each is answered once, whatever becomes of the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from purgatorio.broker.server import peers as peers_module
from purgatorio.broker.server.listener import Listener
from purgatorio.broker.server.peer import MAX_OUTSTANDING_REQUESTS, PeerBusy, PeerConnection
from purgatorio.broker.server.peers import REQUEST_TIMEOUT_MS, Peers
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import EncodeError
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from purgatorio.protocol.messages.produce import ProduceRequest
from purgatorio.purgatory.clock import ManualClock
from tests.error_log import ErrorLog
from tests.logs import capture_logs

if TYPE_CHECKING:
    from .conftest import Handler, Probe

Start = Callable[..., Awaitable[Listener]]


class Brokers:
    """The other brokers, as `Peers` connects to them."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.listeners: dict[int, Listener] = {}
        self.connections: list[PeerConnection] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.peers = Peers(self._connect)
        self.task: asyncio.Task[None] | None = None

    async def _connect(self, broker_id: int) -> PeerConnection:
        await self.gate.wait()
        if broker_id not in self.listeners:
            raise ConnectionRefusedError(f"broker {broker_id} is down")
        connection = PeerConnection(self.clock, client_id="broker-1")
        await connection.connect(*self.listeners[broker_id].address)
        self.connections.append(connection)
        return connection

    def start(self) -> None:
        self.task = asyncio.create_task(self.peers.run())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
        for connection in self.connections:
            await connection.wait_closed()

    def ask(self, broker_id: int = 2, message: Any = None, version: int = 0) -> asyncio.Future[Any]:
        """Send a request; the future has the response or the error, and fails if it is answered twice."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(response: Any, error: Exception | None) -> None:
            if error is None:
                future.set_result(response)
            else:
                future.set_exception(error)

        self.peers.send(broker_id, ApiKey.API_VERSIONS, version, message or ApiVersionsRequest(), done)
        return future


@pytest.fixture
async def brokers(clock: ManualClock) -> AsyncIterator[Brokers]:
    """Other brokers; none of them runs yet."""
    brokers = Brokers(clock)
    yield brokers
    await brokers.stop()


@pytest.fixture
async def second(brokers: Brokers, start_listener: Start) -> Listener:
    """Broker 2, which runs."""
    listener = brokers.listeners[2] = await start_listener()
    brokers.start()
    return listener


async def test_requests_share_one_connection_that_is_opened_for_the_first(
    brokers: Brokers, second: Listener, handler: Handler, probe: Probe
) -> None:
    asked = [brokers.ask() for _ in range(5)]
    assert brokers.connections == []
    await probe.until(lambda: len(handler.parked) == 5)
    for number in (3, 1, 4, 0, 2):
        handler.parked[number](ApiVersionsResponse(error_code=number))
    assert [(await each).error_code for each in asked] == [0, 1, 2, 3, 4]
    assert probe.opened == 1


async def test_requests_of_before_the_start_are_sent_then(
    brokers: Brokers, start_listener: Start, handler: Handler
) -> None:
    handler.decide = handler.answer
    brokers.listeners[2] = await start_listener()
    asked = brokers.ask()
    brokers.start()
    await asked


async def test_each_api_has_a_connection_of_its_own(
    brokers: Brokers, second: Listener, handler: Handler, probe: Probe
) -> None:
    """One that is answered late, such as WriteTxnMarkers, holds up no other."""
    slow: list[Any] = []
    brokers.peers.send(2, ApiKey.PRODUCE, 3, ProduceRequest(acks=-1), lambda *result: slow.append(result))
    await probe.until(lambda: len(handler.parked) == 1)
    handler.decide = handler.answer
    await brokers.ask()
    assert (slow, probe.opened) == ([], 2)


async def test_a_broker_that_cannot_be_reached_fails_all_that_wait_and_is_tried_again(
    brokers: Brokers, start_listener: Start, handler: Handler
) -> None:
    handler.decide = handler.answer
    brokers.start()
    asked = [brokers.ask() for _ in range(3)]
    for each in asked:
        with pytest.raises(ConnectionRefusedError):
            await each
    brokers.listeners[2] = await start_listener()
    await brokers.ask()


async def test_a_broker_that_cannot_be_reached_holds_up_no_other(
    brokers: Brokers, second: Listener, handler: Handler
) -> None:
    handler.decide = handler.answer
    with pytest.raises(ConnectionRefusedError):
        await brokers.ask(3)
    await brokers.ask(2)


async def test_requests_fail_when_the_connection_is_lost_and_later_ones_open_another(
    brokers: Brokers, second: Listener, handler: Handler, probe: Probe, start_listener: Start
) -> None:
    asked = [brokers.ask() for _ in range(3)]
    await probe.until(lambda: len(handler.parked) == 3)
    with capture_logs():
        await second.stop(0)
    for each in asked:
        with pytest.raises(ConnectionError):
            await each
    brokers.listeners[2] = await start_listener()
    handler.decide = handler.answer
    await brokers.ask()
    assert len(brokers.connections) == 2


async def test_requests_that_wait_for_others_go_over_the_next_connection(
    brokers: Brokers, second: Listener, handler: Handler, probe: Probe
) -> None:
    """They were not sent, so they need not fail with those that were."""
    sent = [brokers.ask() for _ in range(MAX_OUTSTANDING_REQUESTS)]
    await probe.until(lambda: len(handler.parked) > 0)
    waits = brokers.ask()
    handler.decide = handler.answer
    brokers.connections[0].close()
    for each in sent:
        with pytest.raises(ConnectionAbortedError):
            await each
    await waits
    assert len(brokers.connections) == 2


async def test_more_requests_than_a_connection_takes_wait_for_answers(
    brokers: Brokers, second: Listener, handler: Handler
) -> None:
    handler.decide = handler.answer
    asked = [brokers.ask() for _ in range(MAX_OUTSTANDING_REQUESTS * 3)]
    for each in asked:
        await each
    assert len(brokers.connections) == 1


async def test_a_caller_that_fails_stops_no_request_behind_it(
    brokers: Brokers, second: Listener, handler: Handler, error_log: ErrorLog
) -> None:
    handler.decide = handler.answer

    def fails(response: Any, error: Exception | None) -> None:
        raise ZeroDivisionError

    for _ in range(MAX_OUTSTANDING_REQUESTS):
        brokers.peers.send(2, ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), fails)
    await brokers.ask()
    brokers.peers.send(3, ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), fails)
    with pytest.raises(ConnectionRefusedError):
        await brokers.ask(3)
    for _ in range(MAX_OUTSTANDING_REQUESTS + 1):
        error_log.expect("ZeroDivisionError")


async def test_a_request_past_its_deadline_fails(
    brokers: Brokers, second: Listener, handler: Handler, probe: Probe, clock: ManualClock
) -> None:
    asked = brokers.ask()
    await probe.until(lambda: len(handler.parked) == 1)
    clock.advance_ms(REQUEST_TIMEOUT_MS)
    with pytest.raises(TimeoutError):
        await asked
    handler.decide = handler.answer
    await brokers.ask()


async def test_a_request_that_cannot_be_encoded_fails_alone(
    brokers: Brokers, second: Listener, handler: Handler
) -> None:
    handler.decide = handler.answer
    bad = brokers.ask(message=ApiVersionsRequest(client_software_name="x" * 40_000), version=3)
    good = brokers.ask()
    with pytest.raises(EncodeError):
        await bad
    await good


async def test_requests_beyond_the_limit_are_refused_at_once(
    brokers: Brokers, second: Listener, monkeypatch: pytest.MonkeyPatch, handler: Handler
) -> None:
    monkeypatch.setattr(peers_module, "MAX_WAITING", 2)
    handler.decide = handler.answer
    brokers.gate.clear()
    waiting = brokers.ask(), brokers.ask()
    refused = brokers.ask()
    assert isinstance(refused.exception(), PeerBusy)
    brokers.gate.set()
    for each in waiting:
        await each


async def test_stopping_fails_what_is_sent_what_waits_and_what_comes(
    brokers: Brokers, second: Listener, handler: Handler, probe: Probe
) -> None:
    """No task and no socket is left, and no caller waits."""
    sent = brokers.ask()
    await probe.until(lambda: len(handler.parked) == 1)
    tasks = asyncio.all_tasks() - {brokers.task}
    brokers.gate.clear()
    waits = brokers.ask(3)
    again: list[Exception | None] = []
    brokers.peers.send(
        2,
        ApiKey.API_VERSIONS,
        0,
        ApiVersionsRequest(),
        lambda response, error: brokers.peers.send(
            2, ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), lambda *result: again.append(result[1])
        ),
    )
    await asyncio.sleep(0)
    await brokers.stop()
    for each in (sent, waits, brokers.ask()):
        with pytest.raises(ConnectionAbortedError):
            await each
    assert [type(error) for error in again] == [ConnectionAbortedError]
    handler.decide = handler.answer  # the client might only have closed its sending end
    for reply in handler.parked:
        handler.answer(reply)
    await probe.until(lambda: probe.closed == 1)
    assert asyncio.all_tasks() <= tasks
