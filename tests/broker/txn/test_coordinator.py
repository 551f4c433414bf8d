"""Transactional ids survive their coordinator: they are loaded from the log, dropped with leadership, and expire."""

from __future__ import annotations

import pytest

from purgatorio.broker.coordinator.coordinator_log import NewRecord
from purgatorio.broker.time.long_work import take_slice
from purgatorio.broker.txn.coordinator import MAX_TOMBSTONES, TOMBSTONE_COST
from purgatorio.broker.txn.producers import ProducerIdAndEpoch
from purgatorio.broker.txn.values import encode_record
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState as State
from purgatorio.protocol.transaction_state import encode_key
from tests.broker.time.by_hand import turns_of
from tests.broker.txn.harness import ID, PARTITION, TIMEOUT_MS, A, B, C, TransactionHarness, state_topic

NONE = ErrorCode.NONE


@pytest.fixture
def broker() -> TransactionHarness:
    return TransactionHarness(replicas=(1,))


def started(broker: TransactionHarness, *, version: int = 1) -> ProducerIdAndEpoch:
    """Return a producer with an open transaction on A and B."""
    producer = broker.init().producer
    assert broker.add(producer, A, B, version=version).error == NONE
    return producer


# --- loading ---


def test_a_new_coordinator_knows_what_the_old_one_did(broker: TransactionHarness) -> None:
    producer = started(broker)
    before = broker.value()
    broker.move(2)
    assert broker.value() == before
    ended = broker.end(producer)
    broker.commit()
    assert ended.error == NONE


def test_requests_are_refused_while_the_log_is_loaded(broker: TransactionHarness) -> None:
    producer = started(broker)
    broker.elect(2, 1, (1, 2))
    assert broker.add(producer).error == ErrorCode.NOT_COORDINATOR
    broker.elect(1, 2, (1, 2))
    assert broker.add(producer).error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.work()
    assert broker.add(producer).error == NONE


def test_requests_are_refused_until_what_was_loaded_is_committed() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.elect(2, 1, (1, 2))
    broker.elect(1, 2, (1, 2))
    broker.work()
    assert broker.init().error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "what was loaded could be lost"
    broker.commit()
    broker.work()
    asked = broker.init()
    broker.commit()
    assert init.error == ErrorCode.NOT_COORDINATOR
    assert asked.producer == ProducerIdAndEpoch(100, 1)


def test_no_coordinator_without_the_topic(broker: TransactionHarness) -> None:
    broker.set_topics()
    assert broker.init().error == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_an_open_transaction_keeps_its_deadline(broker: TransactionHarness) -> None:
    started(broker)
    broker.advance_ms(TIMEOUT_MS - 1_000)
    broker.move(2)
    broker.advance_ms(999)
    assert broker.transaction().pending is None
    broker.advance_ms(1)
    broker.commit()
    assert broker.value().state is State.PREPARE_ABORT
    assert broker.ends.endings[-1].end.coordinator_epoch == 2


def test_a_deadline_that_has_passed_meanwhile_aborts_at_once(broker: TransactionHarness) -> None:
    started(broker)
    broker.elect(2, 1, (1, 2))
    broker.work()
    assert broker.timeouts.num_delayed == 0
    broker.advance_ms(2 * TIMEOUT_MS)
    broker.move(3)
    broker.commit()
    assert broker.value().state is State.PREPARE_ABORT


@pytest.mark.parametrize(
    ("commit", "decided", "complete"),
    [(True, State.PREPARE_COMMIT, State.COMPLETE_COMMIT), (False, State.PREPARE_ABORT, State.COMPLETE_ABORT)],
)
def test_all_markers_of_a_decided_transaction_are_sent_again(
    broker: TransactionHarness, commit: bool, decided: State, complete: State
) -> None:
    producer = started(broker)
    broker.end(producer, commit)
    broker.ends.write(A)
    broker.move(2)
    assert broker.ends.dropped == [(ID, 0)]
    assert broker.ends.endings[-1].end == (ID, 100, 0, commit, 2, (A, B), 1)
    broker.ends.write(B, nth=0)
    broker.ends.write(A)
    assert broker.value().state is decided, "an old coordinator's markers count for nothing"
    broker.ends.write(B)
    broker.commit()
    assert broker.value().state is complete


