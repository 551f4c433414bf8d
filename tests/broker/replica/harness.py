"""The replicas of one broker; the test sets the time and the image, and plays the followers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

from purgatorio.broker.causes.kinds import DELETE_RECORDS, FETCH, PRODUCE, SHARE_FETCH
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.log.broker_logs import BrokerLogs
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import InSyncProposal
from purgatorio.broker.metadata.image import BrokerIncarnation, BrokerRegistration, ClusterImage, PartitionState, Topic
from purgatorio.broker.replica.fetching.fetch_context import FetchContext, FetchParams, PartitionFetch
from purgatorio.broker.replica.fetching.fetch_session import FetchSessionCache
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.producing.writes import AppendResult
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.replica.tiering import Tiering
from purgatorio.broker.tier.claim import StoreClaim
from purgatorio.broker.tier.cleaning import SegmentCleaner
from purgatorio.broker.tier.copying import SegmentCopier
from purgatorio.broker.tier.reads import RemoteReads
from purgatorio.broker.tier.store import Store
from purgatorio.broker.tier.traffic import TierTraffic
from purgatorio.broker.time.clocks import Clocks
from purgatorio.protocol.messages.fetch import FetchPartition, PartitionData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.purgatory import FinishedOperation, Timer
from purgatorio.purgatory.clock import ManualClock
from tests.broker.time.by_hand import HandWork
from tests.endpoints import plaintext

ORDERS = TopicPartition("orders", 0)
BROKER_ID = 1
MIB = 1024 * 1024


def batch(*values: bytes) -> bytes:
    """Return a record batch of these values."""
    return build_batch([Record(i, 1_700_000_000_000, None, value, ()) for i, value in enumerate(values)])


def topic(
    name: str = "orders",
    *,
    leader: int = 1,
    leader_epoch: int = 0,
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] | None = None,
    partition_epoch: int = 0,
    partitions: int = 1,
    topic_id: bytes | None = None,
    **configs: str,
) -> Topic:
    """Return a topic whose partitions have the same state; in the names of configs _ stands for a dot."""
    in_sync = tuple(BrokerIncarnation(i, i) for i in (replicas if isr is None else isr))
    state = PartitionState(leader, leader_epoch, replicas, in_sync, partition_epoch)
    return Topic(
        name,
        topic_id if topic_id is not None else name.encode().ljust(16, b"\0"),
        (state,) * partitions,
        {key.replace("_", "."): value for key, value in configs.items()},
    )


class Observed:
    """An observer that records the calls."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *details: self.events.append((name, *details))

    def named(self, name: str) -> list[tuple[object, ...]]:
        return [event[1:] for event in self.events if event[0] == name]


@dataclass
class Produced:
    """A produce request, and its results after it was answered."""

    answers: list[Sequence[AppendResult]] = field(default_factory=list)

    @property
    def answered(self) -> bool:
        return bool(self.answers)

    @property
    def results(self) -> Sequence[AppendResult]:
        assert len(self.answers) == 1, "a request is answered once"
        return self.answers[0]

    @property
    def error_codes(self) -> list[int]:
        return [result.error_code for result in self.results]


@dataclass
class Fetched:
    """A fetch request, and its results after it was answered."""

    answers: list[list[PartitionData]] = field(default_factory=list)

    @property
    def answered(self) -> bool:
        return bool(self.answers)

    @property
    def partitions(self) -> list[PartitionData]:
        assert len(self.answers) == 1, "a request is answered once"
        return self.answers[0]

    @property
    def data(self) -> PartitionData:
        (data,) = self.partitions
        return data

    @property
    def size_bytes(self) -> int:
        return sum(len(part) for data in self.partitions for part in data.records or [])


