"""Tests of the guard as a coordinator uses it for records in its own partition, and a model of all its ways."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.producing.verification import ProducerTransaction
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import iter_batches
from tests.broker.replica.harness import ORDERS, Harness, Produced, topic
from tests.broker.replica.transactions import Asked, Coordinator, coordinator_of, end, send, transactional
from tests.histories import seeds

BILLING = ProducerTransaction("billing-1", 7, 0, adds_partitions=False)


@pytest.fixture
def alone() -> Harness:
    """Broker 1, the only in-sync replica."""
    harness = Harness()
    harness.set_topics(topic(isr=(1,)))
    return harness


def test_kafka_15449_a_coordinator_appends_when_it_is_admitted(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    told: list[ErrorCode] = []
    for _ in range(2):
        alone.replicas.guard.when_admitted(ORDERS, BILLING, told.append)
    assert (told, len(coordinator.asked)) == ([], 1)
    coordinator.only.answer()
    assert told == [ErrorCode.NONE] * 2
    assert alone.replicas.guard.waiting_bytes == 0


def test_kafka_15449_a_marker_that_comes_between_cancels_a_coordinators_append_too(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    told: list[ErrorCode] = []
    alone.replicas.guard.when_admitted(ORDERS, BILLING, told.append)
    end(alone)
    coordinator.only.answer()
    assert told == [ErrorCode.INVALID_TXN_STATE]


def test_a_broker_that_does_not_lead_asks_nothing(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    told: list[ErrorCode] = []
    alone.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=1))
    alone.replicas.guard.when_admitted(ORDERS, BILLING, told.append)
    alone.replicas.guard.when_admitted(TopicPartition("nowhere", 0), BILLING, told.append)
    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert coordinator.asked == []


def test_an_answer_that_lacks_the_partition_admits_nothing(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    produced = send(alone)
    coordinator.only.done({})
    assert produced.error_codes == [ErrorCode.UNKNOWN_SERVER_ERROR]


@dataclass
class Truth(Coordinator):
    """A coordinator with one transactional id, whose answers arrive late; each is what was true when it was asked."""

    epoch: int = 0
    is_open: bool = False
    on_the_way: list[tuple[Asked, ErrorCode]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def note(self) -> None:
        """Decide on the verifications that have come."""
        for asked in self.asked:
            is_mine = self.is_open and asked.transaction.producer_epoch == self.epoch
            self.on_the_way.append((asked, ErrorCode.NONE if is_mine else ErrorCode.TRANSACTION_ABORTABLE))
        self.asked.clear()


@pytest.mark.parametrize("seed", seeds(40, quick=3))
def test_no_record_lands_outside_of_its_transaction_whatever_comes_late(alone: Harness, seed: int) -> None:
    """Random requests, markers, late answers and elections; the coordinator ends what it began, with its markers."""
    rng = random.Random(seed)
    truth = Truth()
    alone.replicas.guard.verify = truth
    requests: list[Produced] = []
    sequence, partition_epoch = 0, 0
    for _ in range(300):
        step = rng.random()
        if step < 0.15 and not truth.is_open:
            truth.is_open = True
        elif step < 0.3 and truth.is_open:
            truth.is_open = False
            if rng.random() < 0.3:
                truth.epoch, sequence = truth.epoch + 1, 0
            assert end(alone, epoch=truth.epoch, committed=rng.random() < 0.5) == ErrorCode.NONE
        elif step < 0.35:
            partition_epoch += 1
            alone.set_topics(topic(isr=(1,), leader_epoch=partition_epoch, partition_epoch=partition_epoch))
        elif step < 0.75:
            epoch = max(0, truth.epoch - rng.choice((0, 0, 0, 1)))
            requests.append(send(alone, records=transactional(sequence, epoch=epoch), epoch=epoch))
        elif truth.on_the_way:
            asked, code = truth.on_the_way.pop(rng.randrange(len(truth.on_the_way)))
            asked.answer(code)
        truth.note()
        sequence = _next_sequence(alone, truth.epoch)
        producers = alone.partition().log.producers
        assert truth.is_open or not producers.open_count, "a transaction that no marker will end"
    while truth.on_the_way:
        asked, code = truth.on_the_way.pop()
        asked.answer(code)
        truth.note()
    assert all(request.answered for request in requests)
    assert alone.replicas.guard.waiting_bytes == 0
    assert not alone.partition().verifications
    _check_epochs_ascend(alone)


def _next_sequence(broker: Harness, epoch: int) -> int:
    state = broker.partition().log.producers.get(7)
    return state.next_sequence if state is not None and state.epoch == epoch else 0


def _check_epochs_ascend(broker: Harness) -> None:
    log = broker.partition().log
    read = log.read(0, max_bytes=10_000_000, end_offset=log.log_end_offset)
    epochs = [header.producer_epoch for header, _ in iter_batches(b"".join(read.parts))]
    assert epochs == sorted(epochs)
