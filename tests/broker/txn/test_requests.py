"""Requests of producers in each state of a transactional id: the table of KIP-98, and how requests wait."""

from __future__ import annotations

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.txn.producers import ProducerIdAndEpoch
from purgatorio.broker.txn.requests import LEADER_PATIENCE_MS, MAX_PARKED, PATIENCE_MS
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState as State
from tests.broker.txn.harness import ID, A, Asked, B, C, TransactionHarness, started

NONE = ErrorCode.NONE
WRONG_STATE = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


# --- a transaction from begin to end ---


@pytest.mark.parametrize(
    ("commit", "prepared", "complete"),
    [
        (True, State.PREPARE_COMMIT, State.COMPLETE_COMMIT),
        (False, State.PREPARE_ABORT, State.COMPLETE_ABORT),
    ],
)
def test_a_transaction_is_complete_when_all_its_markers_are_written(
    broker: TransactionHarness, commit: bool, prepared: State, complete: State
) -> None:
    producer = broker.init().producer
    assert producer == ProducerIdAndEpoch(100, 0)
    assert broker.add(producer, A, B).error == NONE
    assert broker.end(producer, commit).producer == producer
    assert broker.value().state is prepared
    (ending,) = broker.ends.endings
    assert ending.end == (ID, 100, 0, commit, 0, (A, B), 1)
    broker.ends.write(A)
    assert broker.value().state is prepared
    broker.ends.write(B)
    assert broker.value().state is complete
    counts = broker.transactions.completion.committed_count, broker.transactions.completion.aborted_count
    assert counts == (commit, not commit)
    assert broker.timeouts.num_delayed == 0


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("last", [A, B, C])
def test_a_transaction_over_three_partitions_waits_for_each_marker(
    broker: TransactionHarness, commit: bool, last: TopicPartition
) -> None:
    producer = broker.init().producer
    broker.add(producer, A, B)
    broker.add(producer, C)
    broker.end(producer, commit)
    for tp in (A, B, C):
        if tp != last:
            broker.ends.write(tp)
            assert broker.value().is_decided
    broker.ends.write(last)
    assert broker.value().is_idle


def test_no_answer_leaves_before_the_replicas_have_the_record() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    asked = broker.init()
    assert not asked.answered
    broker.commit()
    producer = asked.producer
    for ask in (lambda: broker.add(producer), lambda: broker.end(producer)):
        asked = ask()
        assert not asked.answered
        assert not broker.ends.endings
        broker.commit()
        assert asked.error == NONE
    assert len(broker.ends.endings) == 1


def test_a_marker_that_is_reported_twice_completes_nothing_twice(broker: TransactionHarness) -> None:
    """KAFKA-10080."""
    producer = started(broker)
    broker.end(producer)
    broker.ends.write(A)
    records = len(broker.logged())
    broker.ends.write(A)
    assert len(broker.logged()) == records
    assert broker.transactions.completion.committed_count == 1


def test_each_value_is_in_the_log(broker: TransactionHarness) -> None:
    producer = started(broker)
    broker.end(producer)
    broker.ends.write()
    states = [value.state for value in broker.logged() if value is not None]
    assert states == [State.EMPTY, State.ONGOING, State.PREPARE_COMMIT, State.COMPLETE_COMMIT]
    assert broker.logged()[1] == broker.value()._replace(state=State.ONGOING, partitions={A: None})


def test_times_do_not_go_back_with_the_clock(broker: TransactionHarness) -> None:
    """KAFKA-5415."""
    producer = broker.init().producer
    before_ms = broker.value().updated_ms
    broker.clock._wall_offset_ms -= 10_000
    broker.add(producer)
    assert broker.value().started_ms == broker.value().updated_ms == before_ms


# --- AddPartitionsToTxn ---


def test_an_unknown_id_or_another_producer_adds_nothing(broker: TransactionHarness) -> None:
    assert broker.add(ProducerIdAndEpoch(100, 0)).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    broker.init()
    broker.init()
    assert broker.add(ProducerIdAndEpoch(99, 1)).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.add(ProducerIdAndEpoch(100, 0)).error == FENCED
    assert broker.add(ProducerIdAndEpoch(100, 2)).error == FENCED
    assert broker.value().state is State.EMPTY


