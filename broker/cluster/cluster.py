"""Several brokers in one process.

The brokers share only the event loop and the metadata store, and connect to each other over TCP. Each broker can be
stopped, killed and restarted while the others run; a restarted broker has empty logs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from purgatorio.broker.cluster import snapshots
from purgatorio.broker.cluster.decisions import until
from purgatorio.broker.cluster.errors import ClusterUnavailable, OperationRefused
from purgatorio.broker.cluster.leadership import Leadership
from purgatorio.broker.cluster.network import Network
from purgatorio.broker.cluster.snapshots import Snapshot
from purgatorio.broker.config import BrokerConfig, ClusterConfig
from purgatorio.broker.config.cluster_settings import MAX_BROKERS
from purgatorio.broker.config.listeners import with_ports
from purgatorio.broker.layers.faults import FaultRegistry
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.metadata.embedded import DirectLink, EmbeddedStore
from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.metadata.served import AnyStore
from purgatorio.broker.metrics.loop_lag import LoopLag
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.node.broker_maker import BrokerMaker
from purgatorio.broker.node.machine import fitted, usable_memory_bytes
from purgatorio.broker.node.member import Ports, ProcessMember, close
from purgatorio.broker.node.resident_memory import MemoryGuard
from purgatorio.broker.server.listening import hold
from purgatorio.broker.time.garbage import GarbageTuning
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.purgatory.clock import Clock

CHANGES_TIME_LIMIT_MS: Final = 60_000
"""The time that a broker has to stop or start, and a restore to be done, before all brokers are killed at the end."""
_REPLACED: Final = "being replaced, as the cluster is reset"
_FILLED: Final = "being given what the cluster begins with"


class BrokerStateError(OperationRefused):
    """A broker cannot be stopped, killed or started in its current state, or no broker has this id."""


class Contents:
    """The contents that brokers get when they start, and again when the cluster is reset; subclasses have more.

    Attributes:
        snapshot: topics with records, which the brokers have before they run.
    """

    snapshot: Snapshot | None = None

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self.snapshot = snapshot

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing."""
        return self.snapshot is None

    async def create(self, cluster: BrokerCluster) -> None:
        """Create contents without records; clients wait meanwhile, and the brokers for each other."""

    async def fill(self, cluster: BrokerCluster) -> None:
        """Append the records that are not of the snapshot; the cluster runs, and is not ready."""


