"""One broker: builds, connects, starts and stops its parts.

This is the only module that knows all parts; each part gets its collaborators from here.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.parts import in_parts
from purgatorio.broker.api.registry import Services
from purgatorio.broker.api.routes import own_routes, versions_as
from purgatorio.broker.causes.kinds import ELECT_LEADER, FETCH, KINDS, PRODUCE, TOPIC
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.authentication import AuthenticationServices
from purgatorio.broker.config.by_room import (
    connection_limits,
    fetch_settings,
    share_version,
    topic_settings,
    topic_synonyms,
)
from purgatorio.broker.config.descriptions import BrokerDescription
from purgatorio.broker.config.dynamic import DynamicBrokerConfig, dynamic_keys_of, is_fixed, type_of
from purgatorio.broker.config.group_configs import group_keys
from purgatorio.broker.config.listeners import BROKERS
from purgatorio.broker.delays.finished import FinishedOperations
from purgatorio.broker.delays.recorder import DelayRecorder, create_delays_topic
from purgatorio.broker.delays.tracing import spans_of
from purgatorio.broker.layers.faults import FaultTarget, FaultyStore, StoreRules
from purgatorio.broker.layers.faults.matching import ImageTopics
from purgatorio.broker.log.arena import Arena
from purgatorio.broker.log.broker_logs import BrokerLogs
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.log.validator import RecordValidation
from purgatorio.broker.metadata.broker_lifecycle import BrokerLifecycleManager, LeaseTerms
from purgatorio.broker.metadata.delayed_decision import MetadataPurgatories
from purgatorio.broker.metadata.image import ClusterImage, Endpoint
from purgatorio.broker.metadata.releases import release
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.metrics.counters import BrokerMetrics
from purgatorio.broker.node.access_control import control_access
from purgatorio.broker.node.broker_connections import BrokerConnections
from purgatorio.broker.node.coordinators import CoordinatorParts, Coordinators
from purgatorio.broker.node.key_refresh import keep_fresh
from purgatorio.broker.node.listeners import BrokerListeners
from purgatorio.broker.node.metadata_publisher import BrokerMetadataPublisher
from purgatorio.broker.node.quotas import broker_quotas, limit_connections, limit_tier, tier_traffic
from purgatorio.broker.node.resident_memory import MemoryUse
from purgatorio.broker.node.upkeep import Upkeep
from purgatorio.broker.replica.alter_partition_manager import AlterPartitionManager
from purgatorio.broker.replica.fetching.fetch_session import FetchSessionCache
from purgatorio.broker.replica.following.fetcher_manager import ReplicaFetcherManager
from purgatorio.broker.replica.following.follower import FollowerGate, FollowerServices
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.replica.tier_sweep import Sweep
from purgatorio.broker.replica.tiering import Tiering
from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.routing.route_layers import Layer, RouteLayers
from purgatorio.broker.security.broker_credentials import BrokerCredentials
from purgatorio.broker.server.peers import PeerNetwork, Peers
from purgatorio.broker.server.request_queue import RequestMemory
from purgatorio.broker.server.shared_services import ListenerParts
from purgatorio.broker.server.turns import Turns
from purgatorio.broker.tier.claim import StoreClaim
from purgatorio.broker.tier.cleaning import SegmentCleaner
from purgatorio.broker.tier.copying import SegmentCopier
from purgatorio.broker.tier.reads import RemoteReads
from purgatorio.broker.tier.store import Store
from purgatorio.broker.time.clocks import Clocks
from purgatorio.broker.time.event_loop import call_soon
from purgatorio.broker.time.long_work import LongWork
from purgatorio.logger import get_logger
from purgatorio.purgatory import FinishedOperation

logger = get_logger(__name__)

TIER_CACHE_DIVISOR: Final = 16
"""The part of the memory for logs that a broker with a tier keeps for what it has read there. It is kept also while
memory is full, as it is all the time where topics are larger: else a read that was late would be of use to no fetch."""


class Broker:
    """A broker of a cluster.

    Args:
        store: the broker's access to the metadata store; closed with the broker.
        rng: the source of random choices: topic ids, replica assignments, jitter of retries, and the broker epoch,
            which clients must not be able to predict.
        credentials: those of the cluster's brokers; by default this broker is the only one.
        connections_cap: the connections for which the process has files, whatever max.connections is changed to.
        turns: of the event loop, shared with the other brokers of the process; by default the broker shares none.
        long_work: what takes long in these turns, likewise.
        tier: the object store of topics with remote.storage.enable; None: there is none.
        claim: of the cluster to it; None: by the cluster's id, as no other cluster of the id is thought of.

    Attributes:
        endpoints: what it advertises to clients, in the order of the setting `listeners`; empty until it listens.
        purgatories: all purgatories, by Kafka's names. `purgatory_of` returns that of a kind, and makes it.
        peer_network: its connections to other brokers, which a test can hold.
        coordinators: of groups, transactions and share groups' states, and how leaders reach them.
        layers: what stands before the handlers of its APIs.
        access: what ACLs allow; None without an authorizer.
        fault_target: what fault rules need of this broker.
        tiering: its part of the tier; None: there is none.
        sweep: deletes what deleted topics leave there; None, likewise.
    """

    sweep: Sweep | None = None

    def __init__(
        self,
        config: BrokerConfig,
        store: MetadataStore,
        clocks: Clocks,
        *,
        rng: random.Random,
        credentials: BrokerCredentials | None = None,
        connections_cap: int | None = None,
        turns: Turns | None = None,
        long_work: LongWork | None = None,
        tier: Store | None = None,
        claim: StoreClaim | None = None,
    ) -> None:
        self.config, self.broker_id = config, config.broker_id
        long_work = long_work or LongWork(call_soon)
        self._work = long_work.of_owner()
        self._credentials = credentials or BrokerCredentials(secrets.token_bytes())
        self.dynamic = DynamicBrokerConfig(config)
        self.clocks = clocks
        self.clock = clock = clocks.broker
        self.store = store
        self.metrics = BrokerMetrics(config.broker_id)
        self.finished = FinishedOperations()
        self._spans = spans_of(config.traces_endpoint, config.broker_id, clock)
        self.gate = FollowerGate(clock, config.follower_delay_ms)
        self.endpoints: list[Endpoint] = []
        self._rng = rng
        self._connections_cap = connections_cap
        self._parked = parked = Purgatories(clocks, self._spans.also(self._operation_finished), purge_intervals(config))
        self.purgatories, self.purgatory_of = parked.all, parked.of
        self.produce_purgatory, self.fetch_purgatory = parked.of(PRODUCE), parked.of(FETCH)
        self._metadata_purgatories = MetadataPurgatories(parked.of(TOPIC), parked.of(ELECT_LEADER), store.image)
        self._topics = topic_settings(config)
        self.lifecycle = self._build_lifecycle()
        self.lifecycle.replicas = self.replicas = self._build_replicas(has_tier=tier is not None)
        self.tiering, self._rule_tier = self._build_tiering(tier, claim)
        self.fetch_sessions = FetchSessionCache(
            slots=config.max_incremental_fetch_session_cache_slots,
            clock=clocks.lease,
            rng=rng,
            closed=self.replicas.end_session,
        )
        self.recorder = DelayRecorder(self.replicas, clock, self.metrics)
        self.peer_network = PeerNetwork()
        gather = self.replicas.memory.arena.gather
        self._connections = BrokerConnections(
            config,
            self._credentials,
            store=store,
            clock=clocks.lease,
            peer_network=self.peer_network,
            gather=gather,
        )
        self.peers = Peers(partial(self._connections.connect, client="coordinator"))
        self.coordinators = self._build_coordinators()
        self.groups, self.transactions = self.coordinators.groups, self.coordinators.transactions
        self.led_shares = self.coordinators.led_shares
        self._listings = Listings(self._work)
        self.request_memory = RequestMemory(connection_limits(config).request_memory_bytes, gather)
        self._listeners = self._build_listeners(turns, long_work)
        self.listeners = self._listeners.by_name
        self.fetchers = self._build_fetchers()
        self._publisher = self._build_publisher()
        self._upkeep = self._build_upkeep()
        self._tasks: asyncio.TaskGroup | None = None
        self._children: list[asyncio.Task[None]] = []
        self._main: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def _build_replicas(self, *, has_tier: bool) -> ReplicaManager:
        config = self.config
        cached_bytes = config.log_memory_bytes // TIER_CACHE_DIVISOR if has_tier else 0
        replicas = ReplicaManager(
            config.broker_id,
            clock=self.clocks.lease,
            logs=BrokerLogs(
                MemoryBudget(
                    config.log_memory_bytes - cached_bytes,
                    self.clock,
                    config.log_memory_uncommitted_percent,
                    Arena(self.clock, config.memory_bytes),
                ),
                self._topics.log,
                RecordValidation(full=config.record_validation == "full"),
                config.producer_id_expiration_ms,
            ),
            purgatories=self._parked,
            lease=self.lifecycle,
            in_sync_changes=AlterPartitionManager(self.store, settings=self._topics, observer=self.metrics),
            observer=self.metrics,
            work=self._work,
        )
        replicas.writes.watch_acks = self._spans.watch_acks
        return replicas

    def _build_tiering(
        self, tier: Store | None, claim: StoreClaim | None
    ) -> tuple[Tiering | None, Callable[[StoreRules], None] | None]:
        if tier is None:
            return None, None
        if claim is None:
            cluster_id = self.store.image.cluster_id
            claim = StoreClaim(tier, self.clock, cluster_id, owner=cluster_id)
        store = FaultyStore(tier)
        config, clock = self.config, self.clock
        cached_bytes = config.log_memory_bytes // TIER_CACHE_DIVISOR
        traffic = tier_traffic(config, clock)
        reads = RemoteReads(
            store, clock, readers=config.remote_log_reader_threads, cache_bytes=cached_bytes, traffic=traffic
        )
        tiering = Tiering(
            self.replicas.lookup,
            store,
            reads=reads,
            copier=SegmentCopier(store, clock, self._rng.randbytes, claim, traffic),
            cleaner=SegmentCleaner(store, clock, claim, traffic),
            clock=clock,
            interval_ms=config.remote_log_manager_task_interval_ms,
            copied_at_once=config.remote_log_manager_copier_thread_pool_size,
        )
        self.replicas.use_tier(
            tiering,
            self._parked,
            max_wait_ms=lambda: self.dynamic.current.remote_fetch_max_wait_ms,
            look_up_timeout_ms=lambda: self.dynamic.current.remote_list_offsets_request_timeout_ms,
        )
        self.sweep = Sweep(store, claim, clock, lambda: self.image, self._sweeps)
        return tiering, store.obey

    def _sweeps(self) -> bool:
        """Return whether this broker sweeps the tier: it is certainly the controller."""
        return self.image.controller_id == self.broker_id and self.lifecycle.has_lease()

    def _build_lifecycle(self) -> BrokerLifecycleManager:
        config, clocks = self.config, self.clocks
        return BrokerLifecycleManager(
            config.broker_id,
            self.store,
            clock=clocks.lease,
            terms=LeaseTerms(
                config.broker_session_timeout_ms, config.broker_heartbeat_interval_ms, clocks.slowest_rate
            ),
            rack=config.rack,
            settings=self._topics,
            rng=self._rng,
        )

    def _build_coordinators(self) -> Coordinators:
        parts = CoordinatorParts(
            config=self.config,
            replicas=self.replicas,
            clock=self.clock,
            store=self.store,
            topics=self._topics,
            purgatories=self._parked,
            rng=self._rng,
            work=self._work,
        )
        return Coordinators(parts, self.peers.send, self.metrics)

    def _build_fetchers(self) -> ReplicaFetcherManager:
        services = FollowerServices(
            replicas=self.replicas,
            connect=partial(self._connections.connect, client="fetcher"),
            settings=fetch_settings(self.config),
            gate=self.gate,
            clock=self.clock,
            rng=self._rng,
        )
        return ReplicaFetcherManager(services, self._spawn)

    def _build_publisher(self) -> BrokerMetadataPublisher:
        return BrokerMetadataPublisher(
            self.dynamic,
            replicas=self.replicas,
            lifecycle=self.lifecycle,
            fetchers=self.fetchers,
            others=(self._metadata_purgatories, self.recorder, self.coordinators, self.quotas),
            reconfigured=self._reconfigure,
            work=self._work,
        )

    def _build_upkeep(self) -> Upkeep:
        return Upkeep(
            self.dynamic,
            clock=self.clock,
            replicas=self.replicas,
            recorder=self.recorder,
            store=self.store,
            lifecycle=self.lifecycle,
            topics=self._topics,
            work=self._work,
        )

    def _build_listeners(self, turns: Turns | None, long_work: LongWork) -> BrokerListeners:
        config = self.config
        admin = AdminContext(
            broker_id=config.broker_id,
            store=self.store,
            rng=self._rng,
            purgatories=self._metadata_purgatories,
            topics=self._topics,
            auto_create_topics_enable=config.auto_create_topics_enable,
            delete_topic_enable=config.delete_topic_enable,
            max_partitions_per_page=config.max_request_partition_size_limit,
            seems_dead=self._seems_dead,
            broker_configs=BrokerDescription(config),
            dynamic_keys=dynamic_keys_of(config),
            type_of=type_of,
            is_fixed=is_fixed,
            topic_synonyms=topic_synonyms(),
            group_keys=group_keys(config),
            has_authorizer=bool(config.authorizer_class_name),
            listings=self._listings,
        )
        self.layers = RouteLayers(own_routes(self._services(admin)))
        self.layers.put(Layer.LARGE_REQUESTS, in_parts(self._listings))
        self.quotas = broker_quotas(
            self.layers,
            self._parked,
            clock=self.clock,
            dynamic=self.dynamic,
            store=self.store,
            sessions=self.fetch_sessions,
        )
        self.fault_target = FaultTarget(
            broker_id=config.broker_id,
            layers=self.layers,
            topics=ImageTopics(self.store, self.led_shares.sessions),
            purgatories=self._parked,
            toxics=lambda toxics: self._listeners.pass_toxics(toxics),
            tier=self._rule_tier,
        )
        self.coordinators.persister.asks_itself = self.fault_target.is_ruled
        self.access = control_access(
            self.layers,
            config,
            clock=self.clock,
            store=self.store,
            sessions=self.fetch_sessions,
            share_sessions=self.led_shares.sessions,
        )
        return BrokerListeners(
            config,
            self.layers.routes,
            self._listener_parts(turns, long_work),
            credentials=self._credentials,
            clients=AuthenticationServices(
                credentials=lambda: self.image.scram_credentials,
                random_bytes=self._rng.randbytes,
                secret=self._credentials.derived(b"scram"),
                wall_ms=self.clock.wall_ms,
            ),
            rates=self.quotas.connections,
        )

    def _listener_parts(self, turns: Turns | None, long_work: LongWork) -> ListenerParts:
        return ListenerParts(
            limits=connection_limits(self.config),
            clock=self.clock,
            deadline_clock=self.clocks.transactions,
            turns=turns or Turns(call_soon, self.clock.now_seconds),
            answers=Listings(long_work.of_owner()),
            memory=self.request_memory,
            observer=self.metrics,
        )

    def _services(self, admin: AdminContext) -> Services:
        config = self.config
        return Services(
            admin=admin,
            replicas=self.replicas,
            fetch_sessions=self.fetch_sessions,
            groups=self.groups,
            markers=self.coordinators.marker_writer,
            transactions=self.transactions,
            shares=self.coordinators.shares,
            share_version=share_version(config),
            led_shares=self.led_shares,
            fetch_max_bytes=config.fetch_max_bytes,
            versions=versions_as(config.as_version),
            release=release(config.as_version),
        )

    def _operation_finished(self, operation: FinishedOperation) -> None:
        self.finished.add(operation)
        self.recorder.add(operation)

    @property
    def partitions(self) -> Iterable[Partition]:
        """All replicas of this broker."""
        return self.replicas.partitions.values()

    def replica(self, tp: TopicPartition) -> Partition | None:
        """The replica of a partition on this broker; None if it has none."""
        return self.replicas.partitions.get(tp)

    @property
    def address(self) -> tuple[str, int]:
        """The advertised host and port of the first listener; port 0 until it listens."""
        return self.endpoints[0][1:] if self.endpoints else self.config.advertised

    @property
    def image(self) -> ClusterImage:
        """The image that this broker acts on."""
        return self.store.image

    @property
    def log_memory(self) -> MemoryBudget:
        """The memory that its logs use."""
        return self.replicas.memory

    @property
    def memory_use(self) -> MemoryUse:
        """How much memory it may take, and its logs, requests and answers do."""
        return MemoryUse(
            self.config.memory_bytes,
            self.log_memory.used_bytes,
            self.request_memory.used_bytes,
            sum(listener.unsent_bytes for listener in self.listeners.values()),
        )

    # --- start and stop ---

    async def start(self, listening: Mapping[str, Sequence[socket.socket]] | None = None) -> None:
        """Listen, register, and follow leaders; returns when the broker answers clients.

        Args:
            listening: see `BrokerListeners.start`.

        Raises:
            OSError: the port is in use, or the host is not an address of this machine.
        """
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._main = asyncio.create_task(self._run(started, listening or {}), name=f"broker {self.broker_id}")
        await asyncio.wait([started, self._main], return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            failed, self._main = self._main, None
            await failed

    def keep_ports(self) -> dict[str, list[socket.socket]]:
        """Return a socket for each listener, by name, that listens on when this broker has ended, for the next one."""
        return {name: listener.keep_port() for name, listener in self.listeners.items()}

    def hold_ports(self) -> dict[str, list[socket.socket]]:
        """Return a socket for each listener, by name, that has its port when this broker has ended (see `hold`)."""
        return {name: listener.hold_port() for name, listener in self.listeners.items()}

    async def stop(self) -> None:
        """Stop within shutdown.grace.ms: unregister, answer parked requests, close connections."""
        if self._main is None:
            return
        self._stopping.set()
        self._publisher.follow_no_more()
        await self._main

    async def kill(self) -> None:
        """Stop at once, as a killed process does: parked requests are not answered, and the broker stays registered.

        All tasks and sockets of the broker are closed.
        """
        self.store.close()
        self._listeners.abort()
        self._work.end()
        if self._main is None:
            return
        for child in self._children:
            child.cancel()
        self._main.cancel()
        await asyncio.wait([self._main])

    @property
    def is_running(self) -> bool:
        """Whether the broker was started, and has neither stopped nor failed since."""
        return self._main is not None and not self._main.done()

    def when_ended(self, callback: Callable[[BaseException | None], None]) -> None:
        """Call `callback` when this started broker has ended: with its failure, or None if it was stopped."""
        assert self._main is not None, "the broker was not started"
        self._main.add_done_callback(lambda main: callback(None if main.cancelled() else main.exception()))

    async def _run(self, started: asyncio.Future[None], listening: Mapping[str, Sequence[socket.socket]]) -> None:
        """The task that owns all others of this broker."""
        unwatch = self.store.watch(self._publisher.publish)
        try:
            endpoints = await self._listeners.start(listening)
            self.endpoints = [each for each in endpoints if each.listener != BROKERS]
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                self._spawn(self._parked.reaper.run(), "reaper")
                self.replicas.incarnation = await self.lifecycle.register(endpoints)
                self._publisher.publish(self.store.image)
                self._spawn(self.coordinators.run(), "coordinators")
                self._spawn(self.peers.run(), "peers")
                self._spawn(self._work.run(), "long work")
                for keys in self._listeners.token_keys:
                    self._spawn(keep_fresh(keys, self.clock), f"keys of {keys.url}")
                self._spawn(self.lifecycle.run(), "lifecycle")
                self._upkeep.start(self._spawn)
                if self.tiering is not None:
                    self._spawn(self.tiering.run(), "tier")
                if self.sweep is not None:
                    self._spawn(self.sweep.run(self.config.remote_log_manager_task_interval_ms), "sweep of the tier")
                logger.info("broker started", broker=self.broker_id, host=self.address[0], port=self.address[1])
                started.set_result(None)
                await self._stopping.wait()
                await self._drain()
                for child in self._children:
                    child.cancel()
        finally:
            unwatch()
            self.lifecycle.close()
            self.log_memory.arena.close()
            self._tasks = None
            await self._listeners.drain(0)
            await self._spans.close()
            if started.done():
                logger.info("broker stopped", broker=self.broker_id)

    def _spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        assert self._tasks is not None
        self._children.append(self._tasks.create_task(coroutine, name=f"broker {self.broker_id} {name}"))

    async def _drain(self) -> None:
        """Accept no more connections, unregister, answer parked requests, and wait until the responses are sent."""
        self._listeners.stop_accepting()
        await self._work.take(self.recorder.steps())  # while this broker leads one of the topic, and followers fetch it
        await self.lifecycle.unregister(timeout_ms=self.config.shutdown_grace_ms)
        self.coordinators.stop()
        for purgatory in self.purgatories:
            purgatory.shutdown()
        await self._listeners.drain(self.config.shutdown_grace_ms)

    # --- metadata ---

    def _reconfigure(self, changed: Mapping[str, Any]) -> None:
        """Make changed configs take effect."""
        config = self.dynamic.current
        logger.info("broker configs changed", broker=self.broker_id, **changed)
        self.replicas.reconfigure(topic_settings(config).log, config.producer_id_expiration_ms)
        self.coordinators.reconfigure(config)
        max_connections = min(config.max_connections, self._connections_cap or config.max_connections)
        self._listeners.allow_connections(max_connections, config.max_connections_per_ip)
        limit_connections(self.quotas, config)
        if self.tiering is not None:
            limit_tier(self.tiering.traffic, config)
            self.tiering.allow(
                copies=config.remote_log_manager_copier_thread_pool_size, reads=config.remote_log_reader_threads
            )

    def _seems_dead(self, broker_id: int) -> bool:
        """Return whether a broker is probably dead and not fenced yet: its port refuses connections.

        A client retries soon after LEADER_NOT_AVAILABLE, but waits long for a dead leader. True for no longer than the
        session timeout, after which a dead broker is fenced.
        """
        return self.fetchers.seems_dead(broker_id, self.config.broker_session_timeout_ms)

    def create_delays_topic(self, partitions: int) -> None:
        """Create the topic for delayed operations if it does not exist. Brokers record to it as soon as it exists."""
        create_delays_topic(self.store, partitions, settings=self._topics, rng=self._rng)


def purge_intervals(config: BrokerConfig) -> dict[str, int]:
    """Return the purge intervals of purgatories, by their settings."""
    return {key: getattr(config, key) for kind in KINDS.values() if (key := kind.purges_by) is not None}
