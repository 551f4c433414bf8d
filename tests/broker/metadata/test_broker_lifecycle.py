"""A broker's registration and lease: it stops leading before it is fenced, and resumes as the same incarnation."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.broker.metadata.broker_lifecycle import BrokerLifecycleManager, LeaseTerms, RegistrationLost
from purgatorio.broker.metadata.controller import DuplicateBrokerId, TopicSettings, fence_broker, register_broker
from purgatorio.broker.metadata.embedded import EmbeddedStore
from purgatorio.broker.metadata.image import NO_LEASE, BrokerIncarnation, ClusterImage
from purgatorio.broker.metadata.store import StoreContended
from purgatorio.purgatory.clock import ManualClock
from purgatorio.simulation.world.loop import SimulatedClock, SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork
from purgatorio.simulation.world.store import StoreLink
from tests.endpoints import plaintext

SESSION_MS = 1_000
HEARTBEAT_MS = 250
SETTINGS = TopicSettings()


class Place:
    """A store, and brokers that are nodes of a simulated loop; time is virtual, and links can be cut."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.clock = SimulatedClock(loop)
        self.network = SimulatedNetwork(loop, random.Random(1))
        self.store = EmbeddedStore("cluster", loop.call_soon, self.clock)
        self.links: dict[int, StoreLink] = {}

    def broker(
        self, broker_id: int = 1, *, clock: SimulatedClock | None = None, slowest_rate: float = 1.0
    ) -> BrokerLifecycleManager:
        node = self.loop.node(f"broker-{broker_id}")
        self.links[broker_id] = StoreLink(self.network, random.Random(broker_id), node)
        return BrokerLifecycleManager(
            broker_id,
            self.store.open(self.links[broker_id]),
            clock=clock or self.clock,
            terms=LeaseTerms(SESSION_MS, HEARTBEAT_MS, slowest_rate),
            rack=None,
            settings=SETTINGS,
        )

    async def joined(self, broker_id: int = 1, **options: Any) -> tuple[BrokerLifecycleManager, asyncio.Task[None]]:
        """Register a broker that keeps its lease."""
        lifecycle = self.broker(broker_id, **options)
        node = self.loop.node(f"broker-{broker_id}")
        await node.spawn(lifecycle.register(plaintext("host", 9090 + broker_id)))
        return lifecycle, node.spawn(lifecycle.run())

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
        lifecycle = place.broker()
        assert (lifecycle.incarnation, lifecycle.broker_epoch, lifecycle.may_lead()) == (None, -1, False)
        lifecycle, _ = await place.joined()
        assert lifecycle.incarnation == BrokerIncarnation(1, 1)
        await asyncio.sleep(60)
        assert lifecycle.may_lead()
        assert not place.is_fenced(1)

    place.run(main)


def test_a_broker_stops_leading_before_it_is_fenced_and_continues_as_the_same_incarnation(place: Place) -> None:
    async def main() -> None:
        cut_off, _ = await place.joined(1)
        await place.joined(2)
        await asyncio.sleep(1)
        place.links[1].cut()
        while cut_off.may_lead():
            assert not place.is_fenced(1)
            await asyncio.sleep(0.001)
        assert not place.is_fenced(1), "the broker stops leading first"
        await asyncio.sleep(1)
        assert place.is_fenced(1)
        place.links[1].heal()
        await asyncio.sleep(0.1)
        assert cut_off.incarnation == BrokerIncarnation(1, 1)
        assert not place.is_fenced(1)
        assert cut_off.may_lead()

    place.run(main)


@pytest.mark.parametrize(("rate", "stops_first"), [(0.9, True), (1.1, True), (0.6, False)])
def test_a_broker_whose_clock_is_as_slow_as_it_may_be_stops_leading_before_its_lease_ends(
    place: Place, rate: float, stops_first: bool
) -> None:
    async def main() -> None:
        clock = SimulatedClock(place.loop, rate)
        cut_off, _ = await place.joined(1, clock=clock, slowest_rate=0.9)
        await place.joined(2)
        await asyncio.sleep(1)
        assert cut_off.may_lead()
        place.links[1].cut()
        while cut_off.may_lead() and not place.is_fenced(1):  # noqa: ASYNC110 - both are seen from outside
            await asyncio.sleep(0.001)
        assert cut_off.may_lead() is not stops_first

    place.run(main)


def test_a_broker_that_was_fenced_leads_again_when_its_replicas_have_their_new_roles(place: Place) -> None:
    """Others may have been elected meanwhile: a leader by an old role would acknowledge records that are lost."""
    resumed: list[bool] = []
    replicas = SimpleNamespace(is_current=False, lease_lost=lambda: None, lease_resumed=lambda: resumed.append(True))

    async def main() -> None:
        lifecycle, _ = await place.joined()
        lifecycle.replicas = replicas
        await asyncio.sleep(1)
        assert lifecycle.may_lead()
        place.links[1].cut()
        await asyncio.sleep(SESSION_MS / 1000 + 0.1)
        place.links[1].heal()
        await asyncio.sleep(1)
        assert lifecycle.has_lease()
        assert not lifecycle.may_lead()
        lifecycle.caught_up()
        assert not lifecycle.may_lead(), "the replicas have not caught up yet"
        replicas.is_current = True
        lifecycle.caught_up()
        lifecycle.caught_up()
        assert lifecycle.may_lead()
        assert resumed == [True]

    place.run(main)


