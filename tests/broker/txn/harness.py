"""The transactions of broker 1 over its replicas; the test sets the time and the image, and plays followers and leaders
of other partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from purgatorio.broker.causes.cause import MarkersMissing
from purgatorio.broker.coordinator.coordinator_log import CoordinatorLog
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import Topic
from purgatorio.broker.metadata.topic_name import TRANSACTION_STATE_TOPIC
from purgatorio.broker.txn.marker_sender import TransactionEnd
from purgatorio.broker.txn.producers import NO_PRODUCER, ProducerIdAndEpoch
from purgatorio.broker.txn.services import TransactionConfig, TransactionServices
from purgatorio.broker.txn.transaction import Transaction
from purgatorio.broker.txn.transactions import Transactions
from purgatorio.broker.txn.values import TransactionValue, read_value
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import iter_records
from purgatorio.protocol.transaction_state import decode_key, decode_value
from purgatorio.purgatory import Purgatory, Timer
from tests.broker.replica.harness import MIB, Harness, topic
from tests.broker.time.by_hand import HandWork, turns_of

PARTITION = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
"""The only partition of the topic, which holds all transactional ids."""
A, B, C = (TopicPartition("orders", partition) for partition in range(3))
"""Partitions that producers write to."""
ID = "billing"
TIMEOUT_MS = 60_000


def state_topic(replicas: tuple[int, ...] = (1,), leader: int = 1, leader_epoch: int = 0, **configs: str) -> Topic:
    """Return ``__transaction_state`` with one partition."""
    return topic(
        TRANSACTION_STATE_TOPIC,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=leader_epoch,
        replicas=replicas,
        cleanup_policy="compact",
        **configs,
    )


@dataclass
class Ending:
    """Markers that are being written."""

    end: TransactionEnd
    written: Callable[[TopicPartition], None]
    gave_up: Callable[[ErrorCode], None]


class FakeEnds:
    """Keeps what shall be ended; the test writes the markers, unless `is_instant`."""

    def __init__(self) -> None:
        self.is_instant = False
        self.endings: list[Ending] = []
        self.dropped: list[tuple[str, int]] = []

    def end(
        self, end: TransactionEnd, *, written: Callable[[TopicPartition], None], gave_up: Callable[[ErrorCode], None]
    ) -> None:
        self.endings.append(Ending(end, written, gave_up))
        if self.is_instant:
            for tp in end.partitions:
                written(tp)

    def drop(self, transactional_id: str, coordinator_epoch: int) -> None:
        self.dropped.append((transactional_id, coordinator_epoch))

    def waits_for(self, transactional_id: str) -> MarkersMissing:
        return MarkersMissing(transactional_id, (), 0)

    def write(self, *tps: TopicPartition, nth: int = -1) -> None:
        """Write markers of the last transaction that was decided; all of them by default."""
        ending = self.endings[nth]
        for tp in tps or ending.end.partitions:
            ending.written(tp)


class FakeIds:
    """Producer ids from 100; None if it is `dry`, and later if it is `slow`."""

    def __init__(self) -> None:
        self.latest = 99
        self.is_dry = False
        self.is_slow = False
        self.waiting: list[Callable[[int | None], None]] = []

    def next(self, done: Callable[[int | None], None]) -> None:
        if self.is_slow:
            self.waiting.append(done)
            return
        self.latest += 1
        done(None if self.is_dry else self.latest)

    def grant(self) -> None:
        self.is_slow = False
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            self.next(done)


@dataclass
class Asked:
    """A request, and its answers: error codes, with a producer where there is one."""

    answers: list[Any] = field(default_factory=list)

    @property
    def answered(self) -> bool:
        return bool(self.answers)

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, f"a request is answered once, not {self.answers}"
        return self.answers[0]

    @property
    def error(self) -> ErrorCode:
        answer = self.answer
        return answer[0] if isinstance(answer, tuple) else answer

    @property
    def producer(self) -> ProducerIdAndEpoch:
        error, producer = self.answer
        assert error == ErrorCode.NONE, error
        return producer


class TransactionHarness(Harness):
    """Broker 1 with its transactions.

    Args:
        replicas: the replicas of ``__transaction_state``; with the default an append is committed at once.
        config: settings of the coordinator that differ from the defaults.
    """

    def __init__(self, replicas: tuple[int, ...] = (1,), **config: int) -> None:
        super().__init__()
        timers = [Timer(self.clock.now_ms) for _ in range(3)]
        self.timers += timers
        self.purgatory: Purgatory[Any] = Purgatory("Transaction", timers[0], actions=self.actions)
        self.timeouts: Purgatory[Any] = Purgatory("TransactionTimeout", timers[1], actions=self.actions)
        for purgatory in (self.purgatory, self.timeouts):
            purgatory.on_finished = self.finished.append
        self.ends = FakeEnds()
        self.ids = FakeIds()
        settings = TransactionConfig(topic_partitions=1, **config)
        self.log = CoordinatorLog(self.replicas, self.clock, timers[2], settings.append_timeout_ms)
        self.transaction_work = HandWork()
        services = TransactionServices(
            config=settings,
            log=self.log,
            clock=self.clock,
            timer=timers[2],
            image=lambda: self.image,
            producer_ids=self.ids,  # type: ignore[arg-type]  # a fake
            ends=self.ends,  # type: ignore[arg-type]  # a fake
            purgatory=self.purgatory,
            timeout_purgatory=self.timeouts,
            work=self.transaction_work.own,
        )
        self.transactions = Transactions(services, self.replicas)
        self.set_topics(state_topic(replicas))

    # --- roles ---

    def elect(self, leader: int, leader_epoch: int, replicas: tuple[int, ...] = (1,)) -> None:
        """Make a broker the leader of the partition of ``__transaction_state``, in a new leader epoch."""
        self.set_topics(state_topic(replicas, leader, leader_epoch))

    def move(self, leader_epoch: int, replicas: tuple[int, ...] = (1,)) -> None:
        """Take the partition from this broker and elect it again, so that it loads what is in the log."""
        if 2 not in replicas:
            replicas = (*replicas, 2)
        self.elect(2, leader_epoch - 1, replicas)
        self.work()
        self.set_topics(state_topic(replicas, 1, leader_epoch))
        self.work()
        self.commit()
        self.work()

    def work(self) -> int:
        """Load and unload what waits for it; returns the number of steps."""
        return turns_of(self.transactions.coordinator.steps())

    def commit(self, *followers: int) -> None:
        """Let followers, broker 2 by default, fetch all of the partition: everything is committed."""
        end = self.partition(PARTITION).log.log_end_offset
        self.follow(*((each, end) for each in followers or (2,)), tp=PARTITION)

    # --- requests ---

    def init(
        self, known: ProducerIdAndEpoch = NO_PRODUCER, *, transactional_id: str = ID, timeout_ms: int = TIMEOUT_MS
    ) -> Asked:
        asked = Asked()
        self.transactions.producers.init(
            transactional_id, timeout_ms, known, lambda *answer: asked.answers.append(answer)
        )
        return asked

    def add(
        self,
        producer: ProducerIdAndEpoch,
        *partitions: TopicPartition,
        transactional_id: str = ID,
        version: int = 1,
        by_leader: bool = False,
    ) -> Asked:
        asked = Asked()
        self.transactions.partitions.add(
            transactional_id, producer, partitions or (A,), asked.answers.append, version=version, by_leader=by_leader
        )
        return asked

    def verify(
        self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, transactional_id: str = ID
    ) -> Sequence[ErrorCode]:
        verified = self.transactions.partitions.verify(transactional_id, producer, partitions or (A,))
        return list(verified.values())

    def end(
        self, producer: ProducerIdAndEpoch, commit: bool = True, *, bumps: bool = False, transactional_id: str = ID
    ) -> Asked:
        asked = Asked()
        self.transactions.producers.end(
            transactional_id, producer, commit, lambda *answer: asked.answers.append(answer), bumps=bumps
        )
        return asked

    # --- what there is ---

    def transaction(self, transactional_id: str = ID) -> Transaction:
        (shard,) = self.transactions.coordinator.shards
        return shard.transactions[transactional_id]

    def value(self, transactional_id: str = ID) -> TransactionValue:
        return self.transaction(transactional_id).value

    def logged(self, transactional_id: str = ID) -> list[TransactionValue | None]:
        """Return the values in the log, in order; None for a tombstone."""
        log = self.partition(PARTITION).log
        values = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = b"".join(log.read(offset, max_bytes=MIB, end_offset=log.log_end_offset).parts)
            for record in iter_records(data):
                offset = record.offset + 1
                if decode_key(record.key or b"") == transactional_id:
                    value = decode_value(record.value)
                    values.append(None if value is None else read_value(value))
        return values


def started(broker: TransactionHarness) -> ProducerIdAndEpoch:
    """Return a producer with an open transaction on A."""
    producer = broker.init().producer
    assert broker.add(producer, A).error == ErrorCode.NONE
    return producer
