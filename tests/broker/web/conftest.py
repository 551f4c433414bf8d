"""A cluster that stands still: brokers made of real purgatories, gates and counters, with replicas that are made up."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from broker.clock import ManualClock
from broker.finished import FinishedOperations
from broker.log.topic_partition import TopicPartition
from broker.metadata.image import BrokerRegistration, ClusterImage
from broker.metrics import BrokerMetrics
from broker.purgatory import ActionQueue, DelayedOperation, Purgatory, Timer
from broker.replica.delayed_fetch import FollowerKey
from broker.replica.follower import FollowerGate
from broker.web.app import create_app

START_MS = 10_000
IMAGE = functools.reduce(
    ClusterImage.with_broker,
    [BrokerRegistration(broker_id, 1, "127.0.0.1", 9091 + broker_id) for broker_id in (1, 2, 3)],
    ClusterImage(1, "test"),
)
HOST = "broker.example"


class Waiting(DelayedOperation):
    """Waits for ever, and knows whether it was answered or expired."""

    def __init__(self, delay_ms: int = 30_000, missing: str = "orders-0: broker 3 is at 40 of 42") -> None:
        super().__init__(delay_ms)
        self.said = missing
        self.history: list[str] = []

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        self.history.append("answered")

    def on_expiration(self) -> None:
        self.history.append("expired")

    def missing(self) -> str:
        return self.said


@dataclass
class FakeLog:
    log_end_offset: int
    log_start_offset: int = 0
    size_bytes: int = 0


@dataclass
class FakeFollower:
    log_end_offset: int


@dataclass
class FakePartition:
    tp: TopicPartition
    leader: int
    is_leader: bool
    log: FakeLog
    high_watermark: int
    replicas: Sequence[int] = (1, 2, 3)
    isr: Sequence[int] = (1, 2, 3)
    followers: dict[int, FakeFollower] = field(default_factory=dict)
    leader_epoch: int = 0
    min_in_sync_replicas: int = 1


class FakeBroker:
    """What the admin HTTP sees of a broker."""

    def __init__(self, broker_id: int, clock: ManualClock) -> None:
        self.broker_id = broker_id
        self.address = ("127.0.0.1", 9091 + broker_id)
        self.metrics = BrokerMetrics(broker_id)
        self.finished = FinishedOperations()
        self.gate = FollowerGate()
        self.partitions: list[FakePartition] = []
        self.request_memory_used_bytes = 0
        self.image = IMAGE
        actions = ActionQueue()
        self.purgatories: tuple[Purgatory[Waiting], Purgatory[Waiting]] = (
            Purgatory("Produce", Timer(clock.now_ms), actions=actions, on_finished=self.finished.add),
            Purgatory("Fetch", Timer(clock.now_ms), actions=actions, on_finished=self.finished.add),
        )

    def park_produce(self, *keys: Any, delay_ms: int = 30_000, missing: str = "") -> Waiting:
        operation = Waiting(delay_ms, missing)
        self.purgatories[0].try_complete_else_watch(operation, keys or (TopicPartition("orders", 0),))
        return operation

    def park_fetch(self, *, follower: int | None = None) -> Waiting:
        operation = Waiting(500)
        keys: list[Any] = [TopicPartition("orders", 0)]
        self.purgatories[1].try_complete_else_watch(operation, keys + [FollowerKey(follower)] * (follower is not None))
        return operation

    def holds(self, name: str, index: int = 0, **facts: Any) -> FakePartition:
        facts = {"leader": 1, "is_leader": False, "high_watermark": 0, "log": FakeLog(0)} | facts
        partition = FakePartition(TopicPartition(name, index), **facts)
        self.partitions.append(partition)
        return partition


class FakeCluster:
    """Three brokers on a clock that is moved by hand."""

    cluster_id = "test"

    def __init__(self) -> None:
        self.clock = ManualClock(START_MS)
        self.brokers = [FakeBroker(broker_id, self.clock) for broker_id in (1, 2, 3)]


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
    """Asks the application without a socket; what it raises comes back as an answer."""
    transport = httpx.ASGITransport(create_app(cluster, allowed_host=HOST), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9644") as asking:
        yield asking
