"""A leader that throttles what followers read (KIP-73)."""

from __future__ import annotations

import pytest

from purgatorio.broker.causes.words import in_words
from tests.broker.replica.harness import ORDERS, Harness, batch, topic

LIST = "leader.replication.throttled.replicas"
RECORDS = batch(bytes(5_000))


@pytest.fixture
def leader() -> Harness:
    """Broker 1, which leads orders-0 at 1 kB/s; broker 3 is not in sync."""
    harness = Harness()
    harness.set_topics(topic(isr=(1, 2), **{LIST: "0:1"}))
    harness.replicas.leader_throttle.limit = 1_000
    harness.produce(acks=1, records=RECORDS)
    harness.produce(acks=1, records=RECORDS)
    return harness


def test_a_follower_that_lags_gets_no_records_while_the_rate_is_exceeded(leader: Harness) -> None:
    """The first answer passes whatever its size, and is counted."""
    first = leader.fetch((ORDERS, 0), replica_id=3, max_bytes=100)
    assert first.size_bytes == len(RECORDS)
    waiting = leader.fetch((ORDERS, 1), replica_id=3)
    assert not waiting.answered
    leader.produce(acks=1)
    assert not waiting.answered, "an append does not end the wait"
    (parked,) = leader.fetch_purgatory.operations(limit=2)
    told = f"waits, out of sync: replication of {len(RECORDS) / 1_000:.3g} kB/s of 1 kB/s"
    assert told in in_words(parked.causes)
    leader.advance_ms(500)
    assert waiting.size_bytes == 0, "its time is over"
    assert waiting.data.high_watermark == 0
    leader.advance_ms(len(RECORDS))
    assert leader.fetch((ORDERS, 1), replica_id=3).size_bytes > 0, "the rate has fallen"


def test_the_read_at_the_end_of_the_wait_asks_the_rate_again(leader: Harness) -> None:
    """Nothing wakes the fetch when the rate falls; it is answered at its deadline."""
    leader.fetch((ORDERS, 0), replica_id=3, max_bytes=100)
    leader.advance_ms(len(RECORDS) - 100)
    waiting = leader.fetch((ORDERS, 1), replica_id=3)
    assert not waiting.answered
    leader.advance_ms(500)
    assert waiting.size_bytes == len(RECORDS)


@pytest.mark.parametrize("listed", ["0:2", "1:1", ""])
def test_replicas_that_are_not_listed_pass(leader: Harness, listed: str) -> None:
    leader.set_topics(topic(isr=(1, 2), partition_epoch=1, **{LIST: listed}))
    leader.fetch((ORDERS, 0), replica_id=3, max_bytes=100)
    assert leader.fetch((ORDERS, 1), replica_id=3).size_bytes > 0
    assert leader.replicas.leader_throttle.per_second() == 0


def test_followers_in_sync_pass_and_count(leader: Harness) -> None:
    """KAFKA-4313, KAFKA-6937."""
    leader.fetch((ORDERS, 0), replica_id=2, max_bytes=100)
    assert leader.fetch((ORDERS, 1), replica_id=2).size_bytes > 0
    assert not leader.fetch((ORDERS, 0), replica_id=3).answered


def test_consumers_pass(leader: Harness) -> None:
    """KAFKA-13614."""
    leader.follow((2, 2))
    leader.fetch((ORDERS, 0), replica_id=3)
    assert leader.fetch((ORDERS, 0)).size_bytes > 0
    assert leader.fetch((ORDERS, 1)).size_bytes > 0


def test_what_must_be_told_at_once_is_told_to_a_throttled_follower(leader: Harness) -> None:
    """An error is; so is a log start that moved."""
    leader.fetch((ORDERS, 0), replica_id=3, max_bytes=100)
    assert leader.fetch((ORDERS, 9), replica_id=3).data.error_code != 0


def test_without_a_rate_nothing_is_withheld_or_measured(leader: Harness) -> None:
    leader.replicas.leader_throttle.limit = None
    leader.fetch((ORDERS, 0), replica_id=3, max_bytes=100)
    assert leader.fetch((ORDERS, 1), replica_id=3).size_bytes > 0
    assert leader.replicas.leader_throttle.per_second() == 0
