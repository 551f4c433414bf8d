"""Simulated groups become stable, read everything, and go on without members that die."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.simulation.checks.group_checkers import check_groups
from purgatorio.simulation.clients.clients import Client, Output, SimulatedProducer
from purgatorio.simulation.clients.consumers import Reader
from purgatorio.simulation.clients.group_clients import STABLE_SECONDS, GroupClients
from purgatorio.simulation.clients.plans import SESSION_TIMEOUT_MS, GroupPlan, GroupShared, Protocol
from purgatorio.simulation.history.history import GroupAssigned, History, OffsetCommitted, OffsetRead
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import SimulatedClock, SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork

PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1))
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer", "mixed"])
Test = Callable[[SimulatedCluster, GroupClients, History], Coroutine[Any, Any, None]]


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


def run(loop: SimulatedLoop, plan: GroupPlan, test: Test) -> History:
    """Run a test with a group of this plan on three brokers, one of which is also produced to; return the history."""
    history = History()
    clock = SimulatedClock(loop)

    async def main() -> None:
        cluster = SimulatedCluster(
            loop,
            SimulatedNetwork(loop, random.Random(1)),
            random.Random(2),
            offsets_topic_num_partitions=1,
            group_min_session_timeout_ms=SESSION_TIMEOUT_MS,
            group_consumer_session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        await cluster.start()
        created: asyncio.Future[object] = loop.create_future()
        new = [NewTopic("orders", len(PARTITIONS), 3)]
        cluster.store.open().submit(
            lambda image: create_topics(image, new, settings=TopicSettings(), rng=random.Random(0)), created.set_result
        )
        await created

        def new_client(name: str) -> Client:
            return Client(name, cluster.addresses, clock=clock, rng=random.Random(name), history=history)

        producer = SimulatedProducer(
            new_client("p"),
            Output("orders", 0),
            acks=-1,
            values=itertools.count(1),
            pause_ms=(50.0, 50.0),
        )
        ends_at = loop.time() + 2
        produced = loop.node("p").spawn(producer.run(lambda: loop.time() > ends_at))
        shared = GroupShared(
            plan=plan,
            partitions=PARTITIONS,
            topic_ids={"orders": cluster.image.topics["orders"].topic_id},
            reader=Reader(),
            new_client=new_client,
            is_restless=lambda: False,
        )
        groups = GroupClients(cluster, [shared], first=1)
        for place in groups.places.values():
            place.start(loop)
        await produced
        await test(cluster, groups, history)
        await groups.stop()
        await cluster.stop()

    loop.run_until_complete(main())
    return history


async def settled(groups: GroupClients, seconds: float) -> None:
    """Wait until the groups are stable and have read everything."""
    async with asyncio.timeout(seconds):
        while groups.unread():  # noqa: ASYNC110 - seen from outside
            await asyncio.sleep(0.05)


@PROTOCOLS
def test_members_own_all_partitions_once_and_commit_what_they_read(loop: SimulatedLoop, protocol: Protocol) -> None:
    async def test(cluster: SimulatedCluster, groups: GroupClients, history: History) -> None:
        await settled(groups, 3)

    history = run(loop, GroupPlan("billing", protocol, members=2), test)
    assert check_groups(history) == []
    assert {event.partitions for event in history.of(GroupAssigned)} >= {("orders-0",), ("orders-1",)}
    committed = max(event.offset for event in history.of(OffsetCommitted) if event.outcome == "acked")
    last = [event.offset for event in history.of(OffsetRead) if event.partition == "orders-0"][-1]
    assert last == committed > 10


@PROTOCOLS
@pytest.mark.parametrize("static", [False, True])
def test_a_member_that_dies_is_followed_by_another(loop: SimulatedLoop, protocol: Protocol, static: bool) -> None:
    async def test(cluster: SimulatedCluster, groups: GroupClients, history: History) -> None:
        await settled(groups, 3)
        loop.node("client-1").kill()
        groups.places["client-1"].start(loop)
        await asyncio.sleep(SESSION_TIMEOUT_MS / 1000)
        await settled(groups, 3)

    history = run(loop, GroupPlan("billing", protocol, members=2, static=static), test)
    assert check_groups(history) == []
    assert "client-1.2" in {event.member for event in history.of(GroupAssigned)}


@PROTOCOLS
def test_a_group_goes_on_without_its_coordinator(loop: SimulatedLoop, protocol: Protocol) -> None:
    async def test(cluster: SimulatedCluster, groups: GroupClients, history: History) -> None:
        await settled(groups, 3)
        cluster.kill_broker(cluster.partitions["__consumer_offsets", 0].leader)
        await settled(groups, 10)

    history = run(loop, GroupPlan("billing", protocol, members=2), test)
    assert check_groups(history) == []


def test_a_group_that_lacks_a_member_is_not_stable(loop: SimulatedLoop) -> None:
    async def test(cluster: SimulatedCluster, groups: GroupClients, history: History) -> None:
        assert groups.unstable() is None
        loop.node("client-1").kill()
        groups.places["client-1"].start(loop)
        told = groups.unstable()
        assert told is not None
        assert told.startswith("members of billing, in generations [-1, ")

    run(loop, GroupPlan("billing", members=2), test)


class Slow(GroupClients):
    """A group that commits a record every second, until it has all, or until it stands still."""

    def __init__(self, loop: SimulatedLoop, *, stops_at: int) -> None:
        self.loop = loop
        self.stops_at = stops_at
        self.began = loop.time()

    def unstable(self) -> str | None:
        return None

    def committed(self) -> int:
        return min(int(self.loop.time() - self.began), self.stops_at)

    def unread(self) -> str | None:
        return "billing" if self.committed() < 10 else None


@pytest.mark.parametrize(("stops_at", "found"), [(10, None), (4, "not-converged")])
def test_a_group_may_read_for_long_but_not_stand_still(loop: SimulatedLoop, stops_at: int, found: str | None) -> None:
    """Seed 2584: far clients that fetch little had not read everything after 20 s, and had all after 22 s."""
    groups = Slow(loop, stops_at=stops_at)
    told = loop.run_until_complete(groups.settle(heal_seconds=3.0))
    assert (told and told[0]) == found
    assert loop.time() - groups.began == pytest.approx(10 if found is None else 4 + 3, abs=0.1)


def test_a_group_that_does_not_become_stable_is_found(loop: SimulatedLoop) -> None:
    groups = Slow(loop, stops_at=0)
    groups.unstable = lambda: "no members"  # type: ignore[method-assign]
    told = loop.run_until_complete(groups.settle(heal_seconds=3.0))
    assert told == ("unstable-group", f"{STABLE_SECONDS:g} s after the faults had healed: no members")
