"""Fetch requests that wait: every condition that ends the wait, and the deadline."""

from __future__ import annotations

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.errors import ErrorCode
from tests.broker.replica.harness import ORDERS, Harness, batch, topic

NOWHERE = TopicPartition("nowhere", 0)
OTHER = TopicPartition("other", 0)


def committed(broker: Harness, count: int = 1) -> None:
    """Produce this many records and let both followers acknowledge them."""
    for _ in range(count):
        broker.produce(acks=1)
    end = broker.partition().log.log_end_offset
    broker.fetch((ORDERS, end), replica_id=2, max_wait_ms=0)
    broker.fetch((ORDERS, end), replica_id=3, max_wait_ms=0)


def test_a_fetch_at_the_end_waits_for_the_high_watermark_not_for_the_append(broker: Harness) -> None:
    fetched = broker.fetch((ORDERS, 0))
    broker.produce(acks=1)
    assert not fetched.answered, "nothing is committed yet"
    broker.follow((2, 1), (3, 1))
    assert fetched.data.high_watermark == 1
    assert fetched.size_bytes > 0


def test_enough_bytes_are_answered_at_once(broker: Harness) -> None:
    committed(broker)
    assert broker.fetch((ORDERS, 0)).size_bytes > 0


def test_a_follower_reads_up_to_the_log_end(broker: Harness) -> None:
    fetched = broker.fetch((ORDERS, 0), replica_id=2)
    broker.produce(acks=1)
    assert fetched.size_bytes > 0


def test_it_waits_for_min_bytes_over_all_partitions(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1), topic("other", isr=(1,)))
    size_bytes = len(batch(b"value"))
    fetched = broker.fetch((ORDERS, 0), (OTHER, 0), min_bytes=2 * size_bytes)
    broker.produce(acks=1)
    assert not fetched.answered
    broker.produce(OTHER, acks=1)
    assert fetched.size_bytes == 2 * size_bytes


def test_a_partition_counts_for_at_most_its_own_limit(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1))
    size_bytes = len(batch(b"value"))
    fetched = broker.fetch((ORDERS, 0), min_bytes=size_bytes + 1, partition_max_bytes=size_bytes)
    for _ in range(5):
        broker.produce(acks=1)
    assert not fetched.answered
    broker.advance_ms(501)
    assert fetched.size_bytes == size_bytes


def test_a_fetch_without_wait_is_answered_at_once(broker: Harness) -> None:
    assert broker.fetch((ORDERS, 0), max_wait_ms=0).size_bytes == 0


def test_a_fetch_without_partitions_is_answered_at_once(broker: Harness) -> None:
    assert broker.fetch().partitions == []


@pytest.mark.parametrize("rack_id", ["", "east"])  # the reader goes two ways
def test_a_partition_that_does_not_exist_does_not_end_the_wait_of_others(broker: Harness, rack_id: str) -> None:
    fetched = broker.fetch((NOWHERE, 0), (ORDERS, 0), rack_id=rack_id)
    last = broker.fetch((ORDERS, 0), (NOWHERE, 0), rack_id=rack_id)
    assert not fetched.answered
    assert not last.answered
    broker.advance_ms(501)
    for each, codes in ((fetched, [3, 0]), (last, [0, 3])):
        assert [data.error_code for data in each.partitions] == codes


def test_records_end_a_wait_in_which_a_partition_does_not_exist(broker: Harness) -> None:
    fetched = broker.fetch((NOWHERE, 0), (ORDERS, 0))
    committed(broker)
    assert [data.error_code for data in fetched.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    assert fetched.partitions[1].records
    assert broker.fetch((NOWHERE, 0), (ORDERS, 0)).answered, "there is enough to read"


def test_a_fetch_of_partitions_that_do_not_exist_is_answered_at_once(broker: Harness) -> None:
    assert broker.fetch((NOWHERE, 0)).data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.fetch((NOWHERE, 0), (OTHER, 0)).answered
    assert broker.fetch((NOWHERE, 0), (ORDERS, 7)).answered, "another error does not wait"


def test_a_partition_that_comes_to_be_is_read_in_the_same_wait_and_its_end_is_told(broker: Harness) -> None:
    read, told = broker.fetch((OTHER, 0), (ORDERS, 0)), broker.fetch((OTHER, 0), (ORDERS, 0), min_bytes=1000)
    broker.set_topics(topic(), topic("other", isr=(1,)))
    assert not read.answered
    broker.produce(OTHER, acks=1)
    assert read.partitions[0].records
    assert not told.answered
    broker.set_topics(topic())
    assert told.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_follower_hears_at_once_of_a_partition_that_does_not_exist(broker: Harness) -> None:
    """Its image may be older than the leader's."""
    assert broker.fetch((ORDERS, 0), (NOWHERE, 0), replica_id=2).answered


def test_at_the_deadline_it_answers_and_counts_expiries_of_followers_and_consumers_apart(broker: Harness) -> None:
    consumer = broker.fetch((ORDERS, 0), min_bytes=1000)
    follower = broker.fetch((ORDERS, 0), replica_id=2, min_bytes=1000)
    broker.produce(acks=1)
    broker.advance_ms(501)
    assert consumer.size_bytes == 0
    assert follower.size_bytes > 0
    assert broker.observed.named("fetch_expired") == [(False,), (True,)]


def test_every_partition_is_in_the_response_even_if_it_is_empty(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1), topic("other", isr=(1,)))
    fetched = broker.fetch((ORDERS, 0), (OTHER, 0))
    broker.produce(OTHER, acks=1)
    assert [len(data.records or []) for data in fetched.partitions] == [0, 1]


