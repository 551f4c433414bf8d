"""Simulated transactional clients on real brokers: writers end by themselves, and a group processes exactly once."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator

import pytest

from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.simulation.clients.clients import Client, Output
from purgatorio.simulation.clients.consumers import Reader
from purgatorio.simulation.clients.plans import (
    OLD,
    TV1,
    TV2,
    ProducerVersions,
    TransactionPlan,
    TransactionShared,
)
from purgatorio.simulation.clients.transaction_clients import TransactionWriters
from purgatorio.simulation.history.history import Fault, GroupTransforms, History, TxnBegan, TxnEnded, TxnInit, TxnWrote
from purgatorio.simulation.run import Scenario, simulate
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import SimulatedClock, SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork

pytestmark = pytest.mark.simulation


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


def written(loop: SimulatedLoop, plan: TransactionPlan, *, seconds: float, kill: bool = False) -> History:
    """Let writers write to two partitions for a time, and return the history; `kill` kills one every second."""
    history, clock = History(), SimulatedClock(loop)
    rng = random.Random(3)

    async def main() -> None:
        cluster = SimulatedCluster(loop, SimulatedNetwork(loop, rng), rng, transaction_state_log_num_partitions=1)
        await cluster.start()
        created: asyncio.Future[object] = loop.create_future()
        new = [NewTopic("orders", 2, 3)]
        cluster.store.open().submit(
            lambda image: create_topics(image, new, settings=TopicSettings(), rng=random.Random(0)), created.set_result
        )
        await created
        shared = TransactionShared(
            plan=plan,
            outputs=(Output("orders", 0), Output("orders", 1)),
            values=itertools.count(1),
            reader=Reader(),
            new_client=lambda name: Client(
                name, cluster.addresses, clock=clock, rng=random.Random(name), history=history
            ),
            is_restless=lambda: loop.time() < ends_at,
            pause_ms=(20.0, 60.0),
        )
        ends_at = loop.time() + seconds
        writers = TransactionWriters(shared, rng, first=1, stopped=lambda: loop.time() > ends_at)
        assert [place.name for place in writers.places] == [f"client-{nth}" for nth in range(1, plan.writers + 1)]
        for place in writers.places:
            place.start(loop)
        while loop.time() < ends_at:
            await asyncio.sleep(1)
            if kill:
                loop.node("client-1").kill()
                writers.places[0].start(loop)
        await asyncio.gather(*(task for place in writers.places for task in place.tasks))
        await cluster.stop()

    loop.run_until_complete(main())
    return history


@pytest.mark.parametrize("versions", [OLD, TV1, TV2])
def test_writers_commit_most_transactions_and_abort_some(loop: SimulatedLoop, versions: ProducerVersions) -> None:
    history = written(loop, TransactionPlan(versions, writers=2), seconds=8)
    outcomes = [event.outcome for event in history.of(TxnEnded)]
    assert outcomes.count("committed") > 3 * outcomes.count("aborted") // 2 > 0
    assert "unknown" not in outcomes
    assert {event.partition for event in history.of(TxnWrote)} == {"orders-0", "orders-1"}


def test_a_zombie_goes_on_beside_its_successor(loop: SimulatedLoop) -> None:
    history = written(loop, TransactionPlan(TV1, writers=1, zombies=True), seconds=20)
    inits = [event.client for event in history.of(TxnInit)]
    begun = {event.txn: event.client for event in history.of(TxnBegan)}
    newest, zombies = "", set()
    for event in history:
        if isinstance(event, TxnInit):
            newest = event.client
        elif isinstance(event, TxnEnded) and begun[event.txn] != newest:
            zombies.add(begun[event.txn])
    assert len(set(inits)) > 1
    assert zombies, "it ended its transaction after another instance had its transactional id"


def test_the_next_client_of_a_killed_one_has_its_transactional_id(loop: SimulatedLoop) -> None:
    history = written(loop, TransactionPlan(TV1, writers=1), seconds=4, kill=True)
    inits = list(history.of(TxnInit))
    assert len({event.client for event in inits}) >= 4
    assert {event.transactional_id for event in inits} == {"writer-0"}
    assert [event.epoch for event in inits] == sorted({event.epoch for event in inits})


def test_the_nemesis_kills_brokers_of_transactions_in_doubt() -> None:
    report = simulate(3, Scenario(seconds=4.0, faults=("in-doubt",)))
    assert report.anomalies == []
    assert any(event.what.startswith("kill broker") for event in report.history.of(Fault))


def test_without_transactions_none_is_in_doubt() -> None:
    report = simulate(3, Scenario(seconds=2.0, faults=("in-doubt",), swarm=False))
    assert [event.what for event in report.history.of(Fault)] == ["all healed"]


def test_a_group_processes_each_record_once() -> None:
    """Seed 3 has such a group; that each input is in its output once is among the checks."""
    report = simulate(3, Scenario(seconds=4.0))
    assert report.anomalies == []
    assert [event.output for event in report.history.of(GroupTransforms)] == ["shipped"]
    assert sum(1 for event in report.history.of(TxnWrote) if event.source) > 20
