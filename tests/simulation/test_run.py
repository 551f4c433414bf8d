"""Whole simulations hold the bars: what they cost, and how soon a cluster goes on without its leader."""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import replace
from types import FrameType

import pytest

from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.simulation.clients.clients import Client, Output, SimulatedProducer
from purgatorio.simulation.history.history import Acked, History
from purgatorio.simulation.run import Scenario, simulate
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import Node, SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork
from tests.histories import seeds

pytestmark = pytest.mark.simulation

CALLBACKS_PER_SECOND = 600
"""Callbacks of the event loop in a virtual second of a quiet cluster; they were 494 when this bar was set."""
CALLS_PER_SECOND = 26_000
"""Calls of Python functions in a virtual second of a quiet cluster; they were 22,300 when this bar was set.

That took 7 to 10 ms on one core. The number of calls is the same on a busy machine.
"""
QUIET = Scenario(partitions=1, pause_ms=(500.0, 1500.0), swarm=False)


@pytest.mark.no_cover  # other simulations cover what it does, in less time
@pytest.mark.timeout(300)
@pytest.mark.heavy
def test_a_thousand_seconds_of_three_brokers_are_simulated_with_few_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    callbacks = 0
    run_handle = SimulatedLoop._run_handle

    def counting(node: Node | None, handle: asyncio.Handle) -> None:
        nonlocal callbacks
        callbacks += 1
        run_handle(node, handle)

    monkeypatch.setattr(SimulatedLoop, "_run_handle", staticmethod(counting))
    report = simulate(1, replace(QUIET, seconds=1000.0))
    assert report.anomalies == []
    assert report.virtual_seconds >= 1000
    assert callbacks <= CALLBACKS_PER_SECOND * report.virtual_seconds


@pytest.mark.no_cover
@pytest.mark.timeout(300)
def test_a_simulated_second_costs_few_calls() -> None:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        report = simulate(1, replace(QUIET, seconds=100.0))
    finally:
        sys.setprofile(None)
    assert calls <= CALLS_PER_SECOND * report.virtual_seconds


@pytest.mark.parametrize("seed", seeds(20, quick=3))
def test_after_the_leader_is_killed_the_next_acknowledgement_comes_within_one_and_a_half_seconds(seed: int) -> None:
    loop = SimulatedLoop(random.Random(seed))
    try:
        assert loop.run_until_complete(failover_ms(loop, random.Random(seed))) <= 1500
    finally:
        loop.close()


async def failover_ms(loop: SimulatedLoop, rng: random.Random) -> int:
    """Kill a leader of a cluster with default settings; how long its producer waits for the next acknowledgement."""
    cluster = SimulatedCluster(loop, SimulatedNetwork(loop, rng), rng, min_insync_replicas=2)
    await cluster.start()
    created: asyncio.Future[object] = loop.create_future()
    new = NewTopic("orders", 1, 3)
    cluster.store.open().submit(
        lambda image: create_topics(image, [new], settings=TopicSettings(), rng=random.Random(0)), created.set_result
    )
    await created
    history = History()
    client = Client("producer", cluster.addresses, clock=cluster.clock, rng=rng, history=history)
    producer = SimulatedProducer(
        client,
        Output("orders", 0),
        acks=-1,
        values=iter(range(1_000_000)),
        pause_ms=(1, 10),
    )
    stopping = False
    running = loop.node("producer").spawn(producer.run(lambda: stopping))
    await asyncio.sleep(1 + rng.random())
    killed_ms = cluster.clock.now_ms()
    cluster.kill_broker(cluster.partitions["orders", 0].leader)
    await asyncio.sleep(3)
    stopping = True
    await running
    await cluster.stop()
    return min(ack.time_ms for ack in history.of(Acked) if ack.time_ms > killed_ms) - killed_ms