def test_a_commit_over_three_partitions_is_loaded_with_all_of_them(broker: TransactionHarness) -> None:
    producer = started(broker)
    broker.add(producer, C)
    broker.end(producer)
    broker.move(2)
    assert broker.ends.endings[-1].end.partitions == (A, B, C)
    for tp in (B, C):
        broker.ends.write(tp)
    assert broker.value().state is State.PREPARE_COMMIT
    broker.ends.write(A)
    broker.commit()
    assert broker.value().state is State.COMPLETE_COMMIT


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("bumps", [True, False])
def test_a_complete_transaction_is_loaded_with_its_result(
    broker: TransactionHarness, commit: bool, bumps: bool
) -> None:
    """Its producer that asks again gets the result that the first coordinator decided, and no other."""
    producer = started(broker, version=2 if bumps else 1)
    after = broker.end(producer, commit, bumps=bumps).producer
    broker.ends.write()
    broker.move(2)
    assert broker.value().is_commit == commit
    assert broker.end(producer, commit, bumps=bumps).producer == after
    assert broker.end(producer, not commit, bumps=bumps).error == ErrorCode.INVALID_TXN_STATE
    completion = broker.transactions.completion
    assert (completion.committed_count, completion.aborted_count) == (commit, not commit)


def test_markers_that_are_written_at_once_complete_a_transaction_while_it_is_loaded(
    broker: TransactionHarness,
) -> None:
    producer = started(broker)
    broker.end(producer)
    broker.ends.is_instant = True
    broker.move(2)
    broker.commit()
    assert broker.value().state is State.COMPLETE_COMMIT


@pytest.mark.parametrize("commit", [True, False])
def test_a_producer_that_lost_an_answer_gets_it_from_the_next_coordinator(
    broker: TransactionHarness, commit: bool
) -> None:
    """KAFKA-20357: Kafka's next coordinator does not know the epoch before, and fences the producer."""
    producer = started(broker, version=2)
    assert broker.end(producer, commit, bumps=True).producer == ProducerIdAndEpoch(100, 1)
    broker.ends.write()
    broker.move(2)
    assert broker.end(producer, commit, bumps=True).producer == ProducerIdAndEpoch(100, 1)
    asked = broker.init(producer)
    broker.commit()
    assert asked.producer == ProducerIdAndEpoch(100, 1)


def test_the_producer_id_that_follows_the_last_epoch_is_loaded(broker: TransactionHarness) -> None:
    broker.init()
    broker.transaction().value = broker.value()._replace(producer_epoch=32_765)
    last = broker.init().producer
    broker.add(last, version=2)
    assert broker.end(last, bumps=True).producer == ProducerIdAndEpoch(101, 0)
    broker.move(2)
    broker.ends.write()
    broker.commit()
    assert broker.end(last, bumps=True).producer == ProducerIdAndEpoch(101, 0)
    broker.move(4)
    assert broker.end(last, bumps=True).producer == ProducerIdAndEpoch(101, 0)
    asked = broker.init(last)
    broker.commit()
    assert asked.producer == ProducerIdAndEpoch(101, 0)


def test_the_same_epoch_again_reloads_nothing(broker: TransactionHarness) -> None:
    """KAFKA-15468."""
    started(broker)
    before = broker.transaction()
    broker.set_topics(state_topic((1,)))
    broker.work()
    assert broker.transaction() is before


