"""Transactional ids that were not used for long are deleted."""

from __future__ import annotations

from purgatorio.broker.txn.expiry import TOMBSTONES_PER_STEP
from purgatorio.broker.txn.producers import Producer
from purgatorio.protocol.errors import ErrorCode
from tests.broker.txn.harness import ID, PARTITION, A, TransactionHarness, state_topic

DAY_MS = 24 * 60 * 60_000
EXPIRY_MS = 7 * DAY_MS


def expire(broker: TransactionHarness) -> int:
    """Take the steps of one scan; returns their number."""
    return sum(1 for _ in broker.transactions.expiry_steps())


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
    assert broker.transactions.expiration_count == 1
    assert broker.add(producer).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.init(producer).producer == Producer(101, 0)


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
    assert broker.transactions.expiration_count == 0


def test_an_id_whose_next_transaction_begins_during_the_scan_does_not_expire() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    inits = [broker.init(transactional_id=f"{nth}") for nth in range(TOMBSTONES_PER_STEP + 1)]
    broker.commit()
    broker.advance_ms(EXPIRY_MS)
    steps = broker.transactions.expiry_steps()
    next(steps)
    added = broker.add(inits[-1].producer, transactional_id=f"{TOMBSTONES_PER_STEP}")
    sum(1 for _ in steps)
    broker.commit()
    assert added.error == ErrorCode.NONE
    assert ids(broker) == [f"{TOMBSTONES_PER_STEP}"]


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
    assert again.producer == Producer(101, 0)


def test_tombstones_are_written_in_batches_that_the_topic_takes() -> None:
    """KAFKA-13099."""
    broker = TransactionHarness()
    for nth in range(20):
        broker.init(transactional_id=f"{nth:02}" + "x" * 200)
    broker.set_topics(state_topic(max_message_bytes="1000"))
    broker.advance_ms(EXPIRY_MS)
    before = broker.partition(PARTITION).log.log_end_offset
    assert expire(broker) >= 7
    assert ids(broker) == []
    assert broker.partition(PARTITION).log.log_end_offset == before + 20


def test_an_id_that_is_used_during_the_scan_lives_on() -> None:
    broker = TransactionHarness()
    for nth in range(300):
        broker.init(transactional_id=f"{nth}")
    broker.advance_ms(EXPIRY_MS)
    steps = broker.transactions.expiry_steps()
    next(steps)
    used = broker.init(transactional_id="299")
    sum(1 for _ in steps)
    assert ids(broker) == ["299"]
    assert broker.add(used.producer, A, transactional_id="299").error == ErrorCode.NONE
