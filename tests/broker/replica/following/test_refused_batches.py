"""A momentary refusal does not put an idempotent producer's pipelined batches out of order."""

from __future__ import annotations

import pytest

from purgatorio.broker.replica.following import refused_batches
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import MAX_SEQUENCE, build_batch
from tests.broker.replica.harness import ORDERS, Harness, topic
from tests.compiled import replaces_functions

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def batch(sequence: int, *, producer_id: int = 7, epoch: int = 0, count: int = 1) -> bytes:
    records = [Record(nth, 1_700_000_000_000, None, b"v", ()) for nth in range(count)]
    return build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def send(broker: Harness, sequence: int, **options: int) -> ErrorCode:
    (code,) = broker.produce(acks=1, records=batch(sequence, **options)).error_codes
    return ErrorCode(code)


def refuse(broker: Harness, sequence: int, **options: int) -> None:
    """Send a batch while the leader's lease may have expired."""
    broker.may_lead = False
    assert send(broker, sequence, **options) is NOT_LEADER
    broker.may_lead = True


def test_batches_behind_a_refused_one_are_refused_with_its_error_until_it_is_retried(broker: Harness) -> None:
    """Five requests are in flight; the second arrives while the lease may have expired."""
    assert send(broker, 0) is ErrorCode.NONE
    refuse(broker, 1)
    assert [send(broker, sequence) for sequence in (2, 3, 4)] == [NOT_LEADER] * 3
    assert [send(broker, sequence) for sequence in (1, 2, 3, 4)] == [ErrorCode.NONE] * 4
    assert broker.partition().log.log_end_offset == 5
    assert not broker.partition().refused.first


def test_batches_wait_for_a_new_producers_refused_first_batch(broker: Harness) -> None:
    """The log does not know the producer, and would append any sequence number."""
    refuse(broker, 0)
    assert send(broker, 1) is NOT_LEADER
    assert [send(broker, sequence) for sequence in (0, 1)] == [ErrorCode.NONE] * 2


def test_batches_wait_for_one_that_was_refused_for_too_few_in_sync_replicas(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1, min_insync_replicas="2"))
    refused = broker.produce(acks=-1, records=batch(0))
    assert refused.error_codes == [ErrorCode.NOT_ENOUGH_REPLICAS]
    broker.set_topics(topic(isr=(1, 2), partition_epoch=2, min_insync_replicas="2"))
    assert send(broker, 1) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert [send(broker, sequence) for sequence in (0, 1)] == [ErrorCode.NONE] * 2


def test_batches_wait_for_the_earliest_refused_one(broker: Harness) -> None:
    broker.may_lead = False
    assert [send(broker, sequence) for sequence in (0, 1)] == [NOT_LEADER] * 2
    broker.may_lead = True
    assert send(broker, 1) is NOT_LEADER
    assert [send(broker, sequence) for sequence in (0, 1)] == [ErrorCode.NONE] * 2


def test_batches_do_not_wait_for_one_that_another_leader_appended(broker: Harness) -> None:
    """This replica follows another leader for a while, and replicates the batch that was retried there."""
    refuse(broker, 0)
    log = broker.partition().log
    broker.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=1))
    log.append_as_follower(batch(0), wall_ms=0)
    broker.set_topics(topic(leader=1, leader_epoch=2, partition_epoch=2))
    assert send(broker, 1) is ErrorCode.NONE
    assert not broker.partition().refused.first


def test_a_new_epoch_ends_the_wait(broker: Harness) -> None:
    refuse(broker, 3)
    assert send(broker, 0, epoch=1) is ErrorCode.NONE
    assert not broker.partition().refused.first
    assert send(broker, 1, epoch=1) is ErrorCode.NONE


def test_a_batch_of_the_epoch_before_neither_waits_nor_ends_the_wait(broker: Harness) -> None:
    assert send(broker, 0) is ErrorCode.NONE
    refuse(broker, 0, epoch=1)
    assert send(broker, 1) is ErrorCode.NONE, "the log decides about an epoch that it does not know to be old"
    assert send(broker, 0) is ErrorCode.NONE, "a duplicate with the refused batch's sequence number"
    assert send(broker, 1, epoch=1) is NOT_LEADER
    assert [send(broker, sequence, epoch=1) for sequence in (0, 1)] == [ErrorCode.NONE] * 2


def test_a_refused_batch_of_the_epoch_before_does_not_replace_the_one_that_is_expected(broker: Harness) -> None:
    """A batch that was sent before the epoch was raised arrives late, in the same refusal."""
    refuse(broker, 0, epoch=1)
    refuse(broker, 5, epoch=0)
    assert send(broker, 1, epoch=1) is NOT_LEADER
    assert [send(broker, sequence, epoch=1) for sequence in (0, 1)] == [ErrorCode.NONE] * 2


def test_a_refused_batch_of_a_new_epoch_replaces_that_of_the_one_before(broker: Harness) -> None:
    refuse(broker, 5, epoch=0)
    refuse(broker, 6, epoch=1)
    assert send(broker, 7, epoch=1) is NOT_LEADER
    assert [send(broker, sequence, epoch=1) for sequence in (6, 7)] == [ErrorCode.NONE] * 2


def test_a_retry_of_an_earlier_batch_is_appended_or_refused_by_the_log(broker: Harness) -> None:
    assert send(broker, 0) is ErrorCode.NONE
    refuse(broker, 1)
    assert send(broker, 0) is ErrorCode.NONE, "a duplicate is acknowledged again"
    assert send(broker, 2) is NOT_LEADER


def test_a_gap_without_a_refusal_is_out_of_order_as_ever(broker: Harness) -> None:
    assert send(broker, 0) is ErrorCode.NONE
    assert send(broker, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_do_not_wait_after_a_final_refusal(broker: Harness) -> None:
    broker.set_topics(topic(partition_epoch=1, max_message_bytes="70"))
    assert send(broker, 0, count=9) is ErrorCode.MESSAGE_TOO_LARGE
    assert not broker.partition().refused.first


def test_sequences_wrap_round(broker: Harness) -> None:
    refuse(broker, MAX_SEQUENCE)
    assert send(broker, 0) is NOT_LEADER
    assert [send(broker, sequence) for sequence in (MAX_SEQUENCE, 0)] == [ErrorCode.NONE] * 2


def test_batches_do_not_wait_for_ever_for_a_producer_that_gives_up(broker: Harness) -> None:
    assert send(broker, 0) is ErrorCode.NONE
    refuse(broker, 1)
    broker.advance_ms(refused_batches.REMEMBERED_MS)
    assert send(broker, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@replaces_functions
def test_producers_are_independent_and_their_number_is_limited(
    broker: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_batches, "MAX_PRODUCERS", 2)
    for producer_id in (1, 2, 3):
        refuse(broker, 0, producer_id=producer_id)
    assert len(broker.partition(ORDERS).refused.first) == 2
    assert send(broker, 1, producer_id=3) is NOT_LEADER
    assert send(broker, 1, producer_id=4) is ErrorCode.NONE