def test_a_late_answer_does_not_renew_an_expired_lease(place: Place) -> None:
    async def main() -> None:
        lifecycle, _ = await place.joined()
        lease_id = place.store.image.brokers[1].lease_id
        await asyncio.sleep(1)
        place.loop.node("broker-1").pause()
        await asyncio.sleep(
            SESSION_MS / 1000 - 0.1
        )  # the lease is still valid in the store, and heartbeats are under way
        place.links[1].cut()
        place.loop.node("broker-1").resume()
        await asyncio.sleep(0.2)
        assert not lifecycle.may_lead()
        place.links[1].heal()
        await asyncio.sleep(0.05)
        assert lifecycle.may_lead()
        assert place.store.image.brokers[1].lease_id != lease_id

    place.run(main)


def test_a_broker_that_was_suspended_for_long_does_not_lead_when_it_resumes(place: Place) -> None:
    async def main() -> None:
        lifecycle, _ = await place.joined()
        place.loop.node("broker-1").pause()
        await asyncio.sleep(60)
        assert not lifecycle.may_lead()

    place.run(main)


def test_a_restarted_broker_waits_for_the_lease_of_its_earlier_incarnation_and_fences_it(place: Place) -> None:
    async def main() -> None:
        await place.joined()
        place.loop.node("broker-1").kill()
        began = place.clock.now_ms()
        again, _ = await place.joined()
        assert again.incarnation == BrokerIncarnation(1, 2)
        assert SESSION_MS - HEARTBEAT_MS <= place.clock.now_ms() - began <= 2 * SESSION_MS

    place.run(main)


def test_the_id_of_a_live_broker_is_refused(place: Place) -> None:
    async def main() -> None:
        await place.joined()
        other = BrokerLifecycleManager(
            1,
            place.store.open(),
            clock=place.clock,
            terms=LeaseTerms(SESSION_MS, HEARTBEAT_MS),
            rack=None,
            settings=SETTINGS,
        )
        with pytest.raises(DuplicateBrokerId, match="broker id 1 is in use by the broker at host:9091"):
            await other.register(plaintext("elsewhere", 1))

    place.run(main)


def test_an_incarnation_whose_id_was_registered_again_has_to_end(place: Place) -> None:
    async def main() -> None:
        _, running = await place.joined()
        lease_id = place.store.image.brokers[1].lease_id
        place.links[1].cut()
        view = place.store.open()
        done: asyncio.Future[int] = place.loop.create_future()
        view.submit(lambda image: fence_broker(image, lease_id, settings=SETTINGS), lambda _: None)
        view.submit(lambda image: register_broker(image, 1, plaintext("other", 1), settings=SETTINGS), done.set_result)
        await done
        await asyncio.sleep(2)
        place.links[1].heal()
        with pytest.raises(RegistrationLost) as lost:
            await running
        why = "broker 1 is not registered in epoch 1 any more: the broker at other:1 has its id now"
        assert str(lost.value) == why

    place.run(main)


def test_an_unregistered_broker_does_not_lead_and_does_not_resume(place: Place) -> None:
    async def main() -> None:
        lifecycle, running = await place.joined()
        await place.loop.node("broker-1").spawn(lifecycle.unregister(timeout_ms=1_000))
        assert not lifecycle.may_lead()
        assert place.store.image.brokers == {}
        await asyncio.wait_for(running, 1)

    place.run(main)


def test_unregistering_ends_at_its_timeout_if_the_store_is_unreachable(place: Place) -> None:
    async def main() -> None:
        lifecycle, _ = await place.joined()
        place.links[1].cut()
        began = place.clock.now_ms()
        await place.loop.node("broker-1").spawn(lifecycle.unregister(timeout_ms=500))
        assert place.clock.now_ms() - began == 500
        assert not lifecycle.may_lead()

    place.run(main)


