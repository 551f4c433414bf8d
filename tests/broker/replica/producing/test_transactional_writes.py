"""Tests of produce requests of transactions: what is asked, what waits, and in which order it is appended."""

from __future__ import annotations

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.producing.verification import ProducerTransaction
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import iter_batches
from tests.broker.replica.harness import ORDERS, Harness, topic
from tests.broker.replica.transactions import coordinator_of, end, send, transactional

PAYMENTS = TopicPartition("payments", 0)
CODES = ErrorCode


@pytest.fixture
def alone() -> Harness:
    """Broker 1, the only in-sync replica of two partitions."""
    harness = Harness()
    harness.set_topics(topic(isr=(1,)), topic("payments", isr=(1,)))
    return harness


def sequences(broker: Harness, tp: TopicPartition = ORDERS) -> list[int]:
    """The base sequences in the log."""
    log = broker.partition(tp).log
    read = log.read(log.log_start_offset, max_bytes=1_000_000, end_offset=log.log_end_offset)
    return [header.base_sequence for header, _ in iter_batches(b"".join(read.parts))]


def test_the_first_batch_of_a_transaction_is_appended_when_the_coordinator_confirms_it(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    produced = send(alone)
    assert not produced.answered
    assert alone.partition().log.log_end_offset == 0
    assert coordinator.only.transaction == ProducerTransaction("billing-1", 7, 0, adds_partitions=False)
    assert coordinator.only.partitions == [ORDERS]
    coordinator.only.answer()
    assert [(result.error_code, result.base_offset) for result in produced.results] == [(0, 0)]


def test_the_coordinator_is_asked_once_for_a_transaction_and_a_partition(alone: Harness) -> None:
    coordinator = coordinator_of(alone, CODES.NONE)
    for sequence in range(3):
        assert send(alone, sequence).error_codes == [0]
    assert len(coordinator.asked) == 1
    assert end(alone) == CODES.NONE
    assert send(alone, 3).error_codes == [0]
    assert len(coordinator.asked) == 2, "another transaction"


def test_one_question_asks_for_all_partitions_of_a_request(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    produced = send(alone, tps=[ORDERS, PAYMENTS])
    coordinator.only.done({ORDERS: CODES.NONE, PAYMENTS: CODES.TRANSACTION_ABORTABLE})
    assert produced.error_codes == [CODES.NONE, CODES.TRANSACTION_ABORTABLE]
    assert (
        produced.results[1].error_message
        == "payments-0 is not open to the transaction of billing-1: TRANSACTION_ABORTABLE"
    )


def test_a_partition_whose_transaction_is_open_does_not_wait_for_another_one(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    send(alone)
    coordinator.only.answer()
    produced = send(alone, 1, tps=[ORDERS, PAYMENTS], records=transactional(1))
    assert alone.partition().log.log_end_offset == 2
    assert not produced.answered
    coordinator.asked[1].answer()
    assert produced.error_codes == [0, 0]


def test_requests_in_flight_keep_their_order_behind_the_one_that_waits(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    requests = [send(alone, sequence) for sequence in range(5)]
    coordinator.only.answer()
    assert [request.results[0].base_offset for request in requests] == [0, 1, 2, 3, 4]
    assert sequences(alone) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (CODES.TRANSACTION_ABORTABLE, CODES.TRANSACTION_ABORTABLE),
        (CODES.PRODUCER_FENCED, CODES.INVALID_PRODUCER_EPOCH),
        (CODES.INVALID_PRODUCER_ID_MAPPING, CODES.INVALID_PRODUCER_ID_MAPPING),
        (CODES.COORDINATOR_LOAD_IN_PROGRESS, CODES.NOT_ENOUGH_REPLICAS),
        (CODES.COORDINATOR_NOT_AVAILABLE, CODES.NOT_ENOUGH_REPLICAS),
        (CODES.NOT_COORDINATOR, CODES.NOT_ENOUGH_REPLICAS),
        (CODES.NETWORK_EXCEPTION, CODES.NOT_ENOUGH_REPLICAS),
        (CODES.UNKNOWN_TOPIC_OR_PARTITION, CODES.NOT_ENOUGH_REPLICAS),
        (CODES.OPERATION_NOT_ATTEMPTED, CODES.NOT_ENOUGH_REPLICAS),
        (CODES.REQUEST_TIMED_OUT, CODES.NOT_ENOUGH_REPLICAS),
        (CODES.CONCURRENT_TRANSACTIONS, CODES.NOT_ENOUGH_REPLICAS),
    ],
)
def test_kafka_16386_errors_of_the_coordinator_are_told_as_producers_know_them(
    alone: Harness, code: ErrorCode, told: ErrorCode
) -> None:
    coordinator_of(alone, code)
    assert send(alone).error_codes == [told]
    assert alone.partition().log.log_end_offset == 0


def test_producers_of_transaction_version_2_know_concurrent_transactions(alone: Harness) -> None:
    coordinator = coordinator_of(alone, CODES.CONCURRENT_TRANSACTIONS)
    assert send(alone, adds=True).error_codes == [CODES.CONCURRENT_TRANSACTIONS]
    assert coordinator.only.transaction.adds_partitions


def test_kafka_14884_a_marker_while_the_coordinator_is_asked_cancels_the_question(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    produced = send(alone)
    end(alone, committed=False)
    coordinator.only.answer()
    assert produced.error_codes == [CODES.INVALID_TXN_STATE]
    assert alone.partition().log.log_end_offset == 1, "the marker alone"
    assert alone.partition().last_stable_offset == 1


def test_kafka_19690_an_older_epoch_is_told_before_anything_else(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    waiting = send(alone)
    end(alone, epoch=1, committed=False)
    coordinator.only.answer()
    assert waiting.error_codes == [CODES.INVALID_PRODUCER_EPOCH], "not INVALID_TXN_STATE"
    assert send(alone).error_codes == [CODES.INVALID_PRODUCER_EPOCH]
    assert len(coordinator.asked) == 1, "the coordinator is not asked"


def test_kafka_18575_the_marker_of_the_last_transaction_leaves_the_question_about_the_next_one(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    first = send(alone, adds=True)
    coordinator.asked[0].answer()
    assert first.error_codes == [0]
    following = send(alone, epoch=1, adds=True)
    end(alone, epoch=1)  # its epoch is that of the next transaction
    coordinator.asked[1].answer()
    assert following.error_codes == [0]
    assert alone.partition().log.producers.is_open(7, 1)


def test_kafka_16352_the_marker_of_an_older_epoch_cancels_nothing_newer(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    produced = send(alone, epoch=3)
    end(alone, epoch=1)
    coordinator.only.answer()
    assert produced.error_codes == [0]


def test_a_producer_of_transaction_version_2_that_the_log_does_not_know_begins_with_sequence_0(alone: Harness) -> None:
    coordinator_of(alone, CODES.NONE)
    assert send(alone, 3, adds=True).error_codes == [CODES.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert send(alone, 0, adds=True).error_codes == [0]


def test_a_producer_of_transaction_version_1_may_begin_anywhere_in_a_log_that_does_not_know_it(alone: Harness) -> None:
    coordinator_of(alone, CODES.NONE)
    assert send(alone, 3).error_codes == [0]


def test_kafka_14920_a_higher_sequence_does_not_overtake_the_lowest_seen_while_asking(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    later, first = send(alone, 5), send(alone, 0, records=transactional(0, count=5))
    coordinator.only.answer()
    assert (later.error_codes, first.error_codes) == ([CODES.OUT_OF_ORDER_SEQUENCE_NUMBER], [0])
    assert sequences(alone) == [0]


def test_after_a_refusal_later_batches_are_refused_until_the_first_is_sent_again(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    requests = [send(alone, 0), send(alone, 1)]
    coordinator.asked[0].answer(CODES.NOT_COORDINATOR)
    assert [each.error_codes for each in requests] == [[CODES.NOT_ENOUGH_REPLICAS]] * 2
    early, first = send(alone, 1), send(alone, 0)
    coordinator.asked[1].answer()
    assert early.error_codes == [CODES.NOT_ENOUGH_REPLICAS]
    assert first.error_codes == [0]


def test_nothing_is_asked_where_nothing_could_be_appended(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    alone.set_topics(topic(isr=(1,), partition_epoch=1, min_insync_replicas="2"))
    assert send(alone, acks=-1).error_codes == [CODES.NOT_ENOUGH_REPLICAS]
    alone.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=2))
    moved = send(alone)
    assert (moved.error_codes, moved.results[0].leader_id) == ([CODES.NOT_LEADER_OR_FOLLOWER], 2)
    assert send(alone, tps=[TopicPartition("nowhere", 0)]).error_codes == [CODES.UNKNOWN_TOPIC_OR_PARTITION]
    assert coordinator.asked == []
    assert alone.replicas.guard.waiting_bytes == 0


def test_a_partition_that_moves_while_the_coordinator_is_asked_names_its_new_leader_at_once(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    produced = send(alone)
    alone.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=1))
    assert produced.error_codes == [CODES.NOT_LEADER_OR_FOLLOWER]
    assert produced.results[0].leader_id == 2
    coordinator.only.answer()
    assert alone.partition().log.log_end_offset == 0
    assert alone.replicas.guard.waiting_bytes == 0


def test_an_answer_from_before_another_leader_epoch_is_not_trusted(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    before = send(alone)
    alone.set_topics(topic(isr=(1,), leader_epoch=2, partition_epoch=2))
    after = send(alone)
    assert len(coordinator.asked) == 2
    coordinator.asked[0].answer()
    assert before.error_codes == [CODES.NOT_LEADER_OR_FOLLOWER]
    coordinator.asked[1].answer()
    assert after.error_codes == [0]


def test_acks_all_waits_for_the_replicas_after_the_coordinator_for_what_is_left_of_the_timeout(broker: Harness) -> None:
    coordinator = coordinator_of(broker)
    produced = send(broker, acks=-1, timeout_ms=1000)
    broker.advance_ms(700)
    coordinator.only.answer()
    assert not produced.answered
    broker.advance_ms(299)
    assert not produced.answered
    broker.advance_ms(2)
    assert produced.error_codes == [CODES.REQUEST_TIMED_OUT]


def test_acks_all_is_answered_when_the_replicas_have_the_batch(broker: Harness) -> None:
    coordinator_of(broker, CODES.NONE)
    produced = send(broker, acks=-1)
    broker.follow((2, 1), (3, 1))
    assert produced.error_codes == [0]


def test_batches_of_no_transaction_in_the_request_are_appended_at_once(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    assert send(alone, records=transactional(plain=True)).error_codes == [0]
    assert coordinator.asked == []
    coordinator.code = CODES.NONE
    assert send(alone, 1).error_codes == [0]
    assert send(alone, records=transactional(2, plain=True)).error_codes == [CODES.INVALID_TXN_STATE], "one is open"


def test_what_no_log_would_take_is_refused_without_a_question(alone: Harness) -> None:
    coordinator = coordinator_of(alone)
    control = bytearray(transactional())
    control[22] |= 0x20
    assert send(alone, records=bytes(control)).error_codes == [CODES.INVALID_RECORD]
    assert send(alone, records=transactional()[:40]).error_codes == [CODES.INVALID_RECORD]
    assert coordinator.asked == []


def test_a_corrupt_batch_is_refused_after_the_question_and_opens_nothing(alone: Harness) -> None:
    coordinator_of(alone, CODES.NONE)
    corrupt = bytearray(transactional())
    corrupt[-1] ^= 1
    assert send(alone, records=bytes(corrupt)).error_codes == [CODES.CORRUPT_MESSAGE]
    assert alone.partition().log.producers.open_count == 0


def test_without_a_coordinator_transactions_are_refused(alone: Harness) -> None:
    assert send(alone).error_codes == [CODES.INVALID_TXN_STATE]
