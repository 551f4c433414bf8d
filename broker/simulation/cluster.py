"""A cluster on a simulated network: each broker is a node, and faults can cut it off from the metadata store."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Final

from purgatorio.broker.broker import Broker
from purgatorio.broker.clock import Clock, RunningClock
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.metadata.embedded import EmbeddedStore
from purgatorio.broker.metadata.image import ClusterImage, PartitionState
from purgatorio.broker.simulation.loop import Node, SimulatedClock, SimulatedLoop
from purgatorio.broker.simulation.network import Network

FIRST_PORT: Final = 9092
STORE_LATENCY_MS: Final = (0.1, 2.0)
ROLES_PER_STEP: Final = 2
"""Few, so that also the few partitions of a simulation get their roles in several turns of the loop."""
STORE_NODE: Final = "store"


def rack_of(broker_id: int, racks: bool) -> dict[str, object]:
    """Return a broker's setting for its rack, if there are racks."""
    return {"rack": f"r{broker_id}"} if racks else {}


class StoreLink:
    """The link between a broker's node and the metadata store: it delays messages, and holds them while it is cut.

    Attributes:
        latency_ms: the range that each message's delay is drawn from.
    """

    def __init__(self, network: Network, rng: random.Random, node: Node) -> None:
        self._network = network
        self._rng = rng
        self._node = node
        self.latency_ms = STORE_LATENCY_MS
        self._suspended = False
        self._to_store: deque[Callable[[], None]] = deque()
        self._to_broker: deque[Callable[[], None]] = deque()
        self._cut: list[deque[Callable[[], None]]] = []
        self._free_at = {id(self._to_store): 0.0, id(self._to_broker): 0.0}

    def to_store(self, deliver: Callable[[], None]) -> None:
        """See `purgatorio.broker.metadata.embedded.Link`."""
        self._send(self._to_store, deliver)

    def to_broker(self, deliver: Callable[[], None]) -> None:
        """See `purgatorio.broker.metadata.embedded.Link`."""
        self._send(self._to_broker, lambda: self._node.call(deliver))

    def cut(self, *, to_store: bool = True, to_broker: bool = True) -> None:
        """Hold every message of these directions, and go on holding those of a direction that is cut already."""
        for queue, cut in ((self._to_store, to_store), (self._to_broker, to_broker)):
            if cut and not any(queue is each for each in self._cut):
                self._cut.append(queue)

    def heal(self) -> None:
        """Undo all faults: deliver the held messages, with new delays, unless the process is suspended."""
        self.latency_ms = STORE_LATENCY_MS
        held, self._cut = self._cut, []
        self._deliver_held(held)

    def suspend(self) -> None:
        """Hold every message: neither the store nor the broker runs."""
        self._suspended = True

    def resume(self) -> None:
        """Deliver the held messages, with new delays, unless the link is cut."""
        if self._suspended:
            self._suspended = False
            self._deliver_held([self._to_store, self._to_broker])

    def _holds(self, queue: deque[Callable[[], None]]) -> bool:
        return self._suspended or any(queue is cut for cut in self._cut)

    def _deliver_held(self, queues: list[deque[Callable[[], None]]]) -> None:
        for queue in queues:
            if not self._holds(queue):
                for _ in range(len(queue)):
                    self._schedule(queue)

    def _send(self, queue: deque[Callable[[], None]], deliver: Callable[[], None]) -> None:
        if self._node.alive:
            queue.append(deliver)
            if not self._holds(queue):
                self._schedule(queue)

    def _schedule(self, queue: deque[Callable[[], None]]) -> None:
        when = self._network.loop.time() + self._rng.uniform(*self.latency_ms) / 1000
        self._free_at[id(queue)] = when = max(self._free_at[id(queue)], when)
        self._network.in_world(when, lambda: self._arrive(queue))

    def _arrive(self, queue: deque[Callable[[], None]]) -> None:
        if not self._holds(queue) and queue:
            queue.popleft()()


class WatchedStore(EmbeddedStore):
    """A metadata store that tells of its changes, and whose answers may be lost.

    Attributes:
        lost_answers: the probability that the answer to a commit is lost. The broker then does not know whether its
            change was committed: as the client of a remote store has to, it reads the image, and decides again.
        committed: called with the images before and after each committed change.
    """

    def __init__(self, loop: SimulatedLoop, rng: random.Random, clock: Clock) -> None:
        super().__init__("simulated", loop.call_soon, clock)
        self._rng = rng
        self.lost_answers = 0.0
        self.committed: list[Callable[[ClusterImage, ClusterImage], None]] = []

    def _commit(self, expected: ClusterImage, proposed: ClusterImage, lease_id: int) -> tuple[bool, Exception | None]:
        done, error = super()._commit(expected, proposed, lease_id)
        if done and proposed is not expected and self.lost_answers and self._rng.random() < self.lost_answers:
            return self.lose_answer(), None
        return done, error

    def lose_answer(self) -> bool:
        """Return what the broker is told of a change that was committed: that it was not."""
        return False

    def _compare_and_set(self, expected: ClusterImage, proposed: ClusterImage) -> bool:
        before = self.image
        done = super()._compare_and_set(expected, proposed)
        if self.image is not before:
            for look in self.committed:
                look(before, self.image)
        return done


