"""One simulation from a seed: cluster, clients, faults, healing, and the checks of the history."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from purgatorio.broker.group.config import OFFSETS_TOPIC_CONFIGS
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import NewTopic, create_topics
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.store import decide
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from purgatorio.broker.txn.services import TRANSACTION_STATE_TOPIC_CONFIGS
from purgatorio.simulation.checks.checkers import Anomaly, check
from purgatorio.simulation.checks.group_checkers import check_groups
from purgatorio.simulation.checks.internal_errors import collected
from purgatorio.simulation.checks.invariants import FencedWatch, Invariants, record_leaders
from purgatorio.simulation.checks.recovery import unrecovered
from purgatorio.simulation.checks.share_checkers import check_shares
from purgatorio.simulation.checks.share_watch import recorded_shares
from purgatorio.simulation.checks.sometimes import counted
from purgatorio.simulation.checks.transaction_checkers import check_transactions
from purgatorio.simulation.clients.clients import Client, ClientSlot, Output, SimulatedProducer
from purgatorio.simulation.clients.consumers import Reader, SimulatedConsumer
from purgatorio.simulation.clients.dead_letters import dead_letter_topics, group_configs, record_dead_letters
from purgatorio.simulation.clients.group_clients import GroupClients
from purgatorio.simulation.clients.pipelined import JavaProducer, Pace, PipelinedProducer
from purgatorio.simulation.clients.plans import GroupShared, ShareGroupShared, TransactionShared
from purgatorio.simulation.clients.share_members import ShareGroupClients
from purgatorio.simulation.clients.transaction_clients import TransactionWriters
from purgatorio.simulation.history.history import Acked, Cleaned, GroupTransforms, History, Sent
from purgatorio.simulation.history.share_events import DeadLetterPromise, SharePromise
from purgatorio.simulation.swarm import OFFSETS_PARTITIONS, STATE_PARTITIONS, Swarm, TopicPlan, draw, plain, with_tier
from purgatorio.simulation.watched import Watched
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import SimulatedClock, SimulatedLoop
from purgatorio.simulation.world.nemesis import Nemesis
from purgatorio.simulation.world.network import SimulatedNetwork

WRITERS_PAUSE: Final = 4
"""How much longer than a producer a transactional one waits: it sends much more between two waits."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parameters of a simulation.

    Attributes:
        seconds: the virtual time in which faults happen.
        heal_seconds: the virtual time in which the cluster has to recover after the faults are healed, and for which no
            group may stand still that has more to read.
        faults: names of `purgatorio.simulation.world.nemesis.FAULTS`; if empty, all that the workload can have.
        pause_ms: the range of a producer's wait between two values.
        swarm: whether to draw topics, sizes and features from the seed, else the plain workload.
        transaction_version: the brokers' transaction.version; 0: that of the transactional clients.
        tier: whether there is a tier, to which topics are copied; all else of a seed is as without it.
    """

    seconds: float = 20.0
    heal_seconds: float = 20.0
    brokers: int = 3
    partitions: int = 2
    min_insync_replicas: int = 2
    faults: tuple[str, ...] = ()
    pause_ms: tuple[float, float] = (20.0, 160.0)
    swarm: bool = True
    transaction_version: int = 0
    tier: bool = False


@dataclass(slots=True)
class SeedReport:
    """The result of a simulation.

    Attributes:
        anomalies: those that the checks found, violations of `invariants.INVARIANTS`, "not-converged" if the cluster
            did not recover, and "internal-error" for each error that a broker logged.
        reached: how often each path of `sometimes.SOMETIMES` was reached.
    """

    seed: int
    scenario: Scenario
    history: History
    swarm: Swarm
    anomalies: list[Anomaly] = field(default_factory=list)
    virtual_seconds: float = 0.0
    reached: Counter[str] = field(default_factory=Counter)

    @property
    def sent(self) -> int:
        """The number of values sent."""
        return sum(1 for _ in self.history.of(Sent))

    @property
    def acked(self) -> int:
        """The number of values acknowledged."""
        return sum(1 for _ in self.history.of(Acked))


def simulate(
    seed: int, scenario: Scenario | None = None, *, watch: Callable[[Watched], object] | None = None
) -> SeedReport:
    """Run one simulation; the same seed and scenario give the same history, whether something watches it or not."""
    simulation = _Simulation(seed, scenario or Scenario())
    with collected(simulation.loop) as errors, counted() as reached, simulation.recorded():
        if watch is not None:
            watch(simulation.watched(errors.anomalies))
        report = simulation.run()
    report.anomalies += errors.anomalies
    report.reached = reached
    return report


def has_transactions(seed: int, scenario: Scenario | None = None) -> bool:
    """Return whether the workload of a seed has transactional clients, without a simulation."""
    return _workload_of(seed, scenario or Scenario()).transactions is not None


def has_share_group(seed: int, scenario: Scenario | None = None) -> bool:
    """Return whether the workload of a seed has a share group, without a simulation."""
    return _workload_of(seed, scenario or Scenario()).share is not None


def _workload_of(seed: int, scenario: Scenario) -> Swarm:
    # A generator of its own: a seed with the plain workload has the same faults as before.
    rng = random.Random(f"swarm {seed}")
    size = {
        "brokers": scenario.brokers,
        "partitions": scenario.partitions,
        "min_insync_replicas": scenario.min_insync_replicas,
    }
    drawn = draw(rng, **size) if scenario.swarm else plain(**size)
    if scenario.tier:
        drawn = with_tier(random.Random(f"tier {seed}"), drawn)
    if not scenario.transaction_version:
        return drawn
    return replace(drawn, settings=drawn.settings | {"transaction_version": scenario.transaction_version})


def _segments(segment_bytes: int) -> dict[str, str]:
    return {"segment.bytes": str(segment_bytes), "min.cleanable.dirty.ratio": "0.1"}


class _Simulation:
    def __init__(self, seed: int, scenario: Scenario) -> None:
        self._scenario = scenario
        self._rng = rng = random.Random(seed)
        self._swarm = swarm = _workload_of(seed, scenario)
        self.loop = SimulatedLoop(self._random())
        self._network = SimulatedNetwork(self.loop, self._random())
        self._network.split_writes = rng.random() < 0.3
        self._clock = SimulatedClock(self.loop)
        self._history = History()
        self._report = SeedReport(seed, scenario, self._history, swarm)
        self._cluster = SimulatedCluster(
            self.loop,
            self._network,
            self._random(),
            count=swarm.brokers,
            racks=swarm.racks,
            one_process=swarm.one_process,
            memory_bytes=swarm.memory_bytes,
            clock_rates=swarm.clock_rates,
            skips_images=swarm.skips_images,
            keyed=swarm.keyed,
            spare_hosts=swarm.replaces,
            tier_cache_bytes=swarm.tier_cache_bytes,
            replica_lag_time_max_ms=1_500,
            replica_fetch_wait_max_ms=300,
            replica_socket_timeout_ms=2_000,
            shutdown_grace_ms=500,
            **swarm.settings,
        )
        self._invariants = Invariants(self._cluster)
        self._values = itertools.count(1)
        self._transaction_numbers = itertools.count(1)
        self._places: dict[str, ClientSlot] = {}
        self._producing: list[ClientSlot] = []  # all but those of groups
        self._groups: GroupClients | None = None
        self._shares: ShareGroupClients | None = None
        self._stopped = False

    def _random(self) -> random.Random:
        return random.Random(self._rng.random())

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Record what no client sees of the share group, if there is one, while the context lasts."""
        if self._swarm.share is None:
            yield
        else:
            with recorded_shares(self._history, self._clock), self._invariants.shares.written.watched():
                yield

    def watched(self, errors: list[Anomaly]) -> Watched:
        return Watched(self._cluster, self._history, (self._report.anomalies, self._invariants.anomalies, errors))

    def run(self) -> SeedReport:
        limit_seconds = self._scenario.seconds + 4 * self._scenario.heal_seconds
        try:
            self.loop.run_until_complete(asyncio.wait_for(self._run(), limit_seconds))
        except TimeoutError:
            self._anomaly("not-converged", f"the simulation was not done after {limit_seconds:g} s")
        finally:
            self.loop.close()
        for find in (check, check_groups, check_transactions, check_shares):
            self._report.anomalies += find(self._history)
        self._report.anomalies += self._invariants.anomalies
        return self._report

    async def _run(self) -> None:
        began = self.loop.time()
        cluster, scenario = self._cluster, self._scenario
        record_leaders(cluster, self._history)
        await cluster.start()
        await self._create_topics()
        quotas = self._swarm.quotas
        if quotas:
            await cluster.limit_clients(quotas)
        watches = (FencedWatch(cluster, self._history), self._invariants)
        watching = [self.loop.create_task(watch.run()) for watch in watches]
        self._start_clients()
        self._start_groups()
        self._start_writers()
        await self._start_share_group()
        nemesis = Nemesis(
            cluster,
            list(self._places),
            self._history,
            self._random(),
            restart_client=lambda name: self._places[name].start(self.loop),
            kinds=scenario.faults or self._swarm.faults(),
            deletable=[topic.name for topic in self._swarm.topics if topic.deletes],
            recreatable=[topic.name for topic in self._swarm.topics if self._swarm.recreates],
        )
        await asyncio.sleep(0.5)
        await nemesis.run(scenario.seconds)
        self._stopped = True
        if quotas:
            await cluster.free_clients(quotas)
        await self._settle_groups()
        await self._settle_share_group()
        await self._converge()
        await self._drain()
        record_dead_letters(cluster, self._swarm.share, self._history, self._clock.now_ms())
        for task in watching:
            task.cancel()
        await asyncio.wait(watching)
        self._invariants.look()
        await cluster.stop()
        self._report.virtual_seconds = self.loop.time() - began

    async def _create_topics(self) -> None:
        swarm, rng = self._swarm, self._random()
        factor = min(3, self._scenario.brokers)
        new = [NewTopic(topic.name, topic.partitions, factor, configs=topic.configs) for topic in swarm.topics]
        if swarm.output is not None:
            new.append(NewTopic(swarm.output.name, swarm.output.partitions, factor, configs=swarm.output.configs))
        if swarm.offsets_segment_bytes:
            configs = OFFSETS_TOPIC_CONFIGS | _segments(swarm.offsets_segment_bytes)
            new.append(NewTopic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, factor, configs=configs))
        if swarm.transactions is not None and swarm.transactions.state_segment_bytes:
            min_in_sync = {"min.insync.replicas": str(self._scenario.min_insync_replicas)}
            configs = TRANSACTION_STATE_TOPIC_CONFIGS | _segments(swarm.transactions.state_segment_bytes) | min_in_sync
            new.append(NewTopic(TRANSACTION_STATE_TOPIC, STATE_PARTITIONS, factor, configs=configs))
        new += dead_letter_topics(swarm.share, factor, self._scenario.min_insync_replicas)
        await decide(
            self._cluster.store.open(),
            lambda image: create_topics(image, new, settings=self._cluster.topic_settings, rng=rng),
        )
        for topic in swarm.topics:
            deletes = topic.deletes or swarm.memory_bytes > 0
            for partition in range(topic.partitions if deletes or topic.keys else 0):
                name = f"{topic.name}-{partition}"
                self._history.record(Cleaned(self._clock.now_ms(), name, deletes, topic.keys))

    # --- clients ---

    def _client(self, name: str) -> Client:
        return self._client_of(name, self._random())

    def _client_of(self, name: str, rng: random.Random) -> Client:
        return Client(name, self._cluster.addresses, clock=self._clock, rng=rng, history=self._history)

    def _partitions(self) -> Iterator[tuple[TopicPlan, int]]:
        return ((topic, partition) for topic in self._swarm.topics for partition in range(topic.partitions))

    def _start(self, places: Iterable[ClientSlot]) -> None:
        for place in places:
            self._places[place.name] = place
            self._network.place(place.name, self._swarm.client_latency_ms)
            place.start(self.loop)

    def _start_clients(self) -> None:
        """Start for each partition a producer with acks=-1, one with acks=1, and a consumer, each as its own node."""
        work = [(*each, acks) for each in self._partitions() for acks in (-1, 1, None)]
        self._producing = [ClientSlot(f"client-{nth}", partial(self._live, *each)) for nth, each in enumerate(work, 1)]
        self._start(self._producing)

    def _live(self, topic: TopicPlan, partition: int, acks: int | None, place: ClientSlot) -> Coroutine[Any, Any, None]:
        client, reader = self._client(place.next_name()), self._swarm.reader
        if acks is not None:
            return self._producer(client, topic, partition, acks).run(self._is_stopped)
        if self._swarm.racks:
            reader = replace(reader, rack=f"r{client.rng.randint(1, self._swarm.brokers)}")
        return SimulatedConsumer(client, TopicPartition(topic.name, partition), reader=reader).run(self._is_stopped)

    def _producer(
        self, client: Client, topic: TopicPlan, partition: int, acks: int
    ) -> SimulatedProducer | PipelinedProducer:
        swarm, pause_ms = self._swarm, self._scenario.pause_ms
        output = Output(topic.name, partition, swarm.compression, topic.keys)
        if acks == -1 and swarm.batch_records:
            pace = Pace(pause_ms, swarm.batch_records, swarm.burst, swarm.delivery_timeout_ms)
            kind = JavaProducer if swarm.java else PipelinedProducer
            return kind(client, output, values=self._values, pace=pace)
        return SimulatedProducer(client, output, acks=acks, values=self._values, pause_ms=pause_ms)

    # --- groups ---

    def _start_groups(self) -> None:
        plans, image = self._swarm.groups, self._cluster.image
        if not plans:
            return
        rng = self._random()
        shared = [
            GroupShared(
                plan=plan,
                partitions=tuple(TopicPartition(topic.name, partition) for topic, partition in self._partitions()),
                topic_ids={topic.name: image.topics[topic.name].topic_id for topic in self._swarm.topics},
                reader=replace(self._swarm.reader, pause_ms=(0.0, 0.0)),
                new_client=lambda name: self._client_of(name, random.Random(rng.random())),
                is_restless=self._is_restless,
                transactions=self._transactions(self._swarm.output) if plan.transforms else None,
            )
            for plan in plans
        ]
        if self._swarm.output is not None:
            for plan in plans:
                self._history.record(GroupTransforms(self._clock.now_ms(), plan.group_id, self._swarm.output.name))
        self._groups = GroupClients(self._cluster, shared, first=len(self._places) + 1)
        self._start(self._groups.places.values())

    def _is_restless(self) -> bool:
        return not self._stopped

    # --- share groups ---

    async def _start_share_group(self) -> None:
        plan = self._swarm.share
        if plan is None:
            return

        def configure(image: ClusterImage) -> tuple[ClusterImage, None]:
            return image.with_group_configs(plan.group_id, group_configs(plan)), None

        await decide(self._cluster.store.open(), configure)
        self._history.record(SharePromise(self._clock.now_ms(), plan.group_id, plan.lock_ms, plan.delivery_limit))
        if plan.dead_letter_partitions:
            self._history.record(DeadLetterPromise(self._clock.now_ms(), plan.group_id))
        # A generator of its own: the faults of a seed are as they would be without a share group.
        rng = random.Random(f"share group {self._report.seed}")
        topics = self._cluster.image.topics
        shared = ShareGroupShared(
            plan=plan,
            partitions={
                (topics[topic.name].topic_id, partition): TopicPartition(topic.name, partition)
                for topic, partition in self._partitions()
            },
            reader=self._swarm.reader,
            new_client=lambda name: self._client_of(name, random.Random(rng.random())),
            is_restless=self._is_restless,
        )
        self._shares = ShareGroupClients(self._cluster, shared, first=len(self._places) + 1)
        self._start(self._shares.places)

    async def _settle_share_group(self) -> None:
        if self._shares is None:
            return
        await asyncio.wait(self._producing_tasks(), timeout=self._scenario.heal_seconds)
        if (missing := await self._shares.settle(self._scenario.heal_seconds)) is not None:
            self._anomaly(*missing)
        await self._shares.stop()

    # --- transactions ---

    def _transactions(self, output: TopicPlan | None) -> TransactionShared | None:
        """Return what transactional clients share that write to this topic; None: to all but the output."""
        plan = self._swarm.transactions
        if plan is None:
            return None
        rng = self._random()
        low_ms, high_ms = self._scenario.pause_ms
        topics = self._swarm.topics if output is None else (output,)
        return TransactionShared(
            plan=plan,
            outputs=tuple(
                Output(topic.name, partition, self._swarm.compression, topic.keys)
                for topic in topics
                for partition in range(topic.partitions)
            ),
            values=self._values,
            reader=replace(self._swarm.reader, pause_ms=(0.0, 0.0)),
            new_client=lambda name: self._client_of(name, random.Random(rng.random())),
            is_restless=self._is_restless,
            pause_ms=(low_ms * WRITERS_PAUSE, high_ms * WRITERS_PAUSE),
            numbers=self._transaction_numbers,
        )

    def _start_writers(self) -> None:
        shared = self._transactions(None)
        if shared is None:
            return
        first = len(self._places) + 1
        writers = TransactionWriters(shared, self._random(), first=first, stopped=self._is_stopped)
        self._producing += writers.places
        self._start(writers.places)

    def _producing_tasks(self) -> list[asyncio.Task[None]]:
        return [task for place in self._producing for task in place.tasks]

    # --- the end ---

    async def _settle_groups(self) -> None:
        if self._groups is None:
            return
        await asyncio.wait(self._producing_tasks(), timeout=self._scenario.heal_seconds)
        if (missing := await self._groups.settle(self._scenario.heal_seconds)) is not None:
            self._anomaly(*missing)
        await self._groups.stop()

    def _is_stopped(self) -> bool:
        return self._stopped

    async def _drain(self) -> None:
        """Read all partitions from start to end; under read_committed, too, if there were transactions."""
        topics = [*self._swarm.topics, *([] if self._swarm.output is None else [self._swarm.output])]
        isolations = {"final": False} if self._swarm.transactions is None else {"final": False, "final-stable": True}
        readers = [
            SimulatedConsumer(
                self._client(f"{name}-{topic.name}-{partition}"),
                TopicPartition(topic.name, partition),
                final=True,
                reader=Reader(committed=committed),
            )
            for name, committed in isolations.items()
            for topic in topics
            for partition in range(topic.partitions)
        ]
        try:
            async with asyncio.timeout(self._scenario.heal_seconds):
                await asyncio.gather(*(reader.run(lambda: False) for reader in readers))
        except TimeoutError:
            self._anomaly("not-converged", "not everything could be read after the faults had healed")

    # --- healing ---

    def _anomaly(self, name: str, message: str) -> None:
        self._report.anomalies.append(Anomaly(name, "cluster", message))

    async def _converge(self) -> None:
        """Wait until all partitions have full ISRs and their preferred leaders, and no operation is overdue."""
        try:
            async with asyncio.timeout(self._scenario.heal_seconds):
                await asyncio.gather(*self._producing_tasks())
                while unrecovered(self._cluster) is not None:  # noqa: ASYNC110 - seen from outside
                    await asyncio.sleep(0.05)
        except TimeoutError:
            missing = unrecovered(self._cluster) or "clients did not come to an end"
            self._anomaly("not-converged", f"{self._scenario.heal_seconds:g} s after the faults had healed: {missing}")