class HandDriven:
    """A store that receives all calls, and answers when the test says so."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.lost: Callable[[int], None] = lambda _: None
        self.granted: list[Callable[[int], None]] = []
        self.kept: list[Callable[[bool], None]] = []
        self.submitted: list[tuple[Any, Any, Any]] = []

    def watch_lost_leases(self, callback: Callable[[int], None]) -> Callable[[], None]:
        self.lost = callback
        return lambda: None

    def grant_lease(self, ttl_ms: int, granted: Callable[[int], None]) -> None:
        self.granted.append(granted)

    def keep_lease(self, lease_id: int, kept: Callable[[bool], None]) -> None:
        self.kept.append(kept)

    def submit(self, decide: Any, done: Any, failed: Any, *, lease_id: int = NO_LEASE) -> None:
        self.submitted.append((decide, done, failed))

    def commit(self) -> None:
        decide, done, _ = self.submitted.pop(0)
        self.image, result = decide(self.image)
        done(result)


@dataclass
class ByHand:
    """A broker whose store and clock the test controls."""

    lifecycle: BrokerLifecycleManager
    store: HandDriven
    clock: ManualClock

    async def join(self) -> None:
        joining = asyncio.create_task(self.lifecycle.register(plaintext("host", 9091)))
        await turn()
        self.store.granted.pop()(1)
        await turn()
        self.store.commit()
        await joining


async def turn() -> None:
    """Run every task until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def by_hand() -> ByHand:
    clock, store = ManualClock(), HandDriven(ClusterImage(version=0, cluster_id="cluster"))
    lifecycle = BrokerLifecycleManager(
        1,
        store,  # type: ignore[arg-type]
        clock=clock,
        terms=LeaseTerms(SESSION_MS, 1),
        rack=None,
        settings=SETTINGS,
    )
    return ByHand(lifecycle, store, clock)


async def test_a_lease_counts_from_the_time_of_its_request_not_of_the_answer(by_hand: ByHand) -> None:
    joining = asyncio.create_task(by_hand.lifecycle.register(plaintext("host", 9091)))
    await turn()
    by_hand.clock.advance_ms(400)
    by_hand.store.granted.pop()(1)
    await turn()
    by_hand.clock.advance_ms(599)
    by_hand.store.commit()
    await joining
    assert by_hand.lifecycle.may_lead()
    by_hand.clock.advance_ms(1)
    assert not by_hand.lifecycle.may_lead()


async def test_a_renewal_counts_from_its_heartbeat_and_not_after_the_lease_expired(by_hand: ByHand) -> None:
    await by_hand.join()
    running = asyncio.create_task(by_hand.lifecycle.run())
    await turn()
    (kept,) = by_hand.store.kept
    by_hand.clock.advance_ms(999)
    kept(True)
    assert by_hand.lifecycle.may_lead()
    by_hand.clock.advance_ms(1)
    assert not by_hand.lifecycle.may_lead()
    kept(True)
    assert not by_hand.lifecycle.may_lead(), "a late answer does not renew it"
    running.cancel()


async def test_a_lease_that_the_store_has_expired_ends_at_once(by_hand: ByHand) -> None:
    await by_hand.join()
    running = asyncio.create_task(by_hand.lifecycle.run())
    await turn()
    by_hand.store.kept[0](False)
    assert not by_hand.lifecycle.may_lead()
    running.cancel()


async def test_the_broker_of_a_lost_lease_is_fenced_once_even_if_the_store_notifies_again(by_hand: ByHand) -> None:
    await by_hand.join()
    store = by_hand.store
    store.image, _ = register_broker(store.image, 2, plaintext("other", 1), lease_id=7, settings=SETTINGS)
    store.lost(7)
    store.lost(7)
    assert len(store.submitted) == 1
    store.commit()
    assert store.image.brokers[2].fenced
    store.lost(7)
    before = store.image
    store.commit()
    assert store.image is before, "a later notification changes nothing"


async def test_a_failed_fencing_is_retried_at_the_next_notification(by_hand: ByHand) -> None:
    await by_hand.join()
    by_hand.store.lost(7)
    _, _, failed = by_hand.store.submitted.pop()
    failed(StoreContended("others were faster"))
    by_hand.store.lost(7)
    assert len(by_hand.store.submitted) == 1


async def resuming(by_hand: ByHand) -> asyncio.Task[None]:
    """Let a broker's lease expire; the broker has requested another one."""
    await by_hand.join()
    by_hand.clock.advance_ms(SESSION_MS)
    running = asyncio.create_task(by_hand.lifecycle.run())
    await turn()
    return running


async def test_a_broker_that_unregisters_while_it_waits_for_a_lease_ends_without_an_error(
    by_hand: ByHand,
) -> None:
    running = await resuming(by_hand)
    leaving = asyncio.create_task(by_hand.lifecycle.unregister(timeout_ms=1_000))
    await turn()
    by_hand.store.commit()
    await leaving
    by_hand.store.granted.pop()(2)
    await turn()
    for _ in by_hand.store.submitted:
        by_hand.store.commit()
    await asyncio.wait_for(running, 1)


async def test_a_broker_that_unregisters_while_it_resumes_does_not_lead(by_hand: ByHand) -> None:
    running = await resuming(by_hand)
    by_hand.store.granted.pop()(2)
    await turn()
    leaving = asyncio.create_task(by_hand.lifecycle.unregister(timeout_ms=1_000))
    await turn()
    by_hand.store.commit()
    by_hand.store.commit()
    await leaving
    await turn()
    leads = by_hand.lifecycle.may_lead()
    running.cancel()
    assert by_hand.store.image.brokers == {}
    assert not leads
