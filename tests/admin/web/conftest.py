"""A cluster that stands still: brokers made of real purgatories, gates and counters, with replicas that are made up."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from purgatorio.admin.operations.control.cluster_control import ClusterControl
from purgatorio.admin.operations.control.group_control import GroupControl
from purgatorio.admin.operations.control.transaction_control import TransactionControl
from purgatorio.admin.web.app import create_app, guarded
from purgatorio.broker.cluster.leadership import Leadership
from purgatorio.broker.cluster.network import Network
from purgatorio.broker.cluster.snapshots import Snapshot
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.delays.finished import FinishedOperations
from purgatorio.broker.layers.faults import FaultRegistry
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.log.producer_state import ProducerStates
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.embedded import DirectLink, EmbeddedStore
from purgatorio.broker.metadata.image import BrokerIncarnation, BrokerRegistration, ClusterImage, PartitionState, Topic
from purgatorio.broker.metrics.counters import BrokerMetrics
from purgatorio.broker.metrics.loop_lag import LoopLag
from purgatorio.broker.node.resident_memory import MemoryUse
from purgatorio.broker.replica.fetching.delayed_fetch import FollowerKey
from purgatorio.broker.replica.fetching.fetch_session import FetchSessionCache
from purgatorio.broker.replica.following.follower import FollowerGate
from purgatorio.broker.replica.tiering import Tiering
from purgatorio.broker.server.listener import Listener
from purgatorio.broker.server.peers import PeerNetwork
from purgatorio.broker.time.event_loop import call_soon
from purgatorio.broker.time.long_work import LongWork
from purgatorio.broker.time.movable_clock import MemberClock
from purgatorio.broker.time.running_clock import RunningClock
from purgatorio.broker.txn.overview import TransactionNumbers
from purgatorio.purgatory import ActionQueue, DelayedOperation, Purgatory, Timer
from purgatorio.purgatory.clock import ManualClock
from tests.broker.group.harness import GroupHarness
from tests.broker.share.fetching import ShareHarness
from tests.broker.txn.harness import TransactionHarness
from tests.endpoints import plaintext

START_MS = 10_000
IMAGE = functools.reduce(
    ClusterImage.with_broker,
    [BrokerRegistration(id_, 10 + id_, plaintext("127.0.0.1", 9091 + id_), lease_id=20 + id_) for id_ in (1, 2, 3)],
    ClusterImage(0, "test", next_broker_epoch=14),
)
HOST = "broker.example"


class Waiting(DelayedOperation):
    """Waits for ever, and knows whether it was answered or expired."""

    def __init__(self, delay_ms: int = 30_000, causes: Sequence[Any] = ()) -> None:
        super().__init__(delay_ms)
        self.told = causes
        self.history: list[str] = []

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        self.history.append("answered")

    def on_expiration(self) -> None:
        self.history.append("expired")

    def causes(self) -> Sequence[Any]:
        return self.told


@dataclass
class FakeLog:
    log_end_offset: int
    log_start_offset: int = 0
    size_bytes: int = 0
    producers: ProducerStates = field(default_factory=ProducerStates)


@dataclass
class FakeFollower:
    log_end_offset: int


@dataclass
class FakePartition:
    tp: TopicPartition
    is_leader: bool
    log: FakeLog
    high_watermark: int
    replicas: Sequence[int] = (1, 2, 3)
    isr: Sequence[int] = (1, 2, 3)
    followers: dict[int, FakeFollower] = field(default_factory=dict)
    min_in_sync_replicas: int = 1
    refusal: str = ""
    leader: int = 1
    leader_epoch: int = 0

    @property
    def last_stable_offset(self) -> int:
        return self.log.producers.last_stable_offset(self.high_watermark)


class FakeLifecycle:
    """A membership whose lease a test may take away."""

    def __init__(self) -> None:
        self.lease_lasts = True

    def has_lease(self) -> bool:
        return self.lease_lasts


class FakeBroker:
    """A broker as the admin HTTP sees it."""

    def __init__(self, broker_id: int, cluster: FakeCluster) -> None:
        clock = cluster.clock
        self.broker_id = broker_id
        self.address = ("127.0.0.1", 9091 + broker_id)
        self.config = BrokerConfig(broker_id=broker_id)
        self.link = DirectLink(cluster._call_soon)
        self.store = cluster.store.open(self.link)
        self.peer_network = PeerNetwork()
        self.listeners: dict[str, Listener] = {}
        self.metrics = BrokerMetrics(broker_id)
        self.finished = FinishedOperations()
        self.lifecycle = FakeLifecycle()
        self.gate = FollowerGate(clock)
        self.tiering: Tiering | None = None
        self.partitions: list[FakePartition] = []
        self.log_memory = MemoryBudget(1_000_000)
        self.memory_use = MemoryUse(0, 0, 0, 0)
        self.fetch_sessions = FetchSessionCache(slots=1, clock=clock, rng=random.Random(0), closed=lambda session: None)
        self.own_image: ClusterImage | None = None
        self.led_shares = ShareHarness().shares
        self.coordinates(GroupHarness())
        self.coordinates_transactions(TransactionHarness())
        actions = ActionQueue()
        self.purgatories: tuple[Purgatory[Waiting], Purgatory[Waiting]] = (
            Purgatory("Produce", Timer(clock.now_ms), actions=actions, on_finished=self.finished.add),
            Purgatory("Fetch", Timer(clock.now_ms), actions=actions, on_finished=self.finished.add),
        )

    @property
    def image(self) -> ClusterImage:
        return self.own_image or self.store.image

    def replica(self, tp: TopicPartition) -> FakePartition | None:
        return next((partition for partition in self.partitions if partition.tp == tp), None)

    def coordinates(self, harness: GroupHarness) -> None:
        """Let this broker be the coordinator of these groups."""
        self.groups, self.replicas = harness.groups, harness.replicas

    def coordinates_transactions(self, harness: TransactionHarness) -> None:
        """Let this broker be the coordinator of these transactional ids."""
        self.transactions = harness.transactions
        self.coordinators = SimpleNamespace(transaction_numbers=TransactionNumbers())
        self.quotas = SimpleNamespace(is_active=False, connections=SimpleNamespace(is_active=False), replication={})
        self.access = None

    def park_produce(self, *keys: Any, delay_ms: int = 30_000, causes: Sequence[Any] = ()) -> Waiting:
        operation = Waiting(delay_ms, causes)
        self.purgatories[0].try_complete_else_watch(operation, keys or (TopicPartition("orders", 0),))
        return operation

    def park_fetch(self, *, follower: int | None = None) -> Waiting:
        operation = Waiting(500)
        keys: list[Any] = [TopicPartition("orders", 0)]
        self.purgatories[1].try_complete_else_watch(operation, keys + [FollowerKey(follower)] * (follower is not None))
        return operation

    def holds(self, name: str, index: int = 0, **facts: Any) -> FakePartition:
        """Add a replica of a partition, which the metadata need not know."""
        facts = {"is_leader": False, "high_watermark": 0, "log": FakeLog(0), **facts}
        partition = FakePartition(TopicPartition(name, index), **facts)
        self.partitions.append(partition)
        return partition


class FakeCluster:
    """Three brokers on a clock that is moved by hand, with real metadata."""

    cluster_id = "test"
    has_begun = True

    def __init__(self) -> None:
        self.clock = ManualClock(START_MS)
        self.lease_clock = RunningClock(self.clock)
        self.transaction_clock = RunningClock(self.clock, RunningClock.MAX_GAP_OF_CLIENTS_MS)
        self.member_clock = MemberClock(self.transaction_clock)
        self.loop_lag = LoopLag(self.clock)
        self.faults = FaultRegistry(self.clock)
        self.network = Network(self)
        self.leadership = Leadership(self.network)
        self._turns: list[Callable[[], None]] = []
        self.store = EmbeddedStore("test", self._call_soon, self.clock)
        self.brokers: list[FakeBroker] = []
        self.broker_ids = [1, 2, 3]
        self.change_image(lambda _: IMAGE)
        self.brokers = [FakeBroker(broker_id, self) for broker_id in self.broker_ids]
        self.control = ClusterControl(self)
        self.groups = GroupControl(self, lambda: self.control.image)
        self.transactions = TransactionControl(self, lambda: self.control.image)
        self.refuses_to_start: OSError | None = None
        self.work = LongWork(call_soon).of_owner()

    def _call_soon(self, callback: Callable[[], None]) -> None:
        self._turns.append(callback)
        with contextlib.suppress(RuntimeError):  # not in a test that is no coroutine
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        while self._turns:
            self._turns.pop(0)()

    def change_image(self, change: Callable[[ClusterImage], ClusterImage]) -> None:
        """Change the metadata, and let all brokers see it."""
        self.store._compare_and_set(self.store.image, change(self.store.image))
        self._turn()

    def has_topic(self, name: str, *partitions: PartitionState, count: int = 1) -> None:
        """Add a topic: these partitions, or so many that broker 1 leads and all three hold."""
        states = partitions or (partition_state(),) * count
        self.change_image(lambda image: image.with_topics([Topic(name, name.encode().ljust(16), tuple(states))]))

    def store_link(self, broker_id: int) -> DirectLink:
        return next(broker.link for broker in self.brokers if broker.broker_id == broker_id)

    def snapshot(self) -> Snapshot:
        return Snapshot(dict(self.store.image.topics), {}, {}, 0, {})

    async def reset(self, begun: Callable[[], object] = lambda: None) -> None:
        """Nothing to make anew."""
        begun()

    async def restore(self, snapshot: Snapshot) -> None:
        self.change_image(lambda image: image.with_topics(list(snapshot.topics.values())))

    async def stop_broker(self, broker_id: int) -> None:
        self.brokers = [broker for broker in self.brokers if broker.broker_id != broker_id]

    kill_broker = stop_broker

    async def add_broker(self, rack: str | None) -> int:
        self.broker_ids = [*self.broker_ids, len(self.broker_ids) + 1]
        await self.start_broker(added := self.broker_ids[-1])
        registration = BrokerRegistration(added, 10 + added, plaintext("127.0.0.1", 9091 + added))
        self.change_image(lambda image: image.with_broker(registration))
        return added

    async def start_broker(self, broker_id: int) -> None:
        if self.refuses_to_start is not None:
            raise self.refuses_to_start
        self.brokers = sorted([*self.brokers, FakeBroker(broker_id, self)], key=lambda broker: broker.broker_id)


def partition_state(
    leader: int = 1,
    *,
    replicas: Sequence[int] = (1, 2, 3),
    isr: Sequence[int] | None = None,
    elr: Sequence[int] = (),
    **facts: Any,
) -> PartitionState:
    """A partition of brokers in their first incarnation."""
    in_sync = replicas if isr is None else isr
    return PartitionState(
        leader,
        facts.pop("leader_epoch", 0),
        tuple(replicas),
        tuple(BrokerIncarnation(id_, 10 + id_) for id_ in in_sync),
        elr=tuple(BrokerIncarnation(id_, 10 + id_) for id_ in elr),
        **facts,
    )


@pytest.fixture
def state_of() -> Callable[..., PartitionState]:
    return partition_state


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def fake_log() -> Callable[..., FakeLog]:
    return FakeLog


@pytest.fixture
def fake_follower() -> Callable[..., FakeFollower]:
    return FakeFollower


@pytest.fixture
async def client(cluster: FakeCluster) -> AsyncIterator[httpx.AsyncClient]:
    """Sends requests to the application without a socket; an exception comes back as a response."""
    transport = httpx.ASGITransport(
        guarded(create_app(cluster, cluster.control, allowed_host=HOST), HOST, None), raise_app_exceptions=False
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9644") as asking:
        yield asking
