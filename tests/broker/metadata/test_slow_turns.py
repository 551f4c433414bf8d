"""Brokers that share an event loop keep their leases however slow its turns are; one that hangs alone loses its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace

import pytest

from purgatorio.broker.metadata.broker_lifecycle import BrokerLifecycleManager, LeaseTerms
from purgatorio.broker.metadata.controller import TopicSettings
from purgatorio.broker.metadata.embedded import LEASE_CHECK_INTERVAL_MS, DirectLink, EmbeddedStore
from purgatorio.broker.time.running_clock import RunningClock
from purgatorio.purgatory.clock import ManualClock
from tests.endpoints import plaintext

SESSION_MS, HEARTBEAT_MS = 400, 100
"""The defaults of broker.session.timeout.ms and broker.heartbeat.interval.ms."""
BROKERS = (1, 2, 3)


class TurningClock(ManualClock):
    """A clock that goes on while callbacks run, and rings between two turns only, as an event loop's timers do."""

    def go_on(self, delta_ms: float) -> None:
        """Let time pass within a turn."""
        self._now_ms += delta_ms


class OneLoop:
    """Three brokers and their store in one event loop, whose turns take as long as a test says.

    Args:
        wakes_at_once: whether that which a timer wakes runs in the turn in which the timer rings, as in uvloop; in
            asyncio's own loop it runs in the next one.
    """

    def __init__(self, wakes_at_once: bool) -> None:
        self._wakes_at_once = wakes_at_once
        self.clock = TurningClock()
        self.running = RunningClock(self.clock)
        self.rng = random.Random(1)
        self.left_ms = 0.0  # of the present turn
        self.store = EmbeddedStore("cluster", self.call_soon, self.running)
        self.links = {broker_id: DirectLink(self.call_soon) for broker_id in BROKERS}
        self.lost: list[int] = []
        self.brokers = {broker_id: self._broker(broker_id) for broker_id in BROKERS}
        self.tasks: list[asyncio.Task[None]] = []

    def _broker(self, broker_id: int) -> BrokerLifecycleManager:
        lifecycle = BrokerLifecycleManager(
            broker_id,
            self.store.open(self.links[broker_id]),
            clock=self.running,
            terms=LeaseTerms(SESSION_MS, HEARTBEAT_MS),
            rack=None,
            settings=TopicSettings(),
        )
        lifecycle.replicas = SimpleNamespace(lease_lost=lambda: self.lost.append(broker_id))
        return lifecycle

    async def start(self) -> None:
        for broker_id, broker in self.brokers.items():
            await broker.register(plaintext("host", 9090 + broker_id))
        self.tasks = [asyncio.create_task(each.run()) for each in (self.running, self.store, *self.brokers.values())]

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Carry a message in the next turn, of which a part has passed by then."""

        def carry() -> None:
            self.pass_(self.rng.uniform(0, self.left_ms))
            callback()

        asyncio.get_running_loop().call_soon(carry)

    def pass_(self, part_ms: float) -> None:
        self.left_ms -= part_ms
        self.clock.go_on(part_ms)

    async def turn(self, takes_ms: float) -> None:
        """Make one turn of the loop."""
        self.left_ms = takes_ms
        if self._wakes_at_once:
            self.clock.advance_ms(0)
        else:
            asyncio.get_running_loop().call_soon(self.clock.advance_ms, 0)
        await asyncio.sleep(0)
        self.pass_(self.left_ms)

    @property
    def fenced(self) -> list[int]:
        return [broker_id for broker_id, broker in self.store.image.brokers.items() if broker.fenced]


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
async def one(request: pytest.FixtureRequest) -> AsyncIterator[OneLoop]:
    one = OneLoop(request.param)
    await one.start()
    yield one
    await one.stop()


def some_turns(kind: str, count: int) -> Iterator[float]:
    """The lengths of turns, in milliseconds."""
    rng = random.Random(kind)
    for _ in range(count):
        if kind == "starved now and then":
            yield rng.choice((1, 5, 20, 60, 99, 101, 400))
        elif kind == "just over a heartbeat":
            yield rng.uniform(90, 110)
        else:
            yield rng.uniform(50, 300)


@pytest.mark.parametrize("kind", ["starved", "starved now and then", "just over a heartbeat"])
async def test_a_loop_with_many_slow_turns_loses_no_lease(one: OneLoop, kind: str) -> None:
    """A starved loop has turns of 40 to 390 ms, of which 2 to 9 ms are its own work; a heartbeat needs several."""
    for takes_ms in some_turns(kind, 1_000):
        await one.turn(takes_ms)
        assert all(broker.may_lead() for broker in one.brokers.values()), f"a lease lapsed at {one.clock.now_ms()} ms"
    assert (one.lost, one.fenced) == ([], [])


@pytest.mark.parametrize("kind", ["starved", "starved now and then", "just over a heartbeat"])
async def test_a_broker_that_is_cut_off_in_a_slow_loop_stops_leading_before_it_is_fenced(
    one: OneLoop, kind: str
) -> None:
    one.links[1].hold()
    led_at_last_ms = 0
    for takes_ms in some_turns(kind, 200):
        await one.turn(takes_ms)
        if one.brokers[1].may_lead():
            led_at_last_ms = one.clock.now_ms()
            assert one.fenced == []
        if one.fenced:
            break
    assert one.fenced == [1]
    assert led_at_last_ms <= one.clock.now_ms()
    assert one.lost == [1], "the others keep their leases"


async def test_a_broker_that_hangs_alone_is_fenced_within_its_session_timeout(one: OneLoop) -> None:
    """While turns are short, no time is left out."""
    for _ in range(500):
        await one.turn(1)
    one.links[1].hold()
    began_ms = one.clock.now_ms()
    while not one.fenced:
        await one.turn(1)
    took_ms = one.clock.now_ms() - began_ms
    assert SESSION_MS - HEARTBEAT_MS < took_ms <= SESSION_MS + LEASE_CHECK_INTERVAL_MS + 10
    assert one.running.stood_still_ms == 0