class SimulatedCluster:
    """A cluster whose brokers are nodes named ``broker-1``, ``broker-2`` …

    Args:
        count: the number of brokers.
        racks: whether broker 1 is in rack r1, broker 2 in r2 and so on.
        one_process: whether the brokers and the store are one process, which `suspend` suspends as a whole.
        memory_bytes: the memory cap of each broker's logs, if it is not 0; less than a broker can be configured with.
        clock_rates: the range of the rates of brokers' clocks, unless they are one process; the store's rate is 1.
        settings: the brokers' configuration, beside ids and ports.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        network: Network,
        rng: random.Random,
        *,
        count: int = 3,
        racks: bool = False,
        one_process: bool = False,
        memory_bytes: int = 0,
        clock_rates: tuple[float, float] = (1.0, 1.0),
        **settings: object,
    ) -> None:
        self.loop = loop
        self.network = network
        self.clock = SimulatedClock(loop)
        self.one_process = one_process
        self._memory_bytes = memory_bytes
        self._slowest_rate = 1.0 if one_process else clock_rates[0]
        self._lease_clock = RunningClock(self.clock) if one_process else None
        self.store = WatchedStore(loop, random.Random(f"store {rng.random()}"), self._lease_clock or self.clock)
        self.brokers: dict[int, Broker] = {}
        self.nodes: dict[int, Node] = {}
        self.links: dict[int, StoreLink] = {}
        self._rng = rng
        self._configs = {
            broker_id: BrokerConfig.model_validate(
                {"broker_id": broker_id, "port": FIRST_PORT + broker_id - 1, **rack_of(broker_id, racks), **settings}
            )
            for broker_id in range(1, count + 1)
        }
        clock_rng = random.Random(f"clocks {rng.random()}")
        self._clocks = {
            broker_id: self.clock if one_process else SimulatedClock(loop, clock_rng.uniform(*clock_rates))
            for broker_id in self._configs
        }
        self._background: list[asyncio.Task[None]] = []
        self._starting: dict[int, asyncio.Task[None]] = {}

    @property
    def broker_ids(self) -> list[int]:
        """All brokers, running or not."""
        return list(self._configs)

    @property
    def image(self) -> ClusterImage:
        """The committed image."""
        return self.store.image

    @property
    def partitions(self) -> dict[tuple[str, int], PartitionState]:
        """The committed state of every partition, by topic and partition number."""
        return {
            (topic.name, index): state
            for topic in self.image.topics.values()
            for index, state in enumerate(topic.partitions)
        }

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The host and port of every broker, running or not."""
        return [(config.host, config.port) for config in self._configs.values()]

    def is_running(self, broker_id: int) -> bool:
        """Whether the broker runs, paused or not."""
        return broker_id in self.brokers

    async def start(self) -> None:
        """Start the store and all brokers."""
        store = self.loop.node(STORE_NODE)
        self._background = [store.spawn(self.store.run(), name="leases")]
        if self._lease_clock is not None:
            self._lease_clock.beat()
            self._background.append(store.spawn(self._lease_clock.run(), name="lease clock"))
        await asyncio.gather(*(self.start_broker(broker_id) for broker_id in self._configs))

    def start_broker(self, broker_id: int) -> asyncio.Task[None]:
        """Start a new incarnation of a broker; the task ends when the broker serves."""
        node = self.loop.node(f"broker-{broker_id}")
        rng = random.Random(self._rng.random())
        self.links[broker_id] = link = StoreLink(self.network, rng, node)
        self.nodes[broker_id] = node
        broker = Broker(
            self._configs[broker_id],
            self.store.open(link),
            clock=self._clocks[broker_id],
            rng=rng,
            lease_clock=self._lease_clock,
            slowest_rate=self._slowest_rate,
            roles_per_step=ROLES_PER_STEP,
        )
        if self._memory_bytes:
            broker.replicas.memory.limit_bytes = self._memory_bytes
        self.brokers[broker_id] = broker
        return node.spawn(broker.start(), name=f"start broker {broker_id}")

    def kill_broker(self, broker_id: int) -> None:
        """Kill a broker's process; it has no time to shut down."""
        del self.brokers[broker_id]
        self.links.pop(broker_id).cut()
        self.nodes.pop(broker_id).kill()

    async def stop_broker(self, broker_id: int) -> None:
        """Shut a broker down in good order, then end its process."""
        broker, node = self.brokers[broker_id], self.nodes[broker_id]
        await asyncio.wait([node.spawn(broker.stop())])
        if self.brokers.get(broker_id) is broker:
            self.kill_broker(broker_id)

    def suspend(self) -> None:
        """Suspend the process of all brokers and the store, as SIGSTOP does; clients go on.

        Raises:
            ValueError: the brokers are processes of their own.
        """
        if not self.one_process:
            raise ValueError("the brokers do not share a process")
        self.loop.node(STORE_NODE).pause()
        for broker_id, node in self.nodes.items():
            node.pause()
            self.links[broker_id].suspend()

    def resume(self) -> None:
        """Let the process of all brokers and the store run again."""
        self.loop.node(STORE_NODE).resume()
        for broker_id, node in self.nodes.items():
            node.resume()
            self.links[broker_id].resume()

    async def stop(self) -> None:
        """Shut all brokers down in good order, then the store."""
        await asyncio.gather(*(self.stop_broker(broker_id) for broker_id in list(self.brokers)))
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