class Harness:
    """The replicas of broker 1; `image` is the image that was applied last.

    Args:
        store: a tier, whose reads and copies the test runs (`tiering`); not given: there is none.
    """

    def __init__(self, store: Store | None = None) -> None:
        self.clock = ManualClock()
        self.finished: list[FinishedOperation] = []
        self.purgatories = Purgatories(Clocks.alike(self.clock), self.finished.append)
        self.actions = self.purgatories.actions
        self.timers: list[Timer] = []  # of further purgatories
        self.produce_purgatory = self.purgatories.of(PRODUCE)
        self.fetch_purgatory = self.purgatories.of(FETCH)
        self.delete_records_purgatory = self.purgatories.of(DELETE_RECORDS)
        self.share_fetch_purgatory = self.purgatories.of(SHARE_FETCH)
        self.observed = Observed()
        self.proposals: list[tuple[Partition, InSyncProposal]] = []
        self.may_lead = True
        self.long_work = HandWork(lambda turn: self.clock.call_later(0, turn))
        self.replicas = ReplicaManager(
            BROKER_ID,
            clock=self.clock,
            logs=BrokerLogs(MemoryBudget(64 * MIB), LogConfig()),
            purgatories=self.purgatories,
            lease=SimpleNamespace(may_lead=lambda: self.may_lead),
            in_sync_changes=SimpleNamespace(propose=lambda *proposed: self.proposals.append(proposed)),
            observer=self.observed,
            work=self.long_work.own,
        )
        if store is not None:
            claim = StoreClaim(store, self.clock, "cluster", "owner")
            ids = iter(range(1, 1_000))
            traffic = TierTraffic(self.clock)
            self.tiering = Tiering(
                self.replicas.lookup,
                store,
                reads=RemoteReads(store, self.clock, readers=2, cache_bytes=MIB, traffic=traffic),
                copier=SegmentCopier(store, self.clock, lambda size: next(ids).to_bytes(size, "big"), claim, traffic),
                cleaner=SegmentCleaner(store, self.clock, claim, traffic),
                clock=self.clock,
                interval_ms=1_000,
            )
            self.replicas.use_tier(
                self.tiering, self.purgatories, max_wait_ms=lambda: 500, look_up_timeout_ms=lambda: 30_000
            )
        self.fetch_sessions = FetchSessionCache(
            slots=1_000, clock=self.clock, rng=random.Random(0), closed=self.replicas.end_session
        )
        self.replicas.incarnation = BrokerIncarnation(BROKER_ID, BROKER_ID)
        self.brokers = {i: BrokerRegistration(i, i, plaintext("127.0.0.1", 9090 + i)) for i in (1, 2, 3)}

    def set_topics(self, *topics: Topic) -> None:
        """Apply an image with these topics."""
        self.image = ClusterImage(0, "test", 1, self.brokers, {t.name: t for t in topics})
        self.replicas.apply(self.image)

    def partition(self, tp: TopicPartition = ORDERS) -> Partition:
        return self.replicas.partitions[tp]

    def advance_ms(self, delta_ms: int) -> None:
        """Advance the time and the timing wheels."""
        self.clock.advance_ms(delta_ms)
        for timer in self.all_timers():
            timer.advance(self.clock.now_ms())

    def all_timers(self) -> list[Timer]:
        """Return the timers of all purgatories."""
        return [*(purgatory._timer for purgatory in self.purgatories.all), *self.timers]

    def produce(
        self, *tps: TopicPartition, acks: int = -1, timeout_ms: int = 1000, records: bytes | None = None
    ) -> Produced:
        """Send a produce request with one batch to each of the partitions."""
        produced = Produced()
        batches = [(tp, batch(b"value") if records is None else records) for tp in tps or (ORDERS,)]
        self.replicas.append(batches, acks=acks, timeout_ms=timeout_ms, done=produced.answers.append, client="producer")
        return produced

    def fetch(
        self,
        *wanted: tuple[TopicPartition, int],
        replica_id: int = -1,
        min_bytes: int = 1,
        max_bytes: int = MIB,
        partition_max_bytes: int = MIB,
        max_wait_ms: int = 500,
        leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        read_committed: bool = False,
        log_start_offset: int = 0,
        rack_id: str = "",
    ) -> Fetched:
        """Send a fetch request for these partitions from these offsets."""
        fetches = [
            PartitionFetch(
                tp,
                None,
                FetchPartition(
                    partition=tp.partition,
                    fetch_offset=offset,
                    current_leader_epoch=leader_epoch,
                    last_fetched_epoch=last_fetched_epoch,
                    log_start_offset=log_start_offset,
                    partition_max_bytes=partition_max_bytes,
                ),
            )
            for tp, offset in wanted
        ]
        params = FetchParams(
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            read_committed,
            replica_epoch=replica_id,
            rack_id=rack_id,
            client="consumer" if replica_id < 0 else f"broker-{replica_id}-fetcher",
        )
        return self.send(FetchContext(params, fetches), fetches)

    def send(self, fetch: FetchContext, named: Sequence[PartitionFetch]) -> Fetched:
        """Send a fetch that names these partitions, of a session or without one."""
        fetched = Fetched()
        self.replicas.fetch(fetch, named, lambda entries: fetched.answers.append([data for _, data in entries or ()]))
        return fetched

    def follow(
        self, *offsets_by_broker: tuple[int, int], tp: TopicPartition = ORDERS, log_start_offset: int = 0
    ) -> list[Fetched]:
        """Let followers fetch from these offsets, and so acknowledge all records before them."""
        return [
            self.fetch((tp, offset), replica_id=broker_id, log_start_offset=log_start_offset)
            for broker_id, offset in offsets_by_broker
        ]
