"""A broker's membership: it fences itself first, and takes part again as the same life."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from broker.metadata.controller import DuplicateBrokerId, TopicSettings, fence_broker, register_broker
from broker.metadata.embedded import EmbeddedStore
from broker.metadata.image import BrokerLife
from broker.registration import Registration, RegistrationLost
from broker.simulation.cluster import StoreLink
from broker.simulation.loop import SimulatedClock, SimulatedLoop
from broker.simulation.network import Network

SESSION_MS = 1_000
HEARTBEAT_MS = 250
SETTINGS = TopicSettings()


class Place:
    """A store, and brokers that are nodes of a simulated loop: time is virtual, and links can be cut."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.clock = SimulatedClock(loop)
        self.network = Network(loop, random.Random(1))
        self.store = EmbeddedStore("cluster", loop.call_soon, now_ms=self.clock.now_ms)
        self.links: dict[int, StoreLink] = {}

    def broker(self, broker_id: int = 1) -> Registration:
        node = self.loop.node(f"broker-{broker_id}")
        self.links[broker_id] = StoreLink(self.network, random.Random(broker_id), node)
        return Registration(
            broker_id,
            self.store.open(self.links[broker_id]),
            clock=self.clock,
            rack=None,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            settings=SETTINGS,
        )

    async def joined(self, broker_id: int = 1) -> tuple[Registration, asyncio.Task[None]]:
        """A broker that is registered, and keeps its lease."""
        registration = self.broker(broker_id)
        node = self.loop.node(f"broker-{broker_id}")
        await node.spawn(registration.register("host", 9090 + broker_id))
        return registration, node.spawn(registration.run())

    def is_fenced(self, broker_id: int) -> bool:
        return self.store.image.brokers[broker_id].fenced

    def run(self, main: Any) -> None:
        async def with_leases() -> None:
            leases = self.loop.create_task(self.store.run())
            await main()
            leases.cancel()

        self.loop.run_until_complete(with_leases())


@pytest.fixture
def place() -> Iterator[Place]:
    loop = SimulatedLoop(random.Random(1))
    yield Place(loop)
    loop.close()


def test_a_broker_registers_under_a_lease_and_keeps_it(place: Place) -> None:
    async def main() -> None:
        registration = place.broker()
        assert (registration.life, registration.broker_epoch, registration.may_lead()) == (None, -1, False)
        registration, _ = await place.joined()
        assert registration.life == BrokerLife(1, 1)
        await asyncio.sleep(60)
        assert registration.may_lead()
        assert not place.is_fenced(1)

    place.run(main)


def test_it_fences_itself_before_others_fence_it_and_takes_part_again_as_the_same_life(place: Place) -> None:
    async def main() -> None:
        cut_off, _ = await place.joined(1)
        await place.joined(2)
        await asyncio.sleep(1)
        place.links[1].cut()
        while cut_off.may_lead():
            assert not place.is_fenced(1)
            await asyncio.sleep(0.001)
        assert not place.is_fenced(1), "it knew first"
        await asyncio.sleep(1)
        assert place.is_fenced(1)
        place.links[1].heal()
        await asyncio.sleep(0.1)
        assert cut_off.life == BrokerLife(1, 1)
        assert not place.is_fenced(1)
        assert cut_off.may_lead()

    place.run(main)


def test_an_answer_that_comes_late_does_not_revive_a_lease(place: Place) -> None:
    async def main() -> None:
        registration, _ = await place.joined()
        lease_id = place.store.image.brokers[1].lease_id
        await asyncio.sleep(1)
        place.loop.node("broker-1").pause()
        await asyncio.sleep(SESSION_MS / 1000 - 0.1)  # it still lasts in the store, and heartbeats are under way
        place.links[1].cut()
        place.loop.node("broker-1").resume()
        await asyncio.sleep(0.2)
        assert not registration.may_lead()
        place.links[1].heal()
        await asyncio.sleep(0.05)
        assert registration.may_lead()
        assert place.store.image.brokers[1].lease_id != lease_id

    place.run(main)


def test_a_broker_that_was_stopped_for_long_leads_nothing_when_it_wakes(place: Place) -> None:
    async def main() -> None:
        registration, _ = await place.joined()
        place.loop.node("broker-1").pause()
        await asyncio.sleep(60)
        assert not registration.may_lead()

    place.run(main)


def test_a_broker_that_starts_again_waits_for_the_end_of_its_earlier_life_and_sees_to_it_itself(place: Place) -> None:
    async def main() -> None:
        await place.joined()
        place.loop.node("broker-1").kill()
        began = place.clock.now_ms()
        again, _ = await place.joined()
        assert again.life == BrokerLife(1, 2)
        assert SESSION_MS - HEARTBEAT_MS <= place.clock.now_ms() - began <= 2 * SESSION_MS

    place.run(main)


def test_an_id_that_another_broker_has_and_keeps_is_refused(place: Place) -> None:
    async def main() -> None:
        await place.joined()
        other = Registration(
            1,
            place.store.open(),
            clock=place.clock,
            rack=None,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            settings=SETTINGS,
        )
        with pytest.raises(DuplicateBrokerId, match="broker id 1 is in use by the broker at host:9091"):
            await other.register("elsewhere", 1)

    place.run(main)


def test_a_life_whose_id_was_taken_has_to_end(place: Place) -> None:
    async def main() -> None:
        _, running = await place.joined()
        lease_id = place.store.image.brokers[1].lease_id
        place.links[1].cut()
        view = place.store.open()
        done: asyncio.Future[int] = place.loop.create_future()
        view.submit(lambda image: fence_broker(image, lease_id, settings=SETTINGS), lambda _: None)
        view.submit(lambda image: register_broker(image, 1, "other", 1, settings=SETTINGS), done.set_result)
        await done
        await asyncio.sleep(2)
        place.links[1].heal()
        with pytest.raises(RegistrationLost, match="broker 1 is not registered in epoch 1 any more"):
            await running

    place.run(main)


def test_a_broker_that_leaves_leads_nothing_from_then_on_and_does_not_come_back(place: Place) -> None:
    async def main() -> None:
        registration, running = await place.joined()
        await place.loop.node("broker-1").spawn(registration.unregister(timeout_ms=1_000))
        assert not registration.may_lead()
        assert place.store.image.brokers == {}
        await asyncio.wait_for(running, 1)

    place.run(main)


def test_a_broker_that_cannot_say_that_it_leaves_does_not_wait_for_ever(place: Place) -> None:
    async def main() -> None:
        registration, _ = await place.joined()
        place.links[1].cut()
        began = place.clock.now_ms()
        await place.loop.node("broker-1").spawn(registration.unregister(timeout_ms=500))
        assert place.clock.now_ms() - began == 500
        assert not registration.may_lead()

    place.run(main)