def test_partitions_that_are_known_cost_no_record(broker: TransactionHarness) -> None:
    producer = started(broker)
    records = len(broker.logged())
    assert broker.add(producer, A).error == NONE
    assert len(broker.logged()) == records
    assert broker.add(producer, A, B).error == NONE
    assert list(broker.value().partitions) == [A, B]


def test_the_next_transaction_waits_for_the_markers_of_the_one_before(broker: TransactionHarness) -> None:
    """YDB #52731: an answer before would let the markers end the wrong transaction."""
    producer = started(broker)
    broker.end(producer)
    asked = broker.add(producer, B)
    assert not asked.answered
    (parked,) = broker.purgatory.operations()
    assert in_words(parked.causes) == "the transaction of billing waits for its markers"
    broker.ends.write()
    assert asked.error == NONE
    assert list(broker.value().partitions) == [B]


def test_a_request_waits_no_longer_than_its_patience(broker: TransactionHarness) -> None:
    producer = started(broker)
    broker.end(producer)
    asked = broker.add(producer)
    broker.advance_ms(PATIENCE_MS - 1)
    assert not asked.answered
    broker.advance_ms(1)
    assert asked.error == CONCURRENT


def test_a_request_that_waits_twice_has_one_patience() -> None:
    """Two requests wait for one transition; the first starts the next one, for which the second waits on."""
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    first, second, third = broker.add(init.producer, A), broker.add(init.producer, B), broker.add(init.producer)
    broker.advance_ms(PATIENCE_MS - 100)
    broker.commit()
    assert [asked.answered for asked in (first, second, third)] == [True, False, False]
    broker.advance_ms(100)
    assert (second.answered, third.error) == (False, CONCURRENT)
    broker.commit()
    assert second.error == NONE


def test_requests_that_wait_are_judged_in_their_order() -> None:
    """A repeated EndTxn that waits must never meet the transaction that a later request begins."""
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    broker.add(init.producer, A)
    broker.commit()
    ended, again, added = broker.end(init.producer), broker.end(init.producer), broker.add(init.producer, B)
    broker.commit()
    assert (ended.error, again.answered, added.answered) == (NONE, False, False)
    broker.ends.write()
    broker.commit()
    assert (again.error, added.answered) == (NONE, False)
    broker.commit()
    assert added.error == NONE
    assert broker.value().state is State.ONGOING


def test_a_leader_waits_for_the_end_of_the_transaction_before(broker: TransactionHarness) -> None:
    producer = started(broker)
    broker.end(producer)
    broker.advance_ms(LEADER_PATIENCE_MS - 1)
    asked = broker.add(producer, B, by_leader=True)
    assert not asked.answered
    broker.ends.write()
    assert asked.error == NONE
    assert list(broker.value().partitions) == [B]


def test_a_transition_that_takes_long_holds_up_leaders_once(broker: TransactionHarness) -> None:
    producer = started(broker)
    broker.advance_ms(1_000)
    broker.end(producer)
    asked = broker.add(producer, by_leader=True)
    broker.advance_ms(LEADER_PATIENCE_MS - 1)
    assert not asked.answered
    broker.advance_ms(1)
    assert asked.error == CONCURRENT
    assert broker.add(producer, by_leader=True).error == CONCURRENT


def test_a_transition_lasts_from_the_decision_until_it_is_complete() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    broker.add(init.producer)
    broker.commit()
    broker.end(init.producer)
    broker.commit()
    broker.advance_ms(LEADER_PATIENCE_MS - 1)
    broker.ends.write()
    asked = broker.add(init.producer, by_leader=True)
    assert not asked.answered
    broker.advance_ms(1)
    assert asked.error == CONCURRENT


def test_leaders_wait_while_the_first_partitions_are_added() -> None:
    """A producer begins to write to several partitions at once, whose leaders are different."""
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    asked = [broker.add(init.producer, tp, version=2, by_leader=True) for tp in (A, B)]
    for nth in range(2):
        assert not asked[nth].answered
        broker.commit()
        assert asked[nth].error == NONE
    assert list(broker.value().partitions) == [A, B]


