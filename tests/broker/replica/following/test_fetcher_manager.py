"""The fetchers of one broker, and the leaders that they are connected to; the test plays the leaders."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from purgatorio.broker.replica.following.fetcher_manager import ReplicaFetcherManager
from purgatorio.broker.replica.following.follower import FetchSettings, FollowerGate, FollowerServices
from purgatorio.broker.time.system_clock import SystemClock
from tests.broker.replica.harness import Harness, topic

CLOCK = SystemClock()
LEADER_ID = 2
TURNS = 20


class Leaders:
    """Leaders that accept connections and answer nothing."""

    def __init__(self) -> None:
        self.connected: list[int] = []
        self.closed = 0
        self.accepts = True

    async def connect(self, broker_id: int) -> Leaders:
        self.connected.append(broker_id)
        if not self.accepts:
            await asyncio.Event().wait()
        return self

    async def request(self, api_key: int, api_version: int, message: Any, *, timeout_ms: int) -> Any:
        await asyncio.Event().wait()

    def close(self) -> None:
        self.closed += 1


class Follower:
    """Broker 1, which follows broker 2; the loops run as tasks of the test."""

    def __init__(self) -> None:
        self.leaders = Leaders()
        self.harness = Harness()
        self.tasks: list[asyncio.Task[None]] = []
        services = FollowerServices(
            replicas=self.harness.replicas,
            connect=self.leaders.connect,
            settings=FetchSettings(),
            gate=FollowerGate(CLOCK),
            clock=CLOCK,
            rng=random.Random(0),
        )
        self.manager = ReplicaFetcherManager(
            services, lambda loop, name: self.tasks.append(asyncio.create_task(loop, name=name))
        )

    async def see_image(self, *, leader_epoch: int = 0) -> None:
        """Apply an image with the present registrations, and let the loops run."""
        self.harness.set_topics(topic(leader=LEADER_ID, leader_epoch=leader_epoch))
        self.manager.follow_leaders()
        for _ in range(TURNS):
            await asyncio.sleep(0)

    def register_anew(self) -> None:
        brokers = self.harness.brokers
        epoch = brokers[LEADER_ID].broker_epoch + 10
        self.harness.brokers = {**brokers, LEADER_ID: replace(brokers[LEADER_ID], broker_epoch=epoch)}

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)


@pytest.mark.parametrize("accepts", [True, False])
async def test_a_leader_that_is_registered_anew_is_connected_to_at_once(accepts: bool) -> None:
    """The earlier process may be frozen: it accepts no connection, or does not answer."""
    follower = Follower()
    leaders = follower.leaders
    leaders.accepts = accepts
    await follower.see_image()
    assert leaders.connected == [LEADER_ID]
    for times in (2, 3):
        follower.register_anew()
        await follower.see_image()
        assert leaders.connected == [LEADER_ID] * times
        assert leaders.closed == (times - 1 if accepts else 0)
    await follower.stop()


async def test_two_registrations_in_one_turn_cost_one_connection() -> None:
    follower = Follower()
    await follower.see_image()
    for _ in range(2):
        follower.register_anew()
        follower.harness.set_topics(topic(leader=LEADER_ID))
        follower.manager.follow_leaders()
    await follower.see_image()
    assert follower.leaders.connected == [LEADER_ID] * 2
    await follower.stop()


async def test_a_connection_is_kept_while_its_leader_keeps_its_registration() -> None:
    follower = Follower()
    await follower.see_image()
    await follower.see_image(leader_epoch=1)
    leader = follower.harness.brokers.pop(LEADER_ID)
    await follower.see_image(leader_epoch=2)
    follower.harness.brokers[LEADER_ID] = leader
    await follower.see_image(leader_epoch=3)
    assert follower.leaders.connected == [LEADER_ID]
    await follower.stop()
