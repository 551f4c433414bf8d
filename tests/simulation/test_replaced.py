"""A broker that has two processes: the new one takes over, and the old one ends as soon as it learns of it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.broker.metadata.image import PartitionState
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.simulation import mutants
from purgatorio.simulation.checks.invariants import FencedWatch
from purgatorio.simulation.history.history import FencedAnswer, History
from purgatorio.simulation.world.cluster import SimulatedCluster, SimulatedProcess
from purgatorio.simulation.world.loop import SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork
from tests.compiled import replaces_functions

TP = TopicPartition("orders", 0)


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


class Three:
    """Three brokers with spare hosts, and one partition."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.cluster = SimulatedCluster(
            loop, SimulatedNetwork(loop, random.Random(1)), random.Random(2), spare_hosts=True, skips_images=True
        )

    @property
    def state(self) -> PartitionState:
        return self.cluster.partitions["orders", 0]

    async def start(self) -> SimulatedProcess:
        """Start, and return the leader's process."""
        await self.cluster.start()
        done: asyncio.Future[object] = self.loop.create_future()
        new = [NewTopic("orders", 1, 3)]
        self.cluster.store.open().submit(
            lambda image: create_topics(image, new, settings=TopicSettings(), rng=random.Random(3)), done.set_result
        )
        await done
        await asyncio.sleep(0.1)
        return self.cluster.processes[self.state.leader]

    async def append(self, process: SimulatedProcess, acks: int) -> int:
        """Append a record at a process; return the error code, after a second at most."""
        done: asyncio.Future[int] = self.loop.create_future()
        batch = build_batch([Record(0, -1, None, b"1", ())])
        append = partial(process.broker.replicas.append, acks=acks, timeout_ms=1_000)
        process.node.call(lambda: append([(TP, batch)], done=lambda results: done.set_result(results[0].error_code)))
        return await done


def run(loop: SimulatedLoop, main: Callable[[Three, SimulatedProcess], Awaitable[None]]) -> None:
    async def start_and_run() -> None:
        three = Three(loop)
        await main(three, await three.start())
        await three.cluster.stop()

    loop.run_until_complete(start_and_run())


def test_a_replaced_process_ends_when_it_learns_that_its_id_was_registered_again(loop: SimulatedLoop) -> None:
    async def main(three: Three, old: SimulatedProcess) -> None:
        old.node.pause()
        broker_id = old.broker.broker_id
        assert await three.cluster.replace_broker(broker_id)
        new = three.cluster.processes[broker_id]
        assert (old.host.name, new.host.name) == (f"broker-{broker_id}", f"spare-{broker_id}")
        assert next(three.cluster.all_processes()) is old
        assert old.host in three.cluster.hosts()
        assert not three.cluster.is_replaceable(broker_id), "both hosts are taken"
        with pytest.raises(ValueError, match="no second process"):
            await three.cluster.replace_broker(broker_id)
        old.node.resume()
        await asyncio.sleep(0.1)
        assert three.cluster.replaced == []
        assert not old.node.alive
        assert three.cluster.is_replaceable(broker_id)

    run(loop, main)


def test_a_process_that_keeps_its_lease_is_not_replaced(loop: SimulatedLoop) -> None:
    async def main(three: Three, old: SimulatedProcess) -> None:
        broker_id = old.broker.broker_id
        assert not await three.cluster.replace_broker(broker_id)
        assert three.cluster.processes[broker_id] is old
        assert three.cluster.replaced == []
        assert three.state.leader == broker_id
        assert three.cluster.is_replaceable(broker_id)

    run(loop, main)


def test_a_failure_of_a_replaced_process_reaches_the_loop(loop: SimulatedLoop) -> None:
    async def main(three: Three, old: SimulatedProcess) -> None:
        failures: list[object] = []
        loop.set_exception_handler(lambda loop, context: failures.append(context["message"]))
        old.node.pause()
        assert await three.cluster.replace_broker(old.broker.broker_id)

        async def fail() -> None:
            raise KeyError("a bug")

        old.node.resume()
        old.link.cut()
        old.node.call(old.broker._spawn, fail(), "fails")
        await asyncio.sleep(0.1)
        assert failures == [f"{old.host.name} failed"]

    run(loop, main)


@pytest.mark.parametrize("is_paused", [True, False])
def test_followers_fetch_from_the_new_process_while_the_old_one_lingers(loop: SimulatedLoop, is_paused: bool) -> None:
    """Their connections to the old process are open: it answers nothing, or that it does not lead any more."""

    async def main(three: Three, old: SimulatedProcess) -> None:
        broker_id = old.broker.broker_id
        if is_paused:
            old.node.pause()
        else:
            old.link.cut()
        assert await three.cluster.replace_broker(broker_id)
        await asyncio.sleep(3)
        assert three.cluster.replaced == [old]
        assert three.state.leader == broker_id, "it caught up, and leads as before"
        assert await three.append(three.cluster.processes[broker_id], acks=-1) == ErrorCode.NONE

    run(loop, main)


@replaces_functions
@pytest.mark.parametrize("notices", [True, False])
def test_a_replaced_process_that_goes_on_leading_is_noticed(loop: SimulatedLoop, notices: bool) -> None:
    """The store shows it no image in which another broker leads: it missed them."""

    async def main(three: Three, old: SimulatedProcess) -> None:
        history = History()
        watch = FencedWatch(three.cluster, history)
        old.link.cut()
        assert await three.cluster.replace_broker(old.broker.broker_id)
        old.link.heal()
        await asyncio.sleep(0.05)
        if old.node.alive:
            assert await three.append(old, acks=1) == ErrorCode.NONE
        watch.look()
        assert old.node.alive is not notices
        assert [answer.broker for answer in history.of(FencedAnswer)] == [old.broker.broker_id] * (not notices)

    with contextlib.nullcontext() if notices else mutants.without("ended-registrations"):
        run(loop, main)
