"""Requests of producers in each state of a transactional id: the table of KIP-98 and KIP-890."""

from __future__ import annotations

import pytest

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.txn.delayed_transition import LEADER_PATIENCE_MS, PATIENCE_MS
from purgatorio.broker.txn.producers import Producer
from purgatorio.broker.txn.requests import MAX_PARKED
from purgatorio.broker.txn.values import LAST_EPOCH
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState as State
from tests.broker.txn.harness import ID, A, Asked, B, TransactionHarness

NONE = ErrorCode.NONE
WRONG_STATE = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.fixture
def broker() -> TransactionHarness:
    return TransactionHarness()


def started(broker: TransactionHarness) -> Producer:
    """Return a producer with an open transaction on A."""
    producer = broker.init().producer
    assert broker.add(producer, A).error == NONE
    return producer


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
    assert producer == Producer(100, 0)
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


# --- InitProducerId ---


def test_each_producer_of_an_id_gets_the_next_epoch(broker: TransactionHarness) -> None:
    assert [broker.init().producer for _ in range(3)] == [Producer(100, 0), Producer(100, 1), Producer(100, 2)]


def test_transactional_ids_have_their_own_producer_ids(broker: TransactionHarness) -> None:
    assert broker.init().producer == Producer(100, 0)
    assert broker.init(transactional_id="other").producer == Producer(101, 0)


@pytest.mark.parametrize(
    ("transactional_id", "known"),
    [("", Producer(-1, -1)), (ID, Producer(-1, 3)), (ID, Producer(3, -1)), ("x" * 32_768, Producer(-1, -1))],
)
def test_malformed_requests_are_invalid(broker: TransactionHarness, transactional_id: str, known: Producer) -> None:
    assert broker.init(known, transactional_id=transactional_id).error == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_a_timeout_out_of_range_is_refused(broker: TransactionHarness, timeout_ms: int) -> None:
    assert broker.init(timeout_ms=timeout_ms).error == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    with pytest.raises(KeyError):
        broker.transaction()


def test_a_producer_that_names_its_identity_gets_the_next_epoch(broker: TransactionHarness) -> None:
    """KIP-360."""
    producer = broker.init().producer
    assert broker.init(producer).producer == Producer(100, 1)


def test_a_producer_that_lost_the_answer_is_told_it_again(broker: TransactionHarness) -> None:
    """KIP-360."""
    producer = broker.init().producer
    assert broker.init(producer).producer == Producer(100, 1)
    assert broker.init(producer).producer == Producer(100, 1)


def test_a_producer_that_was_fenced_does_not_get_back(broker: TransactionHarness) -> None:
    producer = broker.init().producer
    broker.init()
    assert broker.init(producer).error == FENCED
    assert broker.init(Producer(99, 1)).error == FENCED
    assert broker.value().producer_epoch == 1


def test_an_unknown_id_accepts_a_producer_with_an_identity(broker: TransactionHarness) -> None:
    """The id may have expired."""
    assert broker.init(Producer(7, 3)).producer == Producer(100, 0)


def test_the_transaction_of_the_producer_before_is_aborted_with_a_fence(broker: TransactionHarness) -> None:
    """KAFKA-6119: markers with the old epoch would let its late records in."""
    old = started(broker)
    asked = broker.init()
    assert not asked.answered
    (ending,) = broker.ends.endings
    assert ending.end == (ID, 100, 1, False, 0, (A,), 2)
    broker.ends.write()
    assert asked.producer == Producer(100, 2)
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
    assert asked.producer == Producer(100, 1)
    assert broker.ends.endings[0].end.version == 2


def test_no_epochs_left_means_a_new_producer_id(broker: TransactionHarness) -> None:
    broker.init()
    broker.transaction().value = broker.value()._replace(producer_epoch=LAST_EPOCH - 1)
    last = broker.init().producer
    assert last == Producer(100, LAST_EPOCH)
    assert broker.init(last).producer == Producer(101, 0)
    assert broker.init(last).producer == Producer(101, 0)
    assert broker.init().producer == Producer(101, 1)
    assert broker.init(last).error == FENCED


def test_the_epoch_above_the_last_only_fences(broker: TransactionHarness) -> None:
    """KAFKA-18660, KAFKA-20090."""
    broker.init()
    broker.transaction().value = broker.value()._replace(producer_epoch=LAST_EPOCH - 1)
    broker.add(broker.init().producer)
    asked = broker.init()
    assert broker.ends.endings[0].end.producer_epoch == LAST_EPOCH + 1
    broker.ends.write()
    assert asked.producer == Producer(101, 0)


def test_a_producer_that_abandons_the_last_epoch_gets_a_new_id(broker: TransactionHarness) -> None:
    broker.init()
    broker.transaction().value = broker.value()._replace(producer_epoch=LAST_EPOCH - 1)
    last = broker.init().producer
    broker.add(last)
    asked = broker.init(last)
    broker.ends.write()
    assert asked.producer == Producer(101, 0)


def test_two_producers_that_need_an_id_get_the_same_with_different_epochs(broker: TransactionHarness) -> None:
    broker.ids.is_slow = True
    first, second = broker.init(), broker.init()
    broker.ids.grant()
    assert (first.producer, second.producer) == (Producer(100, 0), Producer(100, 1))


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


# --- AddPartitionsToTxn ---


