"""A cluster on a simulated network: each broker is a node, and faults can cut it off from the metadata store."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from purgatorio.broker.causes.kinds import THROTTLED
from purgatorio.broker.cluster.restart import partitions_of
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.by_room import topic_settings
from purgatorio.broker.layers.quotas.altering import EntityEdit, QuotaEdit, alter_client_quotas
from purgatorio.broker.layers.quotas.naming import CLIENT_ID
from purgatorio.broker.metadata.broker_lifecycle import RegistrationLost
from purgatorio.broker.metadata.controller import DuplicateBrokerId
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage, PartitionState
from purgatorio.broker.metadata.store import decide
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.time.clocks import Clocks
from purgatorio.broker.time.running_clock import RunningClock
from purgatorio.broker.txn.transaction import Transaction
from purgatorio.purgatory.clock import Clock
from purgatorio.simulation.world.loop import Node, SimulatedClock, SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork
from purgatorio.simulation.world.store import StoreLink, WatchedStore
from purgatorio.simulation.world.tier import SimulatedTier

FIRST_PORT: Final = 9092
FIRST_SPARE_PORT: Final = 9192
ROLES_PER_STEP: Final = 2
"""Few, so that also the few partitions of a simulation get their roles in several turns of the loop."""
STORE_NODE: Final = "store"


@dataclass(frozen=True, slots=True, eq=False)
class Host:
    """A place where a process of a broker can run."""

    name: str
    config: BrokerConfig
    clock: SimulatedClock


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedProcess:
    """One running process of a broker, paused or not."""

    host: Host
    broker: Broker
    node: Node
    link: StoreLink


class SimulatedCluster:
    """A cluster whose brokers are nodes named ``broker-1``, ``broker-2`` …

    With spare hosts a broker may have two processes: `replace_broker` starts one on the host that is free, a node named
    ``spare-1`` at first, beside one that is paused or cut off and goes on later.

    Args:
        racks: whether broker 1 is in rack r1, broker 2 in r2 and so on.
        one_process: whether the brokers and the store are one process, which `suspend` suspends as a whole.
        memory_bytes: the memory cap of each broker's logs, if it is not 0; less than a broker can be configured with.
        clock_rates: the range of the rates of brokers' clocks, unless they are one process; the store's rate is 1.
        skips_images, keyed: see `WatchedStore`.
        spare_hosts: whether each broker has a second host, unless the brokers are one process.
        domain: the domain of hosts' names, ``broker-1.sim`` for "sim"; empty: each broker is at ``127.0.0.1``.
        tier_cache_bytes: what a broker keeps of its reads of the tier; 0: there is no tier.

    Attributes:
        tier: the object store, which outlives all brokers; None: there is none.
        processes: the newest process of each running broker.
        replaced: the processes that others have replaced, as long as they run.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        network: SimulatedNetwork,
        rng: random.Random,
        *,
        count: int = 3,
        racks: bool = False,
        one_process: bool = False,
        memory_bytes: int = 0,
        clock_rates: tuple[float, float] = (1.0, 1.0),
        skips_images: bool = False,
        keyed: bool = False,
        spare_hosts: bool = False,
        domain: str = "",
        tier_cache_bytes: int = 0,
        **settings: object,
    ) -> None:
        self.loop = loop
        self.network = network
        self.clock = SimulatedClock(loop)
        self.one_process = one_process
        self._memory_bytes = memory_bytes
        self._slowest_rate = 1.0 if one_process else clock_rates[0]
        self._lease_clock = RunningClock(self.clock) if one_process else None
        self._transaction_clock = RunningClock(self.clock, RunningClock.MAX_GAP_OF_CLIENTS_MS) if one_process else None
        store_rng = random.Random(f"store {rng.random()}")
        self.store = WatchedStore(
            loop, store_rng, self._lease_clock or self.clock, skips_images=skips_images, keyed=keyed
        )
        self.processes: dict[int, SimulatedProcess] = {}
        self.replaced: list[SimulatedProcess] = []
        self._rng = rng
        self._domain = domain
        self._tier_cache_bytes = tier_cache_bytes
        if tier_cache_bytes:
            settings["tier_location"] = "simulated"
        self.tier = SimulatedTier(loop, random.Random(f"tier {rng.random()}")) if tier_cache_bytes else None
        self._hosts = self._build_hosts(count, racks, clock_rates, settings)
        self.topic_settings = topic_settings(self._hosts[1][0].config)
        if spare_hosts and not one_process:
            spares = self._build_hosts(count, racks, clock_rates, settings, name="spare", first_port=FIRST_SPARE_PORT)
            for broker_id, hosts in spares.items():
                self._hosts[broker_id] += hosts
        self._background: list[asyncio.Task[None]] = []

    def _build_hosts(
        self,
        count: int,
        racks: bool,
        clock_rates: tuple[float, float],
        settings: dict[str, Any],
        *,
        name: str = "broker",
        first_port: int = FIRST_PORT,
    ) -> dict[int, list[Host]]:
        rng = random.Random(f"clocks {self._rng.random()}")
        hosts: dict[int, list[Host]] = {}
        for broker_id in range(1, count + 1):
            options: dict[str, Any] = {"broker_id": broker_id, "port": first_port + broker_id - 1}
            options |= {"rack": f"r{broker_id}"} if racks else {}
            if self._domain:
                options["host"] = f"{name}-{broker_id}.{self._domain}"
            config = BrokerConfig(**(options | settings))
            clock = self.clock if self.one_process else SimulatedClock(self.loop, rng.uniform(*clock_rates))
            hosts[broker_id] = [Host(f"{name}-{broker_id}", config, clock)]
        return hosts

    @property
    def broker_ids(self) -> list[int]:
        """All brokers, running or not."""
        return list(self._hosts)

    @property
    def brokers(self) -> dict[int, Broker]:
        """The running brokers, by id; of a broker with two processes that of the newest."""
        return {broker_id: process.broker for broker_id, process in self.processes.items()}

    @property
    def nodes(self) -> dict[int, Node]:
        """The nodes of the newest processes."""
        return {broker_id: process.node for broker_id, process in self.processes.items()}

    def all_processes(self) -> Iterator[SimulatedProcess]:
        """Iterate over all running processes, first those that others have replaced."""
        yield from self.replaced
        yield from self.processes.values()

    def hosts(self) -> list[Host]:
        """Return all hosts, the spare ones last."""
        return [hosts[nth] for nth in (0, 1) for hosts in self._hosts.values() if nth < len(hosts)]

    @property
    def image(self) -> ClusterImage:
        """The committed image."""
        return self.store.image

    @property
    def partitions(self) -> dict[tuple[str, int], PartitionState]:
        """The committed state of every partition, by topic and partition number."""
        return dict(partitions_of(self.image))

    def transactions(self) -> Iterator[tuple[int, Transaction]]:
        """Iterate over the transactional ids that running brokers coordinate, each with its broker's id."""
        for broker_id, broker in self.brokers.items():
            for shard in broker.transactions.coordinator.shards:
                for transaction in shard.transactions.values():
                    yield broker_id, transaction

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The host and port of every broker, running or not, and of the spare hosts."""
        return [(host.config.host, host.config.port) for host in self.hosts()]

    def is_running(self, broker_id: int) -> bool:
        """Whether the broker runs, paused or not."""
        return broker_id in self.processes

    def may_lose_logs(self, broker_id: int, leaving: Collection[int] = ()) -> bool:
        """Whether every partition keeps a running replica, in sync or eligible, without this broker and `leaving`."""
        return all(
            any(
                each.broker_id not in (broker_id, *leaving) and self._is_current(each)
                for each in (*state.isr, *state.elr)
            )
            for state in self.partitions.values()
            if state.isr or state.elr
        )

    def _is_current(self, incarnation: BrokerIncarnation) -> bool:
        broker = self.brokers.get(incarnation.broker_id)
        return broker is not None and broker.lifecycle.incarnation == incarnation

    async def start(self) -> None:
        """Start the store and all brokers."""
        store = self.loop.node(STORE_NODE)
        self._background = [store.spawn(self.store.run(), name="leases")]
        if self._lease_clock is not None and self._transaction_clock is not None:
            self._lease_clock.beat()
            self._transaction_clock.beat()
            self._background.append(store.spawn(self._lease_clock.run(self._transaction_clock), name="lease clock"))
        await asyncio.gather(*(self.start_broker(broker_id) for broker_id in self._hosts))

    def start_broker(self, broker_id: int) -> asyncio.Task[None]:
        """Start a new incarnation of a broker; the task ends when the broker serves."""
        host = self._free_hosts(broker_id)[0]
        node = self.loop.node(host.name)
        rng = random.Random(self._rng.random())
        link = StoreLink(self.network, rng, node, self.loop.node(STORE_NODE) if self.one_process else None)
        broker = Broker(
            host.config,
            self.store.open(link),
            self._clocks(host.clock),
            rng=rng,
            tier=None if self.tier is None else self.tier.open(node),
        )
        if broker.tiering is not None:
            broker.tiering.reads._cache_bytes = self._tier_cache_bytes
        broker.replicas.roles.roles_per_step = ROLES_PER_STEP
        if self._memory_bytes:
            broker.replicas.memory.set_limit(self._memory_bytes)
        self.processes[broker_id] = SimulatedProcess(host, broker, node, link)
        return node.spawn(broker.start(), name=f"start broker {broker_id}")

    def _clocks(self, clock: Clock) -> Clocks:
        """Return the clocks of a broker, of which this is the one of its host."""
        lease, sessions = self._lease_clock or clock, self._transaction_clock or clock
        return Clocks(clock, lease, sessions, sessions, self._slowest_rate)

    def kill_broker(self, broker_id: int) -> None:
        """Kill a broker's newest process; it has no time to shut down."""
        _kill(self.processes.pop(broker_id))

    def _free_hosts(self, broker_id: int) -> list[Host]:
        taken = [process.host for process in self.all_processes()]
        return [host for host in self._hosts[broker_id] if host not in taken]

    def is_replaceable(self, broker_id: int) -> bool:
        """Whether a broker runs, and has a free host for another process."""
        return broker_id in self.processes and bool(self._free_hosts(broker_id))

    async def replace_broker(self, broker_id: int) -> bool:
        """Start another process of a broker beside the one that runs, and return whether it replaced the old one.

        The old one is paused, or cannot reach the store. When it goes on, it has to find that its id was registered
        again, and its process ends. If it kept its lease, the new one was refused, and is gone.

        Raises:
            ValueError: the broker does not run, or has no free host.
        """
        if not self.is_replaceable(broker_id):
            raise ValueError(f"broker {broker_id} has no second process")
        old = self.processes[broker_id]
        self.replaced.append(old)
        old.broker.when_ended(lambda failure: self._replaced_ended(old, failure))
        refused = False
        try:
            await self.start_broker(broker_id)
        except* DuplicateBrokerId:
            refused = True
        if refused:
            self.kill_broker(broker_id)
            self.replaced.remove(old)
            self.processes[broker_id] = old
        return not refused

    def _replaced_ended(self, process: SimulatedProcess, failure: BaseException | None) -> None:
        """End a process whose broker has ended, since another was registered under its id."""
        if process not in self.replaced:
            return
        self.replaced.remove(process)
        _kill(process)
        lost, other = failure.split(RegistrationLost) if isinstance(failure, BaseExceptionGroup) else (None, failure)
        if lost is None or other is not None:
            self.loop.call_exception_handler({"message": f"{process.host.name} failed", "exception": failure})

    async def stop_broker(self, broker_id: int) -> None:
        """Shut a broker down in good order, then end its process."""
        process = self.processes[broker_id]
        await asyncio.wait([process.node.spawn(process.broker.stop())])
        if self.processes.get(broker_id) is process:
            self.kill_broker(broker_id)

    def suspend(self) -> None:
        """Suspend the process of all brokers and the store, as SIGSTOP does; clients go on.

        Raises:
            ValueError: the brokers are processes of their own.
        """
        if not self.one_process:
            raise ValueError("the brokers do not share a process")
        for node in self.nodes_of(self.processes):
            node.pause()
        for process in self.processes.values():
            process.link.suspend()

    def nodes_of(self, broker_ids: Collection[int]) -> list[Node]:
        """Return the nodes of these brokers that run; if they are one process with the store, that one's, too."""
        nodes = [self.processes[broker_id].node for broker_id in broker_ids if broker_id in self.processes]
        return [self.loop.node(STORE_NODE), *nodes] if self.one_process else nodes

    def resume(self) -> None:
        """Let the process of all brokers and the store run again."""
        for node in self.nodes_of(self.processes):
            node.resume()
        for process in self.processes.values():
            process.link.resume()

    async def limit_clients(self, quotas: Mapping[str, float]) -> None:
        """Give each client id these quotas."""
        await self._alter_quotas([QuotaEdit(key, value) for key, value in quotas.items()])

    async def free_clients(self, quotas: Iterable[str]) -> None:
        """Remove these quotas of each client id, and let muted connections go on: the clients have little time left."""
        await self._alter_quotas([QuotaEdit(key, None) for key in quotas])
        for broker in self.brokers.values():
            for purgatory in broker.purgatories:
                if purgatory.name == THROTTLED.purgatory:
                    for parked in purgatory.operations(limit=10_000):
                        if (operation := purgatory.find(parked.id)) is not None:
                            operation.force_complete()

    async def _alter_quotas(self, edits: list[QuotaEdit]) -> None:
        edit = EntityEdit([(CLIENT_ID, None)], edits)
        await decide(self.store.open(), lambda image: alter_client_quotas(image, [edit]))

    async def stop(self) -> None:
        """Shut all brokers down in good order, then the store; replaced processes are killed."""
        while self.replaced:
            _kill(self.replaced.pop())
        await asyncio.gather(*(self.stop_broker(broker_id) for broker_id in list(self.processes)))
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)


def _kill(process: SimulatedProcess) -> None:
    process.link.cut()
    process.node.kill()
