"""Random transactions, failures, elections and resignations: no marker is lost, none is noted twice."""

from __future__ import annotations

import random

import pytest

from purgatorio.broker.coordinator.broker_calls import MAX_REQUESTS
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.txn.marker_sender import MAX_MARKERS_PER_REQUEST, MAX_RETRY_MS, TransactionEnd
from purgatorio.protocol.errors import ErrorCode
from tests.broker.txn.marker_world import HERE, Asked, Here, World, topic
from tests.histories import seeds

PARTITIONS = 6
BROKERS = (HERE, 2, 3)
STEPS = 300
ERRORS = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


class Ended:
    """A transaction as the coordinator sees it."""

    def __init__(self, end: TransactionEnd) -> None:
        self.end = end
        self.missing = set(end.partitions)
        self.gave_up = False
        self.is_dropped = False

    def written(self, tp: TopicPartition) -> None:
        assert not self.is_dropped, "nothing is noted after the drop"
        assert not self.gave_up, "nothing is noted after the sender gave up"
        assert tp in self.missing, "a marker is noted once"
        self.missing.remove(tp)

    def refused(self, code: ErrorCode) -> None:
        assert not self.is_dropped
        assert not self.gave_up
        assert self.missing
        assert code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.gave_up = True


class Model:
    """A coordinator, the brokers and the cluster around one sender."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.leaders = [self.rng.choice(BROKERS) for _ in range(PARTITIONS)]
        self.epoch = 0
        self.has_bills = True
        self.world = World(topic("orders", *self.leaders), topic("bills", 2))
        self.transactions: dict[str, Ended] = {}
        self.count = 0

    def end(self) -> None:
        """The coordinator ends a transaction that is not being ended."""
        rng = self.rng
        name = f"billing-{rng.randrange(8)}"
        current = self.transactions.get(name)
        if current is not None and current.missing and not current.gave_up and not current.is_dropped:
            return
        chosen = rng.sample(range(PARTITIONS), rng.randint(1, PARTITIONS))
        partitions = [TopicPartition("orders", nth) for nth in chosen]
        if rng.random() < 0.2:
            partitions.append(TopicPartition("bills", 0))
        self.count += 1
        ended = Ended(TransactionEnd(name, self.count, 0, True, self.count, tuple(partitions), 1))
        self.transactions[name] = ended
        self.world.sender.end(ended.end, written=ended.written, gave_up=ended.refused)

    def drop(self) -> None:
        """The coordinator resigns from a transactional id."""
        if self.transactions:
            ended = self.rng.choice(list(self.transactions.values()))
            ended.is_dropped = True
            self.world.sender.drop(ended.end.transactional_id, ended.end.coordinator_epoch)

    def elect(self) -> None:
        nth = self.rng.randrange(PARTITIONS)
        self.leaders[nth] = self.rng.choice((*BROKERS, NO_LEADER))
        self.publish()

    def publish(self) -> None:
        self.epoch += 1
        self.world.elect(topic("orders", *self.leaders, epoch=self.epoch))

    def delete(self) -> None:
        if self.has_bills and self.rng.random() < 0.1:
            self.has_bills = False
            self.world.elect(deleted=["bills"])

    def answer(self, *, fairly: bool = False) -> None:
        """A broker answers one of its requests, or this broker one of its writes."""
        world = self.world
        pending: list[Asked | Here] = [*world.asked, *world.here]
        if not pending:
            return
        one = self.rng.choice(pending)
        if isinstance(one, Here):
            world.here.remove(one)
            one.answer(self.code(HERE, one.partitions[0], fairly=fairly))
            return
        world.asked.remove(one)
        assert len(one.partitions) <= MAX_MARKERS_PER_REQUEST
        if not fairly and self.rng.random() < 0.2:
            one.fail()
            return
        one.answer(by_partition={tp: self.code(one.broker_id, tp, fairly=fairly) for _, tp in one.partitions})

    def code(self, broker_id: int, tp: TopicPartition, *, fairly: bool) -> ErrorCode:
        """What a broker says about a partition."""
        if tp.topic == "bills":
            return ErrorCode.NONE if self.has_bills else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.leaders[tp.partition] != broker_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if fairly or self.rng.random() < 0.6:
            return ErrorCode.NONE
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED if self.rng.random() < 0.05 else self.rng.choice(ERRORS)

    def check(self) -> None:
        for broker_id in BROKERS[1:]:
            assert sum(asked.broker_id == broker_id for asked in self.world.asked) <= MAX_REQUESTS
        for pause in self.world.calls._pauses.values():
            assert not any(each.is_done for each in pause.calls)

    def step(self) -> None:
        steps = (self.end, self.answer, self.elect, self.delete, self.drop, self.wait)
        self.rng.choices(steps, weights=(8, 24, 3, 1, 1, 3))[0]()
        self.check()

    def wait(self) -> None:
        self.world.advance_ms(self.rng.choice((1, 5, 20, 100)))

    def settle(self) -> None:
        """The faults end: each partition has a leader, which writes."""
        self.leaders = [self.rng.choice(BROKERS) for _ in range(PARTITIONS)]
        self.publish()
        for _ in range(100):
            while self.world.asked or self.world.here:
                self.answer(fairly=True)
            self.world.advance_ms(MAX_RETRY_MS // 4)


@pytest.mark.parametrize("seed", seeds(60, quick=3))
def test_every_marker_is_written_once_the_faults_end(seed: int) -> None:
    model = Model(seed)
    for _ in range(STEPS):
        model.step()
    model.settle()
    left = [
        ended.end
        for ended in model.transactions.values()
        if ended.missing and not ended.gave_up and not ended.is_dropped
    ]
    assert left == []
    assert model.count > 10
    assert model.world.timer.size == 0
    calls = model.world.calls
    assert [*model.world.sender._endings, *calls._by_partition, *calls._pauses] == []
    assert all((each.under_way, len(each.lanes)) == (0, 0) for each in calls._destinations.values())
