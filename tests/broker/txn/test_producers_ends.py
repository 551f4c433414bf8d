"""EndTxn in each state of a transactional id: the tables of KIP-98 and of KIP-890."""

from __future__ import annotations

import pytest

from purgatorio.broker.txn.producers import ProducerIdAndEpoch
from purgatorio.broker.txn.values import LAST_EPOCH
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState as State
from tests.broker.txn.harness import ID, A, TransactionHarness, started

NONE = ErrorCode.NONE
WRONG_STATE = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.PRODUCER_FENCED


# --- EndTxn, transaction.version 1 ---


def test_only_the_current_producer_ends_a_transaction(broker: TransactionHarness) -> None:
    """KAFKA-9600: a higher epoch is refused as well."""
    assert broker.end(ProducerIdAndEpoch(100, 0)).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    started(broker)
    assert broker.end(ProducerIdAndEpoch(99, 0)).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.end(ProducerIdAndEpoch(100, 1)).error == FENCED
    assert broker.value().state is State.ONGOING


def test_nothing_can_be_ended_before_it_has_begun(broker: TransactionHarness) -> None:
    producer = broker.init().producer
    assert broker.end(producer).error == WRONG_STATE
    assert broker.end(producer, False).error == WRONG_STATE


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_confirmed_again_and_the_other_result_refused(broker: TransactionHarness, commit: bool) -> None:
    producer = started(broker)
    broker.end(producer, commit)
    again = broker.end(producer, commit)
    assert not again.answered, "kafkajs asks once: the request waits for the markers"
    other = broker.end(producer, not commit)
    broker.ends.write()
    assert (again.producer, other.error) == (producer, WRONG_STATE)
    assert broker.end(producer, commit).producer == producer
    assert broker.end(producer, not commit).error == WRONG_STATE
    assert len(broker.ends.endings) == 1


def test_an_end_waits_for_the_partitions_that_are_being_added() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    added, ended = broker.add(init.producer), broker.end(init.producer)
    broker.commit()
    assert (added.error, ended.answered) == (NONE, False)
    broker.commit()
    assert ended.error == NONE


# --- EndTxn, transaction.version 2 ---


def bumped(broker: TransactionHarness, commit: bool = True) -> tuple[ProducerIdAndEpoch, ProducerIdAndEpoch]:
    """Return the producer of a transaction that has ended, and its next identity."""
    producer = broker.init().producer
    assert broker.add(producer, A, version=2).error == NONE
    after = broker.end(producer, commit, bumps=True).producer
    broker.ends.write()
    return producer, after


def test_an_end_bumps_the_epoch(broker: TransactionHarness) -> None:
    producer, after = bumped(broker)
    assert after == ProducerIdAndEpoch(100, 1)
    (ending,) = broker.ends.endings
    assert ending.end == (ID, 100, 1, True, 0, (A,), 2)
    assert broker.value().state is State.COMPLETE_COMMIT
    assert broker.add(producer, version=2, by_leader=True).error == FENCED
    assert broker.add(after, version=2).error == NONE
    assert broker.end(after, bumps=True).producer == ProducerIdAndEpoch(100, 2)


@pytest.mark.parametrize("commit", [True, False])
def test_a_lost_answer_is_given_again(broker: TransactionHarness, commit: bool) -> None:
    producer = broker.init().producer
    broker.add(producer, version=2)
    broker.end(producer, commit, bumps=True)
    again = broker.end(producer, commit, bumps=True)
    other = broker.end(producer, not commit, bumps=True)
    assert not again.answered
    broker.ends.write()
    assert (again.producer, other.error) == (ProducerIdAndEpoch(100, 1), WRONG_STATE)
    assert broker.end(producer, commit, bumps=True).producer == ProducerIdAndEpoch(100, 1)
    assert broker.end(producer, not commit, bumps=True).error == WRONG_STATE
    assert broker.value().producer_epoch == 1


def test_a_producer_is_not_fenced_by_its_own_transition() -> None:
    """KAFKA-18464, KAFKA-18660: a pending transition is told before the ids are compared."""
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    broker.add(init.producer, version=2)
    broker.commit()
    first, again = broker.end(init.producer, bumps=True), broker.end(init.producer, bumps=True)
    broker.commit()
    broker.ends.write()
    broker.commit()
    assert first.producer == again.producer == ProducerIdAndEpoch(100, 1)


def test_a_retry_after_the_next_transaction_has_begun_ends_nothing(broker: TransactionHarness) -> None:
    """What bumping is for: under version 1 a late EndTxn ends the next transaction (Jepsen on Bufstream)."""
    producer, after = bumped(broker)
    broker.add(after, version=2)
    assert broker.end(producer, bumps=True).error == FENCED
    assert broker.value().state is State.ONGOING


def test_an_epoch_that_is_older_than_the_last_is_fenced(broker: TransactionHarness) -> None:
    producer, after = bumped(broker)
    broker.add(after, version=2)
    broker.end(after, bumps=True)
    asked = broker.end(producer, bumps=True)
    broker.ends.write()
    assert asked.error == broker.end(producer, bumps=True).error == FENCED


def test_an_epoch_commits_nothing_before_its_transaction(broker: TransactionHarness) -> None:
    producer = broker.init().producer
    broker.add(producer, version=2)
    after = broker.end(producer, bumps=True).producer
    asked = broker.end(after, bumps=True)
    broker.ends.write()
    assert asked.error == WRONG_STATE


@pytest.mark.parametrize("is_empty", [True, False])
def test_an_abort_without_a_transaction_bumps_the_epoch(broker: TransactionHarness, is_empty: bool) -> None:
    producer = broker.init().producer if is_empty else bumped(broker)[1]
    assert broker.end(producer, bumps=True).error == WRONG_STATE
    endings = len(broker.ends.endings)
    after = broker.end(producer, False, bumps=True).producer
    assert after == ProducerIdAndEpoch(100, producer.producer_epoch + 1)
    assert broker.value().state is State.COMPLETE_ABORT
    assert len(broker.ends.endings) == endings, "there is nothing to mark"
    assert broker.end(producer, False, bumps=True).producer == after


def test_an_epoch_before_ends_nothing_in_an_empty_id(broker: TransactionHarness) -> None:
    producer = broker.init().producer
    broker.init(producer)
    assert broker.end(producer, False, bumps=True).error == FENCED


def test_the_end_of_the_last_epoch_gives_a_new_producer_id(broker: TransactionHarness) -> None:
    broker.init()
    broker.transaction().value = broker.value()._replace(producer_epoch=LAST_EPOCH - 1)
    last = broker.init().producer
    broker.add(last, version=2)
    first = broker.end(last, bumps=True)
    again = broker.end(last, bumps=True)
    assert first.producer == ProducerIdAndEpoch(101, 0)
    assert broker.ends.endings[0].end[1:3] == (100, LAST_EPOCH + 1)
    broker.ends.write()
    assert again.producer == broker.end(last, bumps=True).producer == ProducerIdAndEpoch(101, 0)
    assert broker.end(last, False, bumps=True).error == WRONG_STATE
    assert broker.value().previous_id == 100
    assert broker.add(ProducerIdAndEpoch(101, 0), version=2).error == NONE
    assert broker.end(last, bumps=True).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_no_producer_id_for_the_next_transaction_means_try_again(broker: TransactionHarness) -> None:
    broker.init()
    broker.transaction().value = broker.value()._replace(producer_epoch=LAST_EPOCH - 1)
    last = broker.init().producer
    broker.add(last, version=2)
    broker.ids.is_dry = True
    assert broker.end(last, bumps=True).error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.value().state is State.ONGOING
