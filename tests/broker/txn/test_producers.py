"""InitProducerId: each producer of a transactional id gets its identity, and fences those before it."""

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
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


def test_each_producer_of_an_id_gets_the_next_epoch(broker: TransactionHarness) -> None:
    assert [broker.init().producer for _ in range(3)] == [
        ProducerIdAndEpoch(100, 0),
        ProducerIdAndEpoch(100, 1),
        ProducerIdAndEpoch(100, 2),
    ]


def test_transactional_ids_have_their_own_producer_ids(broker: TransactionHarness) -> None:
    assert broker.init().producer == ProducerIdAndEpoch(100, 0)
    assert broker.init(transactional_id="other").producer == ProducerIdAndEpoch(101, 0)


@pytest.mark.parametrize(
    ("transactional_id", "known"),
    [
        ("", ProducerIdAndEpoch(-1, -1)),
        (ID, ProducerIdAndEpoch(-1, 3)),
        (ID, ProducerIdAndEpoch(3, -1)),
        ("x" * 32_768, ProducerIdAndEpoch(-1, -1)),
    ],
)
def test_malformed_requests_are_invalid(
    broker: TransactionHarness, transactional_id: str, known: ProducerIdAndEpoch
) -> None:
    assert broker.init(known, transactional_id=transactional_id).error == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_a_timeout_out_of_range_is_refused(broker: TransactionHarness, timeout_ms: int) -> None:
    assert broker.init(timeout_ms=timeout_ms).error == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    with pytest.raises(KeyError):
        broker.transaction()


def test_a_producer_that_names_its_identity_gets_the_next_epoch(broker: TransactionHarness) -> None:
    """KIP-360."""
    producer = broker.init().producer
    assert broker.init(producer).producer == ProducerIdAndEpoch(100, 1)


def test_a_producer_that_lost_the_answer_is_told_it_again(broker: TransactionHarness) -> None:
    """KIP-360."""
    producer = broker.init().producer
    assert broker.init(producer).producer == ProducerIdAndEpoch(100, 1)
    assert broker.init(producer).producer == ProducerIdAndEpoch(100, 1)


def test_a_producer_that_was_fenced_does_not_get_back(broker: TransactionHarness) -> None:
    producer = broker.init().producer
    broker.init()
    assert broker.init(producer).error == FENCED
    assert broker.init(ProducerIdAndEpoch(99, 1)).error == FENCED
    assert broker.value().producer_epoch == 1


def test_an_unknown_id_accepts_a_producer_with_an_identity(broker: TransactionHarness) -> None:
    """The id may have expired."""
    assert broker.init(ProducerIdAndEpoch(7, 3)).producer == ProducerIdAndEpoch(100, 0)


def test_the_transaction_of_the_producer_before_is_aborted_with_a_fence(broker: TransactionHarness) -> None:
    """KAFKA-6119: markers with the old epoch would let its late records in."""
    old = started(broker)
    asked = broker.init()
    assert not asked.answered
    (ending,) = broker.ends.endings
    assert ending.end == (ID, 100, 1, False, 0, (A,), 2)
    broker.ends.write()
    assert asked.producer == ProducerIdAndEpoch(100, 2)
    for refused in (broker.add(old), broker.end(old), broker.init(old)):
        assert refused.error == FENCED


def test_a_producer_that_was_fenced_aborts_nothing(broker: TransactionHarness) -> None:
    old = broker.init().producer
    started(broker)
    assert broker.init(old).error == FENCED
    assert broker.value().state is State.ONGOING


def test_a_producer_that_abandons_its_own_transaction_goes_on(broker: TransactionHarness) -> None:
    producer = started(broker)
    asked = broker.init(producer)
    broker.ends.write()
    assert asked.producer == ProducerIdAndEpoch(100, 1)
    assert broker.ends.endings[0].end.version == 2


def test_no_epochs_left_means_a_new_producer_id(broker: TransactionHarness) -> None:
    broker.init()
    broker.transaction().value = broker.value()._replace(producer_epoch=LAST_EPOCH - 1)
    last = broker.init().producer
    assert last == ProducerIdAndEpoch(100, LAST_EPOCH)
    assert broker.init(last).producer == ProducerIdAndEpoch(101, 0)
    assert broker.init(last).producer == ProducerIdAndEpoch(101, 0)
    assert broker.init().producer == ProducerIdAndEpoch(101, 1)
    assert broker.init(last).error == FENCED


def test_the_epoch_above_the_last_only_fences(broker: TransactionHarness) -> None:
    """KAFKA-18660, KAFKA-20090."""
    broker.init()
    broker.transaction().value = broker.value()._replace(producer_epoch=LAST_EPOCH - 1)
    broker.add(broker.init().producer)
    asked = broker.init()
    assert broker.ends.endings[0].end.producer_epoch == LAST_EPOCH + 1
    broker.ends.write()
    assert asked.producer == ProducerIdAndEpoch(101, 0)


def test_a_producer_that_abandons_the_last_epoch_gets_a_new_id(broker: TransactionHarness) -> None:
    broker.init()
    broker.transaction().value = broker.value()._replace(producer_epoch=LAST_EPOCH - 1)
    last = broker.init().producer
    broker.add(last)
    asked = broker.init(last)
    broker.ends.write()
    assert asked.producer == ProducerIdAndEpoch(101, 0)


def test_two_producers_that_need_an_id_get_the_same_with_different_epochs(broker: TransactionHarness) -> None:
    broker.ids.is_slow = True
    first, second = broker.init(), broker.init()
    broker.ids.grant()
    assert (first.producer, second.producer) == (ProducerIdAndEpoch(100, 0), ProducerIdAndEpoch(100, 1))


def test_no_producer_ids_means_try_again(broker: TransactionHarness) -> None:
    broker.ids.is_dry = True
    assert broker.init().error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(KeyError):
        broker.transaction()


def test_ids_beyond_the_limit_are_refused() -> None:
    broker = TransactionHarness(max_ids=1)
    broker.init()
    assert broker.init(transactional_id="other").error == ErrorCode.POLICY_VIOLATION
    assert broker.init().error == NONE
