"""Produce requests with acks=-1: every condition that ends the wait, and the deadline."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import BrokerIncarnation
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.replica.harness import ORDERS, Harness, batch, topic
from tests.compiled import replaces_functions

OTHER = TopicPartition("other", 0)


def test_acks_all_waits_until_every_in_sync_replica_has_the_records(broker: Harness) -> None:
    produced = broker.produce()
    broker.follow((2, 1))
    assert not produced.answered
    broker.follow((3, 1))
    assert produced.error_codes == [ErrorCode.NONE]
    assert produced.results[0].base_offset == 0


def test_a_duplicate_is_acknowledged_with_its_first_append_though_later_records_wait(broker: Harness) -> None:
    def of_producer(sequence: int) -> bytes:
        return build_batch([Record(0, 1, None, b"x", ())], producer_id=7, producer_epoch=0, base_sequence=sequence)

    first, second = (broker.produce(records=of_producer(sequence)) for sequence in (0, 1))
    again = broker.produce(records=of_producer(0))
    broker.follow((2, 1), (3, 1))
    assert [each.answered for each in (first, second, again)] == [True, False, True]


@pytest.mark.parametrize("acks", [0, 1])
def test_other_acks_do_not_wait(broker: Harness, acks: int) -> None:
    assert broker.produce(acks=acks).error_codes == [ErrorCode.NONE]


def test_acks_all_is_answered_at_once_if_only_the_leader_is_in_sync(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1))
    assert broker.produce().error_codes == [ErrorCode.NONE]
    assert broker.produce_purgatory.num_delayed == 0


def test_the_missing_condition_names_followers_and_their_log_end_offsets(broker: Harness) -> None:
    broker.produce(records=batch(b"a", b"b"))
    broker.follow((2, 2), (3, 1))
    (operation,) = broker.produce_purgatory.operations(10)
    assert in_words(operation.causes) == "orders-0: broker 3 is at 1 of 2"


def test_the_deadline_answers_request_timed_out_and_counts_the_partition(broker: Harness) -> None:
    produced = broker.produce(timeout_ms=300)
    broker.advance_ms(299)
    assert not produced.answered
    broker.advance_ms(2)
    assert produced.error_codes == [ErrorCode.REQUEST_TIMED_OUT]
    assert broker.observed.named("produce_expired") == [(ORDERS,)]
    assert broker.partition().log.log_end_offset == 1, "the record stays: it may yet be replicated"


def test_a_completed_request_reports_the_follower_that_acknowledged_last(broker: Harness) -> None:
    broker.produce()
    broker.follow((3, 1), (2, 1))
    (produced,) = (each for each in broker.finished if each.purgatory == "Produce")
    assert (produced.client, produced.held_by, produced.event_key) == ("producer", (2,), ORDERS)


def test_an_expired_request_reports_the_followers_that_it_waited_for(broker: Harness) -> None:
    broker.produce(records=batch(b"a", b"b"), timeout_ms=300)
    broker.follow((2, 2), (3, 1))
    broker.advance_ms(301)
    (produced,) = (each for each in broker.finished if each.purgatory == "Produce")
    assert (produced.outcome, produced.held_by, produced.event_key) == ("expired", (3,), None)


def test_no_follower_is_reported_if_the_last_one_left_the_isr(broker: Harness) -> None:
    broker.produce()
    broker.follow((2, 1))
    broker.set_topics(topic(isr=(1, 2), partition_epoch=1))
    (produced,) = (each for each in broker.finished if each.purgatory == "Produce")
    assert (produced.outcome, produced.cause, produced.held_by) == ("completed", "partition state", ())


def test_a_timeout_names_only_the_partitions_that_are_late(broker: Harness) -> None:
    broker.set_topics(topic(), topic("other", isr=(1,)))
    produced = broker.produce(ORDERS, OTHER, timeout_ms=300)
    broker.advance_ms(301)
    assert produced.error_codes == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    assert broker.observed.named("produce_expired") == [(ORDERS,)]


def test_a_request_waits_for_all_its_partitions(broker: Harness) -> None:
    broker.set_topics(topic(), topic("other"))
    produced = broker.produce(ORDERS, OTHER)
    broker.follow((2, 1), (3, 1))
    assert not produced.answered
    broker.follow((2, 1), (3, 1), tp=OTHER)
    assert produced.error_codes == [ErrorCode.NONE, ErrorCode.NONE]


def test_a_partition_that_fails_at_once_does_not_hide_the_others(broker: Harness) -> None:
    produced = broker.produce(ORDERS, TopicPartition("nowhere", 0))
    assert not produced.answered
    broker.follow((2, 1), (3, 1))
    assert produced.error_codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_request_whose_every_partition_fails_is_answered_at_once(broker: Harness) -> None:
    assert broker.produce(TopicPartition("nowhere", 0)).error_codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_losing_leadership_ends_the_wait(broker: Harness) -> None:
    produced = broker.produce()
    broker.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=1))
    assert produced.error_codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    (result,) = produced.results
    assert (result.leader_id, result.leader_epoch) == (2, 1), "KIP-951"


def test_kafka_9198_losing_the_replica_ends_the_wait(broker: Harness) -> None:
    produced = broker.produce()
    broker.set_topics(topic(leader=2, leader_epoch=1, replicas=(2, 3), partition_epoch=1))
    assert produced.error_codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_deleting_the_topic_ends_the_wait(broker: Harness) -> None:
    produced = broker.produce()
    broker.set_topics()
    assert produced.error_codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_new_topic_of_the_same_name_does_not_acknowledge_the_old_ones_records(broker: Harness) -> None:
    produced = broker.produce()
    broker.set_topics(topic(topic_id=b"another".ljust(16)))
    assert produced.error_codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_an_isr_that_shrinks_after_the_append_is_answered_with_an_error(broker: Harness) -> None:
    broker.set_topics(topic(min_insync_replicas="2", partition_epoch=1))
    produced = broker.produce()
    broker.follow((2, 1))
    broker.set_topics(topic(min_insync_replicas="2", isr=(1,), partition_epoch=2))
    assert produced.error_codes == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert broker.partition().high_watermark == 0


def test_records_that_were_committed_before_the_isr_shrank_are_acknowledged(broker: Harness) -> None:
    broker.set_topics(topic(min_insync_replicas="2", partition_epoch=1))
    produced = broker.produce()
    # The followers have the records, and leave the ISR before the request sees the high watermark.
    broker.partition().follower_fetched(BrokerIncarnation(2, 2), 1, 0, 0)
    broker.partition().follower_fetched(BrokerIncarnation(3, 3), 1, 0, 0)
    broker.set_topics(topic(min_insync_replicas="2", isr=(1,), partition_epoch=2))
    assert produced.error_codes == [ErrorCode.NONE]


def test_a_request_is_refused_before_the_append_if_too_few_replicas_are_in_sync(broker: Harness) -> None:
    broker.set_topics(topic(min_insync_replicas="2", isr=(1,), partition_epoch=1))
    assert broker.produce().error_codes == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert broker.partition().log.log_end_offset == 0


def test_shutdown_answers_parked_requests_with_a_retriable_error(broker: Harness) -> None:
    produced = broker.produce()
    broker.produce_purgatory.shutdown()
    assert produced.error_codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert broker.produce_purgatory.num_delayed == 0


def test_many_requests_are_answered_by_one_advance(broker: Harness) -> None:
    requests = [broker.produce() for _ in range(100)]
    broker.follow((2, 100), (3, 50))
    assert [request.answered for request in requests] == [True] * 50 + [False] * 50
    assert broker.produce_purgatory.num_delayed == 50
    broker.follow((3, 100))
    assert all(request.answered for request in requests)
    assert broker.produce_purgatory.num_delayed == 0


@replaces_functions
def test_records_appended_when_the_lease_expired_are_committed_under_a_new_lease(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1))
    partition = broker.partition()
    append = partition.log.append_as_leader

    def lose_the_lease_meanwhile(*args: Any, **kwargs: Any) -> Any:
        broker.may_lead = False
        return append(*args, **kwargs)

    partition.log.append_as_leader = lose_the_lease_meanwhile  # type: ignore[method-assign]
    produced = broker.produce()
    assert not produced.answered
    broker.may_lead = True
    broker.replicas.advance_high_watermarks()
    assert produced.error_codes == [ErrorCode.NONE]


def test_a_fetch_that_advances_the_high_watermark_checks_one_request_beyond_those_that_it_completes(
    broker: Harness,
) -> None:
    """Records are acknowledged in their order, so that the requests behind one that waits wait as well."""
    produced = [broker.produce() for _ in range(10)]
    before = [operation.checks for operation in broker.produce_purgatory.operations(10)]
    broker.follow((2, 10), (3, 4))
    assert [each.answered for each in produced] == [True] * 4 + [False] * 6
    waiting = broker.produce_purgatory.operations(10)
    assert [operation.checks for operation in waiting] == [before[0] + 1, *before[:5]]
    broker.follow((3, 10))
    assert all(each.answered for each in produced)


def test_a_request_of_several_partitions_holds_back_no_check_of_those_behind_it(broker: Harness) -> None:
    broker.set_topics(topic(), topic("other"))
    both = broker.produce(ORDERS, OTHER)
    alone = broker.produce()
    broker.follow((2, 2), (3, 2))
    assert not both.answered, "followers lack the records of the other partition"
    assert alone.answered
