"""Transactions that end at their deadline, and ends that the log refuses."""

from __future__ import annotations

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.txn.producers import ProducerIdAndEpoch
from purgatorio.broker.txn.values import LAST_EPOCH
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState as State
from tests.broker.txn.harness import ID, TIMEOUT_MS, A, B, TransactionHarness
from tests.logs import capture_logs

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED


@pytest.fixture
def broker() -> TransactionHarness:
    return TransactionHarness()


def started(broker: TransactionHarness, *, version: int = 1) -> ProducerIdAndEpoch:
    """Return a producer with an open transaction on A."""
    producer = broker.init().producer
    assert broker.add(producer, A, version=version).error == NONE
    return producer


# --- deadlines ---


def test_a_transaction_is_aborted_at_its_deadline_and_its_producer_fenced() -> None:
    broker = TransactionHarness(version=1)
    producer = broker.init().producer
    broker.advance_ms(10_000)
    assert broker.timeouts.num_delayed == 0, "the time runs from the first partition"
    broker.add(producer, A)
    (timeout,) = broker.timeouts.operations()
    assert in_words(timeout.causes) == "the transaction of billing is open, with 1 partition"
    broker.advance_ms(TIMEOUT_MS - 1)
    broker.add(producer, B)
    assert broker.value().state is State.ONGOING, "the time is not renewed"
    broker.advance_ms(1)
    assert broker.ends.endings[0].end == (ID, 100, 1, False, 0, (A, B), 1)
    broker.ends.write()
    assert broker.value().state is State.COMPLETE_ABORT
    assert broker.end(producer).error == FENCED
    assert broker.init(producer).error == FENCED
    assert broker.init().producer == ProducerIdAndEpoch(100, 2)
    assert broker.transactions.completion.timed_out_count == 1
    (ran_out,) = broker.transactions.completion.timed_out
    assert (ran_out.transactional_id, ran_out.open_ms, ran_out.is_early) == (ID, TIMEOUT_MS, False)


def test_a_producer_of_version_2_goes_on_after_a_timeout() -> None:
    """KIP-588; one bump, not two: KAFKA-19367."""
    broker = TransactionHarness(version=2)
    producer = started(broker, version=2)
    broker.advance_ms(TIMEOUT_MS)
    assert broker.ends.endings[0].end == (ID, 100, 1, False, 0, (A,), 2)
    broker.ends.write()
    assert broker.init(producer).producer == ProducerIdAndEpoch(100, 1)
    assert broker.add(ProducerIdAndEpoch(100, 1), version=2).error == NONE


def test_an_epoch_that_only_fences_is_given_to_no_producer() -> None:
    """KAFKA-20090: the last epoch times out, and its producer asks to go on."""
    broker = TransactionHarness(version=2)
    broker.init()
    broker.transaction().value = broker.value()._replace(producer_epoch=LAST_EPOCH - 1)
    last = broker.init().producer
    broker.add(last, version=2)
    broker.advance_ms(TIMEOUT_MS)
    broker.ends.write()
    assert broker.end(last, False, bumps=True).error == FENCED
    assert broker.init(last).producer == ProducerIdAndEpoch(101, 0)


def test_a_transaction_that_ends_has_no_deadline_any_more(broker: TransactionHarness) -> None:
    producer = started(broker)
    broker.end(producer)
    assert broker.timeouts.num_delayed == 0
    broker.ends.write()
    broker.advance_ms(TIMEOUT_MS - 1)
    broker.add(producer, A)
    broker.advance_ms(TIMEOUT_MS - 1)
    assert broker.value().state is State.ONGOING
    broker.advance_ms(1)
    assert broker.value().state is State.PREPARE_ABORT
    assert [each.outcome for each in broker.finished if each.purgatory == "TransactionTimeout"] == [
        "completed",
        "expired",
    ]


def test_a_deadline_during_a_transition_aborts_after_it() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init(timeout_ms=1_000)
    broker.commit()
    broker.add(init.producer, A)
    broker.commit()
    broker.add(init.producer, B)
    broker.advance_ms(1_000)
    broker.commit()
    assert list(broker.value().partitions) == [A, B]
    broker.advance_ms(100)
    broker.commit()
    assert broker.value().state is State.PREPARE_ABORT
    assert broker.ends.endings[0].end.partitions == (A, B)
    assert broker.transactions.completion.timed_out_count == 1


def test_a_commit_that_is_under_way_at_the_deadline_wins() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init(timeout_ms=1_000)
    broker.commit()
    broker.add(init.producer, A)
    broker.commit()
    ended = broker.end(init.producer)
    broker.advance_ms(1_000)
    broker.commit()
    broker.advance_ms(1_000)
    assert ended.error == NONE
    assert broker.value().state is State.PREPARE_COMMIT
    assert len(broker.ends.endings) == 1
    assert broker.transactions.completion.timed_out_count == 0


def test_a_timeout_that_the_log_refuses_is_tried_again_with_the_same_epoch(broker: TransactionHarness) -> None:
    """KAFKA-9666."""
    started(broker)
    broker.may_lead = False
    broker.advance_ms(TIMEOUT_MS)
    assert broker.value().state is State.ONGOING
    broker.advance_ms(250)
    broker.may_lead = True
    broker.advance_ms(100)
    assert broker.value().state is State.PREPARE_ABORT
    assert broker.value().producer_epoch == 1


def test_a_fence_that_the_log_refuses_bumps_nothing(
    broker: TransactionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-9666."""
    started(broker)
    with monkeypatch.context() as patch:
        refuse = lambda tp, records, done, **_: done(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # noqa: E731  (short)
        patch.setattr(broker.log, "append", refuse)
        assert broker.init().error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (broker.value().state, broker.value().producer_epoch) == (State.ONGOING, 0)
    broker.init()
    assert broker.ends.endings[-1].end.producer_epoch == 1


# --- markers ---


def test_a_completion_that_the_log_refuses_is_tried_again(broker: TransactionHarness) -> None:
    producer = started(broker)
    broker.end(producer)
    broker.may_lead = False
    broker.ends.write()
    broker.advance_ms(250)
    assert broker.value().state is State.PREPARE_COMMIT
    broker.may_lead = True
    broker.advance_ms(100)
    assert broker.value().state is State.COMPLETE_COMMIT
    assert len(broker.ends.endings) == 1, "no markers again"


def test_a_completion_that_takes_long_is_counted_once_it_is_committed() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    broker.add(init.producer)
    broker.commit()
    broker.end(init.producer)
    broker.commit()
    broker.ends.write()
    broker.advance_ms(6_000)
    broker.commit()
    broker.advance_ms(100)
    assert broker.value().state is State.COMPLETE_COMMIT
    assert broker.transactions.completion.committed_count == 1


def test_markers_that_are_refused_leave_the_transaction_as_it_is(broker: TransactionHarness) -> None:
    """A newer coordinator, or a newer producer, is at work."""
    producer = started(broker)
    broker.end(producer)
    with capture_logs() as logged:
        broker.ends.endings[0].gave_up(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert [each["log_level"] for each in logged] == ["warning"]
    assert broker.value().state is State.PREPARE_COMMIT
