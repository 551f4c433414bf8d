"""The link between a broker and the metadata store: cut in one direction or both, slow, and with lost answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest

from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.simulation import run as simulated
from purgatorio.simulation.world.loop import SimulatedClock, SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork
from purgatorio.simulation.world.store import StoreLink, WatchedStore


class Linked:
    """A link, and the messages that have arrived at its ends."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.link = StoreLink(SimulatedNetwork(loop, random.Random(1)), random.Random(2), loop.node("broker-1"))
        self.at_store: list[int] = []
        self.at_broker: list[int] = []

    def send(self, number: int) -> None:
        self.link.to_store(lambda: self.at_store.append(number))
        self.link.to_broker(lambda: self.at_broker.append(number))


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


def run(loop: SimulatedLoop, main: Callable[[], Awaitable[None]]) -> None:
    async def as_coroutine() -> None:
        await main()

    loop.run_until_complete(as_coroutine())


@pytest.mark.parametrize("to_store", [True, False])
def test_a_link_that_is_cut_one_way_holds_that_direction_until_it_heals(loop: SimulatedLoop, to_store: bool) -> None:
    async def main() -> None:
        linked = Linked(loop)
        linked.link.cut(to_store=to_store, to_broker=not to_store)
        for number in range(3):
            linked.send(number)
        await asyncio.sleep(1)
        held, open_ = (linked.at_store, linked.at_broker) if to_store else (linked.at_broker, linked.at_store)
        assert (held, open_) == ([], [0, 1, 2])
        linked.link.heal()
        await asyncio.sleep(1)
        assert held == open_ == [0, 1, 2]

    run(loop, main)


def test_a_link_that_is_cut_again_in_one_direction_still_holds_the_other(loop: SimulatedLoop) -> None:
    """Seed 212: what had been held before was never delivered, and each later answer came one too late."""

    async def main() -> None:
        linked = Linked(loop)
        linked.link.cut()
        linked.send(0)
        linked.link.cut(to_store=False)
        linked.send(1)
        await asyncio.sleep(1)
        assert linked.at_store == linked.at_broker == []
        linked.link.heal()
        await asyncio.sleep(1)
        assert linked.at_store == linked.at_broker == [0, 1]

    run(loop, main)


def test_a_link_that_heals_while_its_process_is_suspended_holds_all_until_that_runs_again(loop: SimulatedLoop) -> None:
    async def main() -> None:
        linked = Linked(loop)
        linked.link.cut()
        linked.send(1)
        linked.link.suspend()
        linked.link.heal()
        await asyncio.sleep(1)
        assert linked.at_store == linked.at_broker == []
        linked.link.resume()
        await asyncio.sleep(1)
        assert linked.at_store == linked.at_broker == [1]

    run(loop, main)


def test_messages_of_a_slow_link_arrive_late_and_in_order_until_it_heals(loop: SimulatedLoop) -> None:
    async def main() -> None:
        linked = Linked(loop)
        linked.link.latency_ms = (100.0, 300.0)
        for number in range(5):
            linked.send(number)
        await asyncio.sleep(0.09)
        assert linked.at_store == []
        await asyncio.sleep(0.3)
        assert linked.at_store == linked.at_broker == [0, 1, 2, 3, 4]
        linked.link.heal()
        linked.send(5)
        await asyncio.sleep(0.01)
        assert linked.at_store[-1] == linked.at_broker[-1] == 5

    run(loop, main)


def test_a_broker_whose_answer_is_lost_decides_again_on_an_image_that_has_its_change(loop: SimulatedLoop) -> None:
    async def main() -> None:
        store = WatchedStore(loop, random.Random(1), SimulatedClock(loop))
        seen: list[str] = []
        results: list[str] = []

        def rename(image: ClusterImage) -> tuple[ClusterImage, str]:
            seen.append(image.cluster_id)
            return replace(image, cluster_id=f"{image.cluster_id}!"), f"{len(seen)}"

        store.lost_answers = 1.0
        store.committed.append(lambda before, after: setattr(store, "lost_answers", float(len(seen) == 1)))
        store.open().submit(rename, results.append)
        await asyncio.sleep(1)
        assert (seen, results) == (["simulated", "simulated!"], ["2"])
        assert store.image.cluster_id == "simulated!!"

    run(loop, main)


@pytest.mark.simulation
@pytest.mark.parametrize("seed", [3, 13])
def test_brokers_that_make_their_images_of_keys_do_what_they_do_with_shared_images(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store outside of the process brings keys, some of them twice; each broker then has images of its own."""
    workload = simulated._workload_of
    digests = set()
    for keyed in (False, True):
        monkeypatch.setattr(simulated, "_workload_of", lambda *given, k=keyed: replace(workload(*given), keyed=k))
        digests.add(simulated.simulate(seed, simulated.Scenario(seconds=5.0)).history.digest())
    assert len(digests) == 1
