"""Requests to delete records that wait: every condition that ends the wait, and the deadline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.delayed_delete_records import DeleteRecordsResult
from purgatorio.broker.replica.partition import Partition
from purgatorio.protocol.errors import ErrorCode
from tests.broker.replica.harness import ORDERS, Harness, topic
from tests.error_log import ErrorLog


@dataclass
class Deletion:
    """A request to delete records, and its results after it was answered."""

    told: list[Sequence[DeleteRecordsResult]] = field(default_factory=list)

    @property
    def answers(self) -> int:
        return len(self.told)

    @property
    def outcome(self) -> list[tuple[int, int]]:
        (results,) = self.told
        return [(result.error_code, result.low_watermark) for result in results]


def delete(broker: Harness, *wanted: tuple[TopicPartition, int]) -> Deletion:
    deletion = Deletion()
    broker.replicas.delete_records(wanted, timeout_ms=1000, done=deletion.told.append)
    return deletion


def filled(broker: Harness) -> None:
    """Three records that all replicas have."""
    broker.set_topics(topic())
    for _ in range(3):
        broker.produce(acks=1)
    broker.follow((2, 3), (3, 3))


def test_it_waits_until_every_in_sync_replica_has_deleted(broker: Harness) -> None:
    filled(broker)
    deletion = delete(broker, (ORDERS, 2))
    assert broker.partition().log.log_start_offset == 2
    assert deletion.answers == 0
    broker.follow((2, 3), log_start_offset=2)
    assert deletion.answers == 0
    broker.follow((3, 3), log_start_offset=2)
    assert deletion.outcome == [(ErrorCode.NONE, 2)]


def missing(broker: Harness) -> str:
    (parked,) = broker.delete_records_purgatory.operations(10)
    return in_words(parked.causes)


def test_the_missing_condition_names_brokers_and_their_log_start_offsets(broker: Harness) -> None:
    filled(broker)
    delete(broker, (ORDERS, 2))
    assert missing(broker) == "orders-0: broker 2 starts at 0 of 2, broker 3 starts at 0 of 2"
    broker.follow((2, 3), log_start_offset=2)
    assert missing(broker) == "orders-0: broker 3 starts at 0 of 2"


def test_the_missing_condition_names_followers_that_have_not_fetched_in_this_leader_epoch(broker: Harness) -> None:
    filled(broker)
    broker.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=1))
    broker.set_topics(topic(leader=1, leader_epoch=2, partition_epoch=2))
    delete(broker, (ORDERS, 2))
    broker.follow((3, 3), log_start_offset=2)
    assert missing(broker) == "orders-0: broker 2 has not fetched yet"


def test_it_waits_for_a_follower_that_is_proposed_for_the_isr(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1, 2), partition_epoch=1))
    for _ in range(3):
        broker.produce(acks=1)
    broker.follow((2, 3), (3, 3))
    deletion = delete(broker, (ORDERS, 2))
    broker.follow((2, 3), log_start_offset=2)
    assert missing(broker) == "orders-0: broker 3 starts at 0 of 2"
    broker.follow((3, 3), log_start_offset=2)
    assert deletion.outcome == [(ErrorCode.NONE, 2)]


def test_a_leader_without_followers_in_sync_answers_at_once(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1))
    broker.produce(acks=1)
    assert delete(broker, (ORDERS, -1)).outcome == [(ErrorCode.NONE, 1)]


def test_it_no_longer_waits_for_a_follower_that_leaves_the_isr(broker: Harness) -> None:
    filled(broker)
    deletion = delete(broker, (ORDERS, 2))
    broker.follow((2, 3), log_start_offset=2)
    broker.set_topics(topic(isr=(1, 2), partition_epoch=1))
    assert deletion.outcome == [(ErrorCode.NONE, 2)]


def test_each_partition_has_its_own_result(broker: Harness) -> None:
    other = TopicPartition("orders", 1)
    broker.set_topics(topic(partitions=2, partition_epoch=1))
    broker.produce(ORDERS, other, acks=1)
    for tp in (ORDERS, other):
        broker.follow((2, 1), (3, 1), tp=tp)
    deletion = delete(broker, (ORDERS, 1), (other, 1))
    broker.follow((2, 1), (3, 1), log_start_offset=1)
    assert missing(broker) == "orders-1: broker 2 starts at 0 of 1, broker 3 starts at 0 of 1"
    broker.advance_ms(1001)
    assert deletion.outcome == [(ErrorCode.NONE, 1), (ErrorCode.REQUEST_TIMED_OUT, -1)]


def test_a_followers_parked_fetch_is_answered_with_the_new_log_start_offset(broker: Harness) -> None:
    filled(broker)
    (parked,) = broker.follow((2, 3))
    assert not parked.answered
    delete(broker, (ORDERS, 2))
    assert parked.data.log_start_offset == 2


def test_an_impossible_deletion_is_answered_at_once(broker: Harness) -> None:
    filled(broker)
    deletion = delete(broker, (TopicPartition("nowhere", 0), 1), (ORDERS, 9))
    assert deletion.outcome == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1), (ErrorCode.OFFSET_OUT_OF_RANGE, -1)]


def test_it_times_out_if_a_follower_does_not_delete(broker: Harness) -> None:
    filled(broker)
    deletion = delete(broker, (ORDERS, 2))
    broker.advance_ms(1001)
    assert deletion.outcome == [(ErrorCode.REQUEST_TIMED_OUT, -1)]


def test_losing_leadership_or_the_topic_ends_the_wait(broker: Harness) -> None:
    filled(broker)
    deletion = delete(broker, (ORDERS, 2))
    broker.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=1))
    assert deletion.outcome == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    broker.set_topics(topic(leader=1, leader_epoch=2, partition_epoch=2))
    deletion = delete(broker, (ORDERS, -1))
    broker.set_topics()
    assert deletion.outcome == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


def test_shutdown_answers_with_a_retriable_error(broker: Harness) -> None:
    filled(broker)
    deletion = delete(broker, (ORDERS, 2))
    broker.delete_records_purgatory.shutdown()
    assert deletion.outcome == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_a_new_topic_of_the_same_name_does_not_complete_the_old_ones_deletion(broker: Harness) -> None:
    filled(broker)
    deletion = delete(broker, (ORDERS, 2))
    broker.set_topics(topic(topic_id=b"another".ljust(16)))
    assert deletion.outcome == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


def test_an_expired_deletion_reports_the_followers_that_it_waited_for(broker: Harness) -> None:
    filled(broker)
    delete(broker, (ORDERS, 2))
    broker.follow((2, 3), log_start_offset=2)
    broker.advance_ms(60_000)
    (deleted,) = (each for each in broker.finished if each.purgatory == "DeleteRecords")
    assert (deleted.outcome, deleted.held_by) == ("expired", (3,))


def test_an_unexpected_error_is_answered_with_unknown_server_error(
    broker: Harness, monkeypatch: pytest.MonkeyPatch, error_log: ErrorLog
) -> None:
    def fail(partition: Partition) -> int:
        raise RuntimeError(str(partition.tp))

    filled(broker)
    deletion = delete(broker, (ORDERS, 2))
    monkeypatch.setattr(Partition, "low_watermark", property(fail))
    broker.follow((2, 3), log_start_offset=2)
    assert deletion.outcome == [(ErrorCode.UNKNOWN_SERVER_ERROR, -1)]
    error_log.expect("RuntimeError: orders-0")
    assert broker.delete_records_purgatory.num_delayed == 0


def test_a_withdrawn_proposal_completes_a_deletion(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1, 2), partition_epoch=1))
    for _ in range(3):
        broker.produce(acks=1)
    broker.follow((2, 3), (3, 3))
    ((partition, proposal),) = broker.proposals
    deletion = delete(broker, (ORDERS, 2))
    broker.follow((2, 3), log_start_offset=2)
    assert deletion.answers == 0, "broker 3 may be in sync already"
    broker.replicas.withdraw(partition, proposal)
    assert deletion.outcome == [(ErrorCode.NONE, 2)]