class BrokerCluster:
    """Brokers that run together; an asynchronous context manager.

    Args:
        config: the number of brokers, their addresses and their configs.
        clock: the source of time; by default the machine's. With a `ManualClock` time passes when you advance it.
        seed: seeds the random choices (topic ids, replica assignments, jitter of retries); None: they differ each time.
        garbage: sets Python's garbage collector from `start` to `stop`, for the whole process; None leaves it as it is.
        member: makes one of the brokers part of a cluster of several processes; None: all brokers are in this one.
        cluster_id: the id of the cluster; None: a new one.

    Attributes:
        brokers: the running brokers, by ascending id.
        store: the metadata store that the brokers share.
        claim: the cluster's to its tier; None: there is none, or its brokers are in several processes.
        lease_clock, transaction_clock, member_clock: see `BrokerMaker`.
        work: takes the steps of what takes long, for the cluster and its operators.
        faults: the fault rules; a broker that is started again is under them too.
        network: lets brokers stand still, and cuts them off from each other.
        leadership: moves leaders and coordinators.
        when_renewed: called when `start`, `reset` or `restore` has made brokers and store, even if it fails later.
        beginning: what the cluster has after `start` and after each `reset`.
        has_begun: whether it has all of that, or of the snapshot that it was restored to.
        beside: begins anew, at the very end of `reset` and `restore`, what runs beside the brokers; None: nothing does.
        loop_lag: how late this process's event loop is, by the machine's clock whatever `clock` is.
        memory_guard: looks at the memory of this process, if `garbage` is given: then the cluster has it to itself.
    """

    def __init__(
        self,
        config: ClusterConfig,
        clock: Clock | None = None,
        *,
        seed: int | None = None,
        garbage: GarbageTuning | None = None,
        member: ProcessMember | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.config = config
        self._member = member
        self.clock = clock if clock is not None else SystemClock()
        self._garbage = garbage
        self._maker = BrokerMaker(config, self.clock, seed, member, cluster_id)
        self.cluster_id, self.claim = self._maker.cluster_id, self._maker.claim
        self.lease_clock, self.transaction_clock = self._maker.lease_clock, self._maker.transaction_clock
        self.member_clock = self._maker.member_clock
        self.work = self._maker.long_work.of_owner()
        self.loop_lag = LoopLag(SystemClock())
        self.memory_guard = MemoryGuard(self._memories, SystemClock())
        self.store: AnyStore = member.store if member else self._maker.store()
        own_configs = [member.config(config)] if member else config.broker_configs()
        memory_bytes = usable_memory_bytes()
        self._configs = {each.broker_id: fitted(each, config.brokers, memory_bytes) for each in own_configs}
        self._first_ids = list(self._configs)
        self._links: dict[int, DirectLink] = {}
        self._held: dict[int, Ports] = {}
        if member and member.listening:
            self._held = dict.fromkeys(self._configs, member.listening)
        self._changing: dict[int, str] = {}
        self._lease_beat: asyncio.Task[None] | None = None
        self._lease_checks: asyncio.Task[None] | None = None
        self._failure: asyncio.Future[None] | None = None
        self.faults = FaultRegistry(self.clock, seed or 0)
        self.network = Network(self)
        self.leadership = Leadership(self.network)
        self.when_renewed: Callable[[], object] = lambda: None
        self.beginning: Contents = Contents()
        self.has_begun = False
        self.beside: Callable[[], Awaitable[object]] | None = None
        self.brokers = [self._build(each) for each in self._configs.values()]

    def _build(self, config: BrokerConfig) -> Broker:
        broker, self._links[config.broker_id] = self._maker.broker(config, self.store)
        self.faults.attach(broker.fault_target)
        return broker

    def _memories(self) -> list[tuple[MemoryBudget, int]]:
        return [(broker.log_memory, broker.config.memory_bytes) for broker in self.brokers]

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all brokers of this process, running or not."""
        return list(self._configs)

    @property
    def addresses(self) -> list[tuple[int, str, int]]:
        """The id and the advertised host and port of each running broker."""
        return [(broker.broker_id, *broker.address) for broker in self.brokers]

    @property
    def endpoints(self) -> list[tuple[int, list[Endpoint]]]:
        """The id of each running broker, with the endpoints that it advertises to clients, one for each listener."""
        return [(broker.broker_id, broker.endpoints) for broker in self.brokers]

    @property
    def bootstrap(self) -> str:
        """The addresses of the running brokers with commas between, for a Kafka client (`bootstrap.servers`)."""
        return ",".join(f"{host}:{port}" for _, host, port in self.addresses)

    # --- the cluster ---

    async def start(self) -> None:
        """Start all brokers.

        Returns when they answer clients, with all that `beginning` has. If it raises, all brokers are stopped again.

        Raises:
            OSError: a port is in use, or a host is not an address of this machine.
            TierUnusable: see `BrokerMaker.check_tier`.
            OperationRefused: the brokers cannot be given what the cluster begins with.
        """
        loop = asyncio.get_running_loop()
        self._failure = loop.create_future()
        for clock in (self.lease_clock, self.transaction_clock):
            clock.beat()  # the time before the start does not count as a suspension
        self._lease_beat = loop.create_task(self.lease_clock.run(self.transaction_clock), name="lease clock")
        if isinstance(self.store, EmbeddedStore):
            self._lease_checks = loop.create_task(self.store.run(), name="leases")
        try:
            await self._maker.check_tier()
            if self.beginning.snapshot is not None:
                assert isinstance(self.store, EmbeddedStore), "brokers of several processes begin with nothing"
                await snapshots.fill(self.brokers, self.beginning.snapshot, self.work)
                self.store.begin_with(snapshots.first_image(self.store.image, self.beginning.snapshot))
            await self._start_all(self.beginning, self._held)
            self._changing = dict.fromkeys(self._configs, _FILLED)
            await self._answering()
            if self._garbage is not None:
                self._garbage.begin()
                self.memory_guard.start()
            self.loop_lag.start()
            await self._fill(self.beginning)
        except BaseException:
            self._changing = {}
            await self.stop()
            raise

    async def _answering(self) -> None:
        """Called by `start` when the brokers answer clients, and may not have all records yet. Does nothing here."""

    async def reset(self, begun: Callable[[], object] = lambda: None) -> None:
        """Make the cluster as it was after its start: all brokers run, without topics, groups, producers and configs.

        Fault rules are removed, the network is healed, brokers that were added are gone; `beginning` is there again:
        it is filled into brokers that do not run yet, while the former ones serve on, whatever these acknowledge. Then
        every broker is killed and replaced by a new one on its port; connections of clients are closed without answers,
        and clients that connect meanwhile wait. The admin HTTP runs on. Metadata versions grow on, so that they stay
        comparable; producer ids begin anew, and leader epochs, but of topics whose ids are in `beginning`.

        Args:
            begun: called when it is not refused any more, before a broker is replaced.

        Raises:
            BrokerStateError: a broker is being stopped or started.
            OSError: a port cannot be listened on; the cluster can only be stopped then.
            OperationRefused: the brokers cannot be given what the cluster begins with.
        """
        await self._renew(self.beginning, begun)

    async def _renew(self, contents: Contents, begun: Callable[[], object] = lambda: None) -> None:
        """Replace all brokers by new ones that have the contents; what fails before that leaves all as it was."""
        async with self._alone():
            store = self._maker.store()
            made = [self._maker.broker(self._configs[each], store) for each in self._first_ids]
            try:
                if contents.snapshot is not None:
                    there = await snapshots.as_far_as_there(contents.snapshot, made[0][0])
                    await snapshots.fill([broker for broker, _ in made], there, self.work)
            except BaseException:
                for broker, _ in made:
                    broker.store.close()
                raise
            begun()
            self.has_begun = False
            await self._replace(store, made, contents)
            self._changing = dict.fromkeys(self._configs, _FILLED)
            await self._fill(contents)
        if self.beside is not None:
            await self.beside()

    async def _fill(self, contents: Contents) -> None:
        """Append the records that are not of the snapshot; nothing else may replace or end brokers meanwhile."""
        try:
            await contents.fill(self)
        finally:
            self._changing = {}
        self.has_begun = True

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Let no broker be stopped or started meanwhile.

        Raises:
            BrokerStateError: one is being stopped or started.
        """
        self._check_whole()
        self._changing = dict.fromkeys(self._configs, _REPLACED)
        try:
            yield
        finally:
            self._changing = {}

    def _check_whole(self) -> None:
        if self._member is not None:
            raise BrokerStateError("this broker is one process of several; only a cluster in one process does that")
        if self._changing:
            raise BrokerStateError(f"broker {(first := min(self._changing))} is {self._changing[first]}")

    async def _replace(self, store: EmbeddedStore, made: list[tuple[Broker, DirectLink]], contents: Contents) -> None:
        """End the brokers that run, and start these at their ports."""
        self.faults.reset()
        ports = {**self._held, **{broker.broker_id: broker.keep_ports() for broker in self.brokers}}
        self._held = {}
        try:
            for broker in self.brokers:
                await broker.kill()
                broker.store.close()
                self.faults.detach(broker.fault_target)
            if self._failure is not None and self._failure.done():
                self._failure.exception()  # mark it as retrieved: the broker that failed is replaced
                self._failure = asyncio.get_running_loop().create_future()
            await _cancelled(self._lease_checks)
            store.begin_with(snapshots.first_image(store.image, contents.snapshot, before=self.store.image))
            self._lease_checks = asyncio.get_running_loop().create_task(store.run(), name="leases")
            self._configs = {each: self._configs[each] for each in self._first_ids}
            self._links = {broker.broker_id: link for broker, link in made}
            self.store, self.brokers = store, [broker for broker, _ in made]
            for broker in self.brokers:
                self.faults.attach(broker.fault_target)
            self.network.clear()
            await self._start_all(contents, ports)
        finally:
            for kept in ports.values():
                close(kept)

    async def _start_all(self, contents: Contents, ports: dict[int, Ports]) -> None:
        """Start the brokers. Clients wait until topics are there with leaders, so that they meet no half of them."""
        self.network.keep_waiting(not contents.is_empty)
        try:
            for broker in self.brokers:
                await self._start(broker, ports.pop(broker.broker_id, None))
            if self.config.record_delays:  # one partition per broker, so that each can lead one and append to it
                self.brokers[0].create_delays_topic(partitions=self.config.brokers)
            try:
                if contents.snapshot is not None:
                    await snapshots.lead(contents.snapshot, self.store, self.brokers)
            finally:
                self.when_renewed()
            await contents.create(self)
        finally:
            self.network.keep_waiting(False)
        if contents.snapshot is not None:
            await snapshots.until_loaded(self.brokers)

    def snapshot(self) -> Snapshot:
        """Return what the cluster has now, for `restore`; takes milliseconds, and copies no record.

        It has topics with their configs, committed records, groups with members and committed offsets, producers with
        their sequences, and transactions. It has no connections, parked requests, held or fenced brokers, faults, or
        time; nor records that are not committed yet.

        Raises:
            ClusterUnavailable: a partition has no leader that runs.
        """
        return snapshots.take(self.store.image, self.brokers)

    async def restore(self, snapshot: Snapshot) -> None:
        """Make the cluster as it was at a snapshot; beyond that it is as after `reset`. It can be restored again.

        Clients that live on connect again; members of a group that were in it at the snapshot are in it again.

        Raises:
            OperationRefused: the snapshot is of a cluster with other brokers.
            BrokerStateError: a broker is being stopped or started.
            ClusterUnavailable: the brokers do not get there in time; the cluster is not ready then.
            OSError: as `reset`.
        """
        await self._renew(Contents(snapshot))

    async def failed(self) -> None:
        """Wait until a running broker fails (a broken invariant, a lost registration), and raise its exception."""
        assert self._failure is not None, "the cluster was not started"
        await asyncio.shield(self._failure)

    async def stop(self) -> None:
        """Stop all brokers; no task, socket or parked operation is left.

        Raises:
            BaseExceptionGroup: the exceptions of brokers that failed while they ran; all others are stopped first.
        """
        self.loop_lag.stop()
        self.memory_guard.stop()
        if self._garbage is not None:
            self._garbage.end()
        # Concurrently, so that no broker waits for the response of a stopped one.
        outcomes = await asyncio.gather(*(broker.stop() for broker in self.brokers), return_exceptions=True)
        for held_ports in self._held.values():
            close(held_ports)
        for broker in self.brokers:
            broker.store.close()
        for task in (self._lease_beat, self._lease_checks):
            await _cancelled(task)
        if self._failure is not None and not self._failure.cancel() and not self._failure.cancelled():
            self._failure.exception()  # mark it as retrieved: `failed` may have no caller
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            raise BaseExceptionGroup("brokers failed while they ran", failures)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def kill_all(self) -> list[Broker]:
        """Kill all brokers in one turn of the event loop, after changes that are under way; return them.

        A change that takes longer than `CHANGES_TIME_LIMIT_MS` is not waited for.
        """
        with contextlib.suppress(ClusterUnavailable):
            await until(lambda: not self._changing, "no broker is being stopped or started", CHANGES_TIME_LIMIT_MS)
        brokers, self.brokers = self.brokers, []
        await asyncio.gather(*(broker.kill() for broker in brokers))
        for broker in brokers:
            self.faults.detach(broker.fault_target)
        return brokers

    # --- one broker ---

    def broker(self, broker_id: int) -> Broker:
        """Return a running broker.

        Raises:
            BrokerStateError: the broker does not run, or no broker has this id.
        """
        for broker in self.brokers:
            if broker.broker_id == broker_id:
                return broker
        if broker_id in self._configs:
            raise BrokerStateError(f"broker {broker_id} is not running")
        known = ", ".join(map(str, self._configs))
        raise BrokerStateError(f"there is no broker {broker_id}, only {known}")

    def store_link(self, broker_id: int) -> DirectLink:
        """Return the link between a running broker and the metadata store, for tests to hold; raises as `broker`."""
        return self._links[self.broker(broker_id).broker_id]

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a broker: it unregisters, other brokers lead its partitions, parked requests are answered.

        Raises:
            BrokerStateError: the broker does not run, or is being stopped.
        """
        await self._end(broker_id, kill=False)

    async def kill_broker(self, broker_id: int) -> None:
        """Kill a broker: it answers no request and does not unregister. The others fence it when its lease expires.

        Raises:
            BrokerStateError: the broker does not run, or is being stopped.
        """
        await self._end(broker_id, kill=True)

    async def start_broker(self, broker_id: int) -> None:
        """Start a broker again, with empty logs, on the port that it had, which this process has kept meanwhile.

        Raises:
            BrokerStateError: the broker runs already, or no broker has this id.
            OSError: it is another broker, and its port is in use.
        """
        self._check_unchanging(broker_id)
        if any(broker.broker_id == broker_id for broker in self.brokers):
            raise BrokerStateError(f"broker {broker_id} is running already")
        if broker_id not in self._configs:
            self.broker(broker_id)
        broker = self._build(self._configs[broker_id])
        self._changing[broker_id] = "being started"
        ports = self._held.pop(broker_id, {})
        try:
            await self._start(broker, ports)
        except BaseException:
            broker.store.close()
            close(ports)
            raise
        finally:
            self._changing.pop(broker_id, None)
        self.brokers = sorted([*self.brokers, broker], key=lambda each: each.broker_id)
        self.network.apply()

    async def add_broker(self, rack: str | None = None) -> int:
        """Start one more broker, with the next id and ports; return its id. It leads nothing until it gets partitions.

        Topics that are created from now on may have replicas there. `reset` takes it away again.

        Args:
            rack: its rack; None: the next one of the setting `racks`.

        Raises:
            BrokerStateError: a broker is being stopped or started, or there are `MAX_BROKERS`.
            OSError: its port is in use.
        """
        self._check_whole()
        index = len(self._configs)
        if index >= MAX_BROKERS:
            raise BrokerStateError(f"there are {MAX_BROKERS} brokers already")
        config = fitted(self.config.broker_config(index), index + 1, usable_memory_bytes())
        broker_id = config.broker_id
        self._configs[broker_id] = config if rack is None else config.model_copy(update={"rack": rack})
        try:
            await self.start_broker(broker_id)
        except BaseException:
            del self._configs[broker_id]
            raise
        return broker_id

    async def _start(self, broker: Broker, listening: Ports | None = None) -> None:
        await broker.start(listening)
        broker.when_ended(self._broker_ended)
        # Ports that the system chose are kept, so that clients can reconnect after a restart.
        ports = {name: listener.address[1] for name, listener in broker.listeners.items()}
        self._configs[broker.broker_id] = with_ports(broker.config, ports)

    def _check_unchanging(self, broker_id: int) -> None:
        if broker_id in self._changing:
            raise BrokerStateError(f"broker {broker_id} is {self._changing[broker_id]}")

    async def _end(self, broker_id: int, *, kill: bool) -> None:
        broker = self.broker(broker_id)
        self._check_unchanging(broker_id)
        self._changing[broker_id] = "being stopped"
        ports = broker.hold_ports()
        try:
            if not kill:
                self.network.resume(broker_id)  # what stands still cannot stop in good order
            await (broker.kill() if kill else broker.stop())
        finally:
            # No other process may take the port, where it would be taken for this broker.
            self._held[broker_id] = {name: hold(kept) for name, kept in ports.items()}
            broker.store.close()
            self.faults.detach(broker.fault_target)
            self.brokers = [each for each in self.brokers if each is not broker]
            self.network.forget(broker_id)
            self._changing.pop(broker_id, None)
            if self._garbage is not None:
                self._garbage.renew_soon(self.clock)

    def _broker_ended(self, error: BaseException | None) -> None:
        if error is not None and self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)


async def _cancelled(task: asyncio.Task[None] | None) -> None:
    """Cancel a task, if there is one, and wait for its end."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
