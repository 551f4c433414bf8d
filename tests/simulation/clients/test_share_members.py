"""Simulated share groups consume everything, also without members, sessions and brokers that die."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from purgatorio.broker.coordinator.share_settings import AUTO_OFFSET_RESET
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.broker.metadata.store import decide
from purgatorio.simulation.checks.share_checkers import check_shares
from purgatorio.simulation.checks.share_watch import recorded_shares
from purgatorio.simulation.clients.clients import Client, Output, SimulatedProducer
from purgatorio.simulation.clients.consumers import Reader
from purgatorio.simulation.clients.plans import SESSION_TIMEOUT_MS, ShareGroupShared, SharePlan
from purgatorio.simulation.clients.share_members import ShareGroupClients
from purgatorio.simulation.history.history import Acked, History
from purgatorio.simulation.history.share_events import ShareAcknowledged, ShareAcquired, ShareEnded, SharePromise
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import SimulatedClock, SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork
from tests.compiled import skip_if_compiled

PARTITIONS = 2
Test = Callable[[SimulatedCluster, ShareGroupClients], Coroutine[Any, Any, None]]


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


def run(loop: SimulatedLoop, plan: SharePlan, test: Test, *, restless: bool = False) -> History:
    """Run a test with a share group on three brokers, to which is produced for two seconds; return the history.

    Args:
        restless: whether its members are, for these seconds.
    """
    skip_if_compiled()
    history = History()
    clock = SimulatedClock(loop)

    async def main() -> None:
        cluster = SimulatedCluster(
            loop,
            SimulatedNetwork(loop, random.Random(1)),
            random.Random(2),
            offsets_topic_num_partitions=1,
            share_coordinator_state_topic_num_partitions=1,
            group_share_session_timeout_ms=SESSION_TIMEOUT_MS,
            group_share_record_lock_duration_ms=plan.lock_ms,
            group_share_delivery_count_limit=plan.delivery_limit,
        )
        await cluster.start()
        new = [NewTopic("orders", PARTITIONS, 3)]
        await decide(
            cluster.store.open(),
            lambda image: create_topics(image, new, settings=TopicSettings(), rng=random.Random(0)),
        )
        await decide(
            cluster.store.open(),
            lambda image: (image.with_group_configs(plan.group_id, {AUTO_OFFSET_RESET: "earliest"}), None),
        )
        history.record(SharePromise(clock.now_ms(), plan.group_id, plan.lock_ms, plan.delivery_limit))

        def new_client(name: str) -> Client:
            return Client(name, cluster.addresses, clock=clock, rng=random.Random(name), history=history)

        ends_at = loop.time() + 2
        values = itertools.count(1)
        producers = [
            SimulatedProducer(
                new_client(f"p{number}"), Output("orders", number), acks=-1, values=values, pause_ms=(20.0, 40.0)
            )
            for number in range(PARTITIONS)
        ]
        produced = [loop.node(each.client.name).spawn(each.run(lambda: loop.time() > ends_at)) for each in producers]
        topic_id = cluster.image.topics["orders"].topic_id
        shared = ShareGroupShared(
            plan=plan,
            partitions={(topic_id, number): TopicPartition("orders", number) for number in range(PARTITIONS)},
            reader=Reader(),
            new_client=new_client,
            is_restless=lambda: restless and loop.time() < ends_at,
        )
        clients = ShareGroupClients(cluster, shared, first=1)
        for place in clients.places:
            place.start(loop)
        await asyncio.wait(produced)
        await test(cluster, clients)
        assert await clients.settle(5.0) is None
        await clients.stop()
        await cluster.stop()

    with recorded_shares(history, clock):
        loop.run_until_complete(main())
    return history


async def nothing(cluster: SimulatedCluster, clients: ShareGroupClients) -> None:
    """Let the group be."""


def assert_delivered(history: History) -> None:
    """Check the history, and that it has all that was produced."""
    assert check_shares(history) == []
    got = {value for event in history.of(ShareAcquired) for _, value in event.values}
    assert got == {ack.value for ack in history.of(Acked)}
    assert len(got) > 50


@pytest.mark.parametrize("version", [1, 2])
def test_members_acquire_and_accept_all_records_once(loop: SimulatedLoop, version: int) -> None:
    history = run(loop, SharePlan("workers", members=3, version=version, lock_ms=5_000), nothing)
    assert_delivered(history)
    assert {event.delivery_count for event in history.of(ShareAcquired)} == {1}
    assert {event.outcome for event in history.of(ShareAcknowledged)} == {"acked"}
    assert len({event.member for event in history.of(ShareAcquired)}) == 3


def test_restless_members_give_back_reject_renew_and_let_locks_run_out(loop: SimulatedLoop) -> None:
    history = run(loop, SharePlan("workers", members=3, lock_ms=500), nothing, restless=True)
    assert_delivered(history)
    types = Counter(kind for event in history.of(ShareAcknowledged) for kind in event.types)
    assert set(types) == {1, 2, 3, 4}
    assert max(event.delivery_count for event in history.of(ShareAcquired)) > 1


def test_a_member_that_dies_is_followed_by_another(loop: SimulatedLoop) -> None:
    async def test(cluster: SimulatedCluster, clients: ShareGroupClients) -> None:
        loop.node("client-1").kill()
        clients.places[0].start(loop)
        await asyncio.sleep(1)

    history = run(loop, SharePlan("workers", members=2), test)
    assert_delivered(history)
    assert {"client-1", "client-2"} <= {event.member for event in history.of(ShareEnded)}


def test_the_group_goes_on_without_a_leader_and_a_coordinator(loop: SimulatedLoop) -> None:
    async def test(cluster: SimulatedCluster, clients: ShareGroupClients) -> None:
        cluster.kill_broker(cluster.partitions["__share_group_state", 0].leader)
        await asyncio.sleep(3)

    history = run(loop, SharePlan("workers", members=2), test)
    assert_delivered(history)


def test_a_group_that_stands_still_is_found(loop: SimulatedLoop) -> None:
    async def test(cluster: SimulatedCluster, clients: ShareGroupClients) -> None:
        for place in clients.places:
            loop.node(place.name).pause()
        assert await clients.settle(0.5) is None, "all is consumed"
        clients.unsettled = lambda: "workers is at 3 of orders-0, which ends at 4"  # type: ignore[method-assign]
        told = await clients.settle(0.5)
        assert told is not None
        assert told[0] == "not-converged"
        assert told[1].endswith("it moved: workers is at 3 of orders-0, which ends at 4")
        del clients.unsettled  # type: ignore[method-assign]
        for place in clients.places:
            loop.node(place.name).resume()

    async def wait_and_test(cluster: SimulatedCluster, clients: ShareGroupClients) -> None:
        assert await clients.settle(5.0) is None
        await test(cluster, clients)

    run(loop, SharePlan("workers", members=2, lock_ms=5_000), wait_and_test)