def test_leaders_do_not_wait_for_a_transition_that_began_at_another_coordinator() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    broker.add(init.producer)
    broker.commit()
    broker.end(init.producer)
    broker.commit()
    broker.elect(2, 1, (1, 2))
    broker.elect(1, 2, (1, 2))
    broker.work()
    broker.advance_ms(LEADER_PATIENCE_MS)
    broker.commit()
    assert broker.value().state is State.PREPARE_COMMIT
    assert broker.add(init.producer, by_leader=True).error == CONCURRENT


def test_the_requests_that_wait_have_a_limit(broker: TransactionHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_PARKED == 10_000
    monkeypatch.setattr("purgatorio.broker.txn.requests.MAX_PARKED", 1)
    producer = started(broker)
    broker.end(producer)
    assert not broker.add(producer).answered
    assert broker.add(producer).error == CONCURRENT


def test_partitions_beyond_the_limit_are_refused() -> None:
    broker = TransactionHarness(max_partitions=2)
    producer = started(broker)
    assert broker.add(producer, B).error == NONE
    assert broker.add(producer, TopicPartition("orders", 2)).error == ErrorCode.POLICY_VIOLATION
    assert len(broker.value().partitions) == 2


# --- verification ---


def test_verification_tells_which_partitions_are_in(broker: TransactionHarness) -> None:
    """KIP-890."""
    with pytest.raises(CoordinatorError) as refused:
        broker.verify(ProducerIdAndEpoch(100, 0))
    assert refused.value.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer = broker.init().producer
    assert broker.verify(producer, A) == [ErrorCode.TRANSACTION_ABORTABLE]
    broker.add(producer, A)
    assert broker.verify(producer, A, B) == [NONE, ErrorCode.TRANSACTION_ABORTABLE]
    with pytest.raises(CoordinatorError) as refused:
        broker.verify(ProducerIdAndEpoch(100, 1))
    assert refused.value.error_code == FENCED
    broker.end(producer)
    with pytest.raises(CoordinatorError) as refused:
        broker.verify(producer)
    assert refused.value.error_code == CONCURRENT
    broker.ends.write()
    assert broker.verify(producer) == [ErrorCode.TRANSACTION_ABORTABLE]


def test_verification_ignores_a_pending_transition() -> None:
    """KAFKA-14904."""
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    with pytest.raises(CoordinatorError) as refused:
        broker.verify(ProducerIdAndEpoch(100, 0))
    assert refused.value.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    broker.commit()
    broker.add(init.producer, A)
    broker.commit()
    broker.add(init.producer, B)
    assert broker.verify(init.producer, A, B) == [NONE, ErrorCode.TRANSACTION_ABORTABLE]


# --- the log refuses, or does not answer ---


def every_request(broker: TransactionHarness, producer: ProducerIdAndEpoch) -> list[Asked]:
    return [broker.init(), broker.add(producer, B), broker.end(producer)]


def test_an_id_whose_first_record_is_refused_is_unknown() -> None:
    """KAFKA-14880: ids without an epoch never expired."""
    broker = TransactionHarness(replicas=(1, 2))
    broker.may_lead = False
    assert broker.init().error == ErrorCode.NOT_COORDINATOR
    broker.may_lead = True
    with pytest.raises(KeyError):
        broker.transaction()
    assert broker.logged() == []


def test_a_record_whose_fate_is_unknown_allows_no_other_result() -> None:
    """The replicas take too long, so that the client is told to try again; the record is committed later."""
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    broker.add(init.producer)
    broker.commit()
    commit = broker.end(init.producer)
    broker.advance_ms(5_000)
    assert commit.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    abort, again = broker.end(init.producer, False), broker.end(init.producer)
    assert not abort.answered
    assert not again.answered
    broker.commit()
    assert broker.value().state is State.PREPARE_COMMIT
    broker.ends.write()
    broker.commit()
    assert (abort.error, again.error) == (WRONG_STATE, NONE)
    states = [value.state for value in broker.logged() if value is not None]
    assert states.count(State.PREPARE_COMMIT) == 1


def test_a_client_gives_up_while_the_fate_of_a_record_is_unknown() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.advance_ms(5_000)
    assert init.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    waiting = every_request(broker, ProducerIdAndEpoch(100, 0))
    broker.advance_ms(PATIENCE_MS)
    assert waiting[0].error == CONCURRENT
    assert broker.transaction().pending is State.EMPTY
    broker.commit()
    broker.advance_ms(100)
    assert broker.value().producer_epoch == 0
    assert broker.transaction().pending is None