def test_a_no_longer_leader(broker: Harness) -> None:
    fetched = broker.fetch((ORDERS, 0))
    broker.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=1))
    assert fetched.data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched.data.current_leader.leader_id == 2


def test_b_c_replica_or_topic_removed(broker: Harness) -> None:
    broker.set_topics(topic(), topic("other"))
    moved, deleted = broker.fetch((ORDERS, 0)), broker.fetch((OTHER, 0))
    broker.set_topics(topic(leader=2, leader_epoch=1, replicas=(2, 3), partition_epoch=1))
    assert moved.data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert deleted.data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_e_fenced_by_a_newer_leader_epoch(broker: Harness) -> None:
    fetched = broker.fetch((ORDERS, 0), leader_epoch=0)
    broker.set_topics(topic(leader_epoch=1, partition_epoch=1))
    assert fetched.data.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_f_truncated_below_the_fetch_offset(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1))
    broker.produce(acks=1)
    broker.produce(acks=1)
    fetched = broker.fetch((ORDERS, 2))
    broker.partition().truncate_to(1)
    broker.fetch_purgatory.check_and_complete(ORDERS)
    assert fetched.data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_f_an_older_segment_is_answered_at_once(broker: Harness) -> None:
    one_batch = len(batch(b"x" * 200))
    broker.set_topics(topic(isr=(1,), partition_epoch=1, segment_bytes=str(one_batch)))
    fetched = broker.fetch((ORDERS, 0), min_bytes=10 * one_batch)
    broker.produce(acks=1, records=batch(b"x" * 200))
    assert not fetched.answered
    broker.produce(acks=1, records=batch(b"x" * 200))
    assert fetched.size_bytes == 2 * one_batch


def test_f_the_segment_of_the_high_watermark_counts_rather_than_that_of_the_log_end(
    broker: Harness,
) -> None:
    one_batch = len(batch(b"x" * 200))
    broker.set_topics(topic(partition_epoch=1, segment_bytes=str(2 * one_batch)))
    for _ in range(5):
        broker.produce(acks=1, records=batch(b"x" * 200))
    fetched = broker.fetch((ORDERS, 0), min_bytes=10 * one_batch)
    broker.follow((2, 1), (3, 1))
    assert not fetched.answered
    broker.advance_ms(501)
    assert fetched.size_bytes == one_batch


def test_g_offset_out_of_range_is_answered_at_once(broker: Harness) -> None:
    assert broker.fetch((ORDERS, 7)).data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_h_a_diverging_epoch_is_answered_at_once_and_acknowledges_nothing(broker: Harness) -> None:
    broker.produce(acks=1)
    broker.set_topics(topic(leader_epoch=5, partition_epoch=1))
    broker.produce(acks=1)
    fetched = broker.fetch((ORDERS, 2), replica_id=2, last_fetched_epoch=3, leader_epoch=5)
    assert (fetched.data.diverging_epoch.epoch, fetched.data.diverging_epoch.end_offset) == (0, 1)
    assert broker.partition().followers[2].log_end_offset == -1


def test_an_epoch_that_the_leader_does_not_know_is_out_of_range(broker: Harness) -> None:
    broker.produce(acks=1)
    fetched = broker.fetch((ORDERS, 1), last_fetched_epoch=7)
    assert fetched.data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_kafka_9939_a_followers_progress_is_recorded_once(broker: Harness) -> None:
    broker.fetch((ORDERS, 0), replica_id=2)
    at = broker.clock.now_ms()
    broker.advance_ms(100)
    broker.produce(acks=1)
    follower = broker.partition().followers[2]
    assert (follower.last_fetch_ms, follower.log_end_offset) == (at, 0)


def test_a_followers_fetch_is_answered_at_once_when_it_should_fetch_another_partition(broker: Harness) -> None:
    fetched = broker.fetch((ORDERS, 0), replica_id=2)
    bystander = broker.fetch((ORDERS, 0), replica_id=3)
    broker.set_topics(topic(), topic("other", replicas=(1, 2)))
    assert fetched.answered
    assert not bystander.answered


def test_a_follower_without_a_replica_is_refused(broker: Harness) -> None:
    assert broker.fetch((ORDERS, 0), replica_id=9).data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_only_the_first_batch_may_exceed_the_limits(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1), topic("other", isr=(1,)))
    broker.produce(acks=1)
    broker.produce(OTHER, acks=1)
    fetched = broker.fetch((ORDERS, 0), (OTHER, 0), max_bytes=10)
    assert [len(data.records or []) for data in fetched.partitions] == [1, 0]


def test_shutdown_answers_parked_fetches(broker: Harness) -> None:
    fetched = broker.fetch((ORDERS, 0))
    broker.fetch_purgatory.shutdown()
    assert fetched.size_bytes == 0
    assert broker.fetch_purgatory.num_delayed == 0


def test_kafka_14334_an_advance_of_a_followers_high_watermark_completes_fetches_from_it(broker: Harness) -> None:
    fetched = broker.fetch((ORDERS, 0))
    broker.produce(acks=1)
    broker.replicas.append_as_follower(broker.partition(), b"", 1, 0)
    assert fetched.size_bytes > 0


def test_the_missing_condition_names_bytes_and_offsets(broker: Harness) -> None:
    broker.fetch((ORDERS, 0), min_bytes=10)
    (operation,) = broker.fetch_purgatory.operations(10)
    assert in_words(operation.causes) == "consumer has 0 of 10 bytes: orders-0 from 0"
