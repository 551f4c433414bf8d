"""Connections that come too fast, on a real socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from purgatorio.broker.layers.quotas.connection_rates import ConnectionRates
from purgatorio.broker.metadata.clients import QuotaEntity
from purgatorio.broker.server.limits import Refusal
from purgatorio.broker.server.listener import Listener
from purgatorio.broker.time.rates import RateWindow
from purgatorio.purgatory.clock import ManualClock
from tests.logs import capture_logs

if TYPE_CHECKING:
    from .conftest import Client, Handler, Probe

Start = Callable[..., Awaitable[Listener]]
Connect = Callable[[Listener], Awaitable["Client"]]
RequestOf = Callable[..., bytes]


@pytest.fixture
def rates(clock: ManualClock) -> ConnectionRates:
    return ConnectionRates(RateWindow(), clock)


async def test_a_connection_of_an_address_above_its_rate_is_kept_unread_and_closed(
    start_listener: Start,
    connect: Connect,
    handler: Handler,
    probe: Probe,
    rates: ConnectionRates,
    clock: ManualClock,
    request_of: RequestOf,
) -> None:
    rates.quotas_changed({QuotaEntity(ip="127.0.0.1"): {"connection_creation_rate": 0.1}})
    handler.decide = handler.answer
    listener = await start_listener(rates)
    first = await connect(listener)
    with capture_logs() as logs:
        second = await connect(listener)
        await probe.until(lambda: probe.opened == 2)
    assert [line["reason"] for line in logs] == [Refusal.CONNECTION_RATE_OF_ADDRESS]
    second.send(request_of(1))
    first.send(request_of(2))
    assert (await first.answer())[0] == 2
    assert len(handler.contexts) == 1
    clock.advance_ms(999)
    assert probe.closed == 0
    clock.advance_ms(1)
    assert await second.rest() == b""
    assert len(handler.contexts) == 1


async def test_connections_that_come_too_fast_for_the_broker_are_read_later(
    start_listener: Start,
    connect: Connect,
    handler: Handler,
    probe: Probe,
    rates: ConnectionRates,
    clock: ManualClock,
    request_of: RequestOf,
) -> None:
    rates.broker_limit = 0.1
    handler.decide = handler.answer
    listener = await start_listener(rates)
    clients = [await connect(listener) for _ in range(3)]
    await probe.until(lambda: probe.opened == 3)
    clients[1].send(request_of(1))
    clients[2].writer.transport.abort()
    clock.advance_ms(1_000)
    assert (await clients[1].answer())[0] == 1


async def test_an_address_may_have_another_number_of_connections(
    start_listener: Start, connect: Connect, handler: Handler, request_of: RequestOf
) -> None:
    listener = await start_listener(max_connections_per_ip=5, max_connections_of={"127.0.0.1": 1, "192.0.2.1": 9})
    handler.decide = handler.answer
    first = await connect(listener)
    first.send(request_of(1))
    await first.answer()
    with capture_logs() as logs:
        assert await (await connect(listener)).rest() == b""
    assert logs[0]["detail"] == "1 connections of 127.0.0.1 are open, as many as max.connections.per.ip allows"