def test_an_unknown_id_or_another_producer_adds_nothing(broker: TransactionHarness) -> None:
    assert broker.add(Producer(100, 0)).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    broker.init()
    broker.init()
    assert broker.add(Producer(99, 1)).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.add(Producer(100, 0)).error == FENCED
    assert broker.add(Producer(100, 2)).error == FENCED
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
    assert parked.missing == "the transaction of billing waits for markers"
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
        broker.verify(Producer(100, 0))
    assert refused.value.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer = broker.init().producer
    assert broker.verify(producer, A) == [ErrorCode.TRANSACTION_ABORTABLE]
    broker.add(producer, A)
    assert broker.verify(producer, A, B) == [NONE, ErrorCode.TRANSACTION_ABORTABLE]
    with pytest.raises(CoordinatorError) as refused:
        broker.verify(Producer(100, 1))
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
        broker.verify(Producer(100, 0))
    assert refused.value.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    broker.commit()
    broker.add(init.producer, A)
    broker.commit()
    broker.add(init.producer, B)
    assert broker.verify(init.producer, A, B) == [NONE, ErrorCode.TRANSACTION_ABORTABLE]


# --- EndTxn, transaction.version 1 ---


def test_only_the_current_producer_ends_a_transaction(broker: TransactionHarness) -> None:
    """KAFKA-9600: a higher epoch is refused as well."""
    assert broker.end(Producer(100, 0)).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    started(broker)
    assert broker.end(Producer(99, 0)).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.end(Producer(100, 1)).error == FENCED
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
    assert broker.end(producer, not commit).error == WRONG_STATE
    broker.ends.write()
    assert again.producer == producer
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


def bumped(broker: TransactionHarness, commit: bool = True) -> tuple[Producer, Producer]:
    """Return the producer of a transaction that has ended, and its next identity."""
    producer = broker.init().producer
    assert broker.add(producer, A, version=2).error == NONE
    after = broker.end(producer, commit, bumps=True).producer
    broker.ends.write()
    return producer, after


def test_an_end_bumps_the_epoch(broker: TransactionHarness) -> None:
    producer, after = bumped(broker)
    assert after == Producer(100, 1)
    (ending,) = broker.ends.endings
    assert ending.end == (ID, 100, 1, True, 0, (A,), 2)
    assert broker.value().state is State.COMPLETE_COMMIT
    assert broker.add(producer, version=2, by_leader=True).error == FENCED
    assert broker.add(after, version=2).error == NONE
    assert broker.end(after, bumps=True).producer == Producer(100, 2)


@pytest.mark.parametrize("commit", [True, False])
def test_a_lost_answer_is_given_again(broker: TransactionHarness, commit: bool) -> None:
    producer = broker.init().producer
    broker.add(producer, version=2)
    broker.end(producer, commit, bumps=True)
    again = broker.end(producer, commit, bumps=True)
    assert not again.answered
    assert broker.end(producer, not commit, bumps=True).error == WRONG_STATE
    broker.ends.write()
    assert again.producer == Producer(100, 1)
    assert broker.end(producer, commit, bumps=True).producer == Producer(100, 1)
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
    assert first.producer == again.producer == Producer(100, 1)


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
    assert broker.end(producer, bumps=True).error == FENCED
    broker.ends.write()
    assert broker.end(producer, bumps=True).error == FENCED


def test_an_epoch_ends_nothing_before_its_transaction(broker: TransactionHarness) -> None:
    producer = broker.init().producer
    broker.add(producer, version=2)
    after = broker.end(producer, bumps=True).producer
    assert broker.end(after, bumps=True).error == FENCED


@pytest.mark.parametrize("is_empty", [True, False])
def test_an_abort_without_a_transaction_bumps_the_epoch(broker: TransactionHarness, is_empty: bool) -> None:
    producer = broker.init().producer if is_empty else bumped(broker)[1]
    assert broker.end(producer, bumps=True).error == WRONG_STATE
    endings = len(broker.ends.endings)
    after = broker.end(producer, False, bumps=True).producer
    assert after == Producer(100, producer.producer_epoch + 1)
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
    assert first.producer == Producer(101, 0)
    assert broker.ends.endings[0].end[1:3] == (100, LAST_EPOCH + 1)
    broker.ends.write()
    assert again.producer == broker.end(last, bumps=True).producer == Producer(101, 0)
    assert broker.end(last, False, bumps=True).error == WRONG_STATE
    assert broker.value().previous_id == 100
    assert broker.add(Producer(101, 0), version=2).error == NONE
    assert broker.end(last, bumps=True).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_no_producer_id_for_the_next_transaction_means_try_again(broker: TransactionHarness) -> None:
    broker.init()
    broker.transaction().value = broker.value()._replace(producer_epoch=LAST_EPOCH - 1)
    last = broker.init().producer
    broker.add(last, version=2)
    broker.ids.is_dry = True
    assert broker.end(last, bumps=True).error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.value().state is State.ONGOING


# --- the log refuses, or does not answer ---


def every_request(broker: TransactionHarness, producer: Producer) -> list[Asked]:
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
    assert abort.error == WRONG_STATE
    broker.ends.write()
    broker.commit()
    assert again.error == NONE
    states = [value.state for value in broker.logged() if value is not None]
    assert states.count(State.PREPARE_COMMIT) == 1


def test_a_client_gives_up_while_the_fate_of_a_record_is_unknown() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.advance_ms(5_000)
    assert init.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    waiting = every_request(broker, Producer(100, 0))
    broker.advance_ms(PATIENCE_MS)
    assert waiting[0].error == CONCURRENT
    assert broker.transaction().pending is State.EMPTY
    broker.commit()
    broker.advance_ms(100)
    assert broker.value().producer_epoch == 0
    assert broker.transaction().pending is None