def test_records_that_cannot_be_read_are_skipped(broker: TransactionHarness) -> None:
    """KAFKA-9065, KAFKA-9307: loading must not stop half-way. Records of unknown types are skipped too (KIP-915)."""
    producer = started(broker)
    known = encode_record("other", broker.value())
    assert known.value is not None
    bad = [
        NewRecord(b"\x00\x07?", b"?"),
        NewRecord(b"\x00", b"?"),
        NewRecord(known.key, b"\x00\x09"),
        NewRecord(encode_record("third", broker.value()).key, known.value[:9]),
    ]
    broker.log.append(PARTITION, bad, lambda _: None)
    broker.log.append(PARTITION, [known, NewRecord(encode_key("other"), None)], lambda _: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("purgatorio.broker.coordinator.shards.logger", _Silent())
        broker.move(2)
    (shard,) = broker.transactions.coordinator.shards
    assert list(shard.transactions) == [ID]
    assert broker.add(producer, A).error == NONE


class _Silent:
    def warning(self, event: str, **fields: object) -> None:
        self.event = event

    info = warning


def test_many_ids_are_loaded_in_steps(broker: TransactionHarness) -> None:
    for nth in range(300):
        started_id = f"id-{nth}"
        producer = broker.init(transactional_id=started_id).producer
        broker.add(producer, transactional_id=started_id)
    broker.elect(2, 1, (1, 2))
    assert broker.work() >= 6
    broker.elect(1, 2, (1, 2))
    assert broker.work() >= 12, "its records, and then its timers"
    assert broker.timeouts.num_delayed == 300


# --- resigning ---


def test_what_waits_is_refused_when_the_leadership_is_lost() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    added = broker.add(init.producer)
    parked = broker.end(init.producer)
    broker.elect(2, 1, (1, 2))
    broker.work()
    assert added.error == parked.error == ErrorCode.NOT_COORDINATOR
    assert broker.purgatory.num_delayed == broker.timeouts.num_delayed == 0


def test_a_record_of_a_former_coordinator_has_no_effect_on_the_next_one() -> None:
    """The broker is elected again before the record is committed: the answer is NOT_COORDINATOR, the log decides."""
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    added = broker.add(init.producer)
    broker.elect(2, 1, (1, 2))
    broker.elect(1, 2, (1, 2))
    broker.work()
    broker.commit()
    broker.work()
    assert added.error == ErrorCode.NOT_COORDINATOR
    assert broker.value().state is State.ONGOING
    assert broker.transaction().pending is None


def test_a_record_that_is_committed_under_the_next_epoch_is_left_to_the_next_coordinator() -> None:
    """The same broker is elected again at once, so that its append does not fail; the old shard sends no markers."""
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    broker.add(init.producer)
    broker.commit()
    ended = broker.end(init.producer)
    broker.elect(1, 1, (1, 2))
    broker.work()
    broker.commit()
    broker.work()
    assert ended.error == ErrorCode.NOT_COORDINATOR
    assert [each.end.coordinator_epoch for each in broker.ends.endings] == [1]
    assert broker.value().state is State.PREPARE_COMMIT


def test_a_deleted_topic_drops_its_ids(broker: TransactionHarness) -> None:
    """KAFKA-9235."""
    started(broker)
    broker.set_topics()
    broker.work()
    assert list(broker.transactions.coordinator.shards) == []
    assert broker.timeouts.num_delayed == 0


def test_a_broker_that_stops_aborts_nothing(broker: TransactionHarness) -> None:
    producer = started(broker)
    broker.timeouts.shutdown()
    assert broker.add(producer, A).error == NONE
    broker.advance_ms(1_000)
    assert broker.value().state is State.ONGOING
    assert broker.transaction().pending is None


def test_requests_that_wait_are_refused_when_the_broker_stops(broker: TransactionHarness) -> None:
    producer = started(broker)
    broker.end(producer)
    asked = broker.add(producer)
    broker.purgatory.shutdown()
    assert asked.error == ErrorCode.NOT_COORDINATOR


DAY_MS = 24 * 60 * 60_000
EXPIRY_MS = 7 * DAY_MS


def expire(broker: TransactionHarness) -> int:
    """Take the steps of one scan; returns the number of turns."""
    return turns_of(broker.transactions.coordinator.expiry_steps())


def ids(broker: TransactionHarness) -> list[str]:
    (shard,) = broker.transactions.coordinator.shards
    return list(shard.transactions)


def test_an_id_expires_when_it_was_not_used_for_long() -> None:
    broker = TransactionHarness()
    producer = broker.init().producer
    broker.advance_ms(EXPIRY_MS - 1)
    expire(broker)
    assert ids(broker) == [ID]
    broker.advance_ms(1)
    expire(broker)
    assert ids(broker) == []
    assert broker.logged()[-1] is None
    assert broker.transactions.coordinator.expiration_count == 1
    assert broker.add(producer).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.init(producer).producer == ProducerIdAndEpoch(101, 0)


def test_a_complete_transaction_expires_and_an_open_or_decided_one_does_not() -> None:
    broker = TransactionHarness(max_timeout_ms=2 * EXPIRY_MS)
    for transactional_id in ("complete", "open", "decided"):
        producer = broker.init(transactional_id=transactional_id, timeout_ms=2 * EXPIRY_MS).producer
        broker.add(producer, transactional_id=transactional_id)
        if transactional_id != "open":
            broker.end(producer, transactional_id=transactional_id)
        if transactional_id == "complete":
            broker.ends.write()
    broker.advance_ms(EXPIRY_MS)
    expire(broker)
    assert ids(broker) == ["open", "decided"]


def test_an_id_whose_tombstone_is_refused_lives_on() -> None:
    """KAFKA-7519."""
    broker = TransactionHarness()
    producer = broker.init().producer
    broker.advance_ms(EXPIRY_MS)
    broker.may_lead = False
    expire(broker)
    broker.may_lead = True
    assert broker.add(producer).error == ErrorCode.NONE


def test_an_id_whose_next_transaction_waits_for_the_replicas_does_not_expire() -> None:
    """Its committed value is as old as those that expire; the record on its way is not."""
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    broker.advance_ms(EXPIRY_MS)
    added = broker.add(init.producer)
    expire(broker)
    broker.commit()
    assert added.error == ErrorCode.NONE
    assert ids(broker) == [ID]
    assert None not in broker.logged()
    assert broker.transactions.coordinator.expiration_count == 0


def test_an_id_whose_next_transaction_begins_during_the_scan_does_not_expire() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    inits = [broker.init(transactional_id=f"{nth}") for nth in range(MAX_TOMBSTONES + 1)]
    broker.commit()
    broker.advance_ms(EXPIRY_MS)
    steps = broker.transactions.coordinator.expiry_steps()
    take_slice(steps)
    added = broker.add(inits[-1].producer, transactional_id=f"{MAX_TOMBSTONES}")
    sum(1 for _ in steps)
    broker.commit()
    assert added.error == ErrorCode.NONE
    assert ids(broker) == [f"{MAX_TOMBSTONES}"]


def test_a_request_waits_while_its_id_is_deleted_and_is_told_that_it_is_unknown() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    init = broker.init()
    broker.commit()
    broker.advance_ms(EXPIRY_MS)
    expire(broker)
    added, again = broker.add(init.producer), broker.init()
    broker.commit()
    assert added.error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    broker.commit()
    assert again.producer == ProducerIdAndEpoch(101, 0)


def test_tombstones_are_written_in_batches_that_the_topic_takes() -> None:
    """KAFKA-13099."""
    broker = TransactionHarness()
    for nth in range(20):
        broker.init(transactional_id=f"{nth:02}" + "x" * 200)
    broker.set_topics(state_topic(max_message_bytes="1000"))
    broker.advance_ms(EXPIRY_MS)
    before = broker.partition(PARTITION).log.log_end_offset
    batches = [cost for cost in broker.transactions.coordinator.expiry_steps() if cost >= TOMBSTONE_COST]
    assert len(batches) >= 6, "and another at the end"
    assert ids(broker) == []
    assert broker.partition(PARTITION).log.log_end_offset == before + 20


def test_an_id_that_is_used_during_the_scan_lives_on() -> None:
    broker = TransactionHarness()
    for nth in range(300):
        broker.init(transactional_id=f"{nth}")
    broker.advance_ms(EXPIRY_MS)
    steps = broker.transactions.coordinator.expiry_steps()
    take_slice(steps)
    used = broker.init(transactional_id="299")
    sum(1 for _ in steps)
    assert ids(broker) == ["299"]
    assert broker.add(used.producer, A, transactional_id="299").error == ErrorCode.NONE
