"""Markers reach the leaders of their partitions, over failures and elections, and each is noted once."""

from __future__ import annotations

import pytest

from purgatorio.broker.causes.cause import MarkersMissing, UnwrittenMarker
from purgatorio.broker.coordinator.broker_calls import MAX_REQUESTS
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.txn.marker_sender import (
    FIRST_RETRY_MS,
    MAX_MARKERS_PER_REQUEST,
    MAX_RETRY_MS,
    WARN_AT_FAILURE,
    TransactionEnd,
)
from purgatorio.broker.txn.marker_writer import Marker
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.write_txn_markers import (
    WriteTxnMarkersResponse,
)
from tests.broker.txn.marker_world import BILLS_0, HERE, ORDERS_0, ORDERS_1, Told, World, topic
from tests.error_log import ErrorLog
from tests.logs import capture_logs

# --- the way of a marker ---


def test_a_marker_is_sent_to_the_leader_and_noted_when_it_is_written() -> None:
    world = World(topic("orders", 2))
    told = world.end(ORDERS_0, version=2)
    asked = world.only()
    (marker,) = asked.request.markers
    assert (asked.broker_id, asked.version, asked.partitions) == (2, 2, [(7, ORDERS_0)])
    assert (marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch) == (3, True, 0)
    assert marker.transaction_version == 2
    assert told.written == []
    asked.answer()
    assert told == Told([ORDERS_0], [])
    assert world.timer.size == 0


@pytest.mark.parametrize(("version", "is_bumped"), [(0, False), (1, False), (2, True)])
def test_markers_of_this_brokers_own_partitions_are_written_without_a_request(version: int, is_bumped: bool) -> None:
    world = World(topic("orders", HERE, HERE))
    told = world.end(ORDERS_0, ORDERS_1, version=version)
    (here,) = world.here
    assert here.marker == Marker(7, 3, EndMarker(True, 0), is_bumped)
    assert (here.partitions, here.client, world.asked) == ([ORDERS_0, ORDERS_1], "billing-1", [])
    here.answer()
    assert told == Told([ORDERS_0, ORDERS_1], [])


def test_a_transaction_has_one_marker_in_the_request_of_each_leader() -> None:
    world = World(topic("orders", 2, 3), topic("bills", 2))
    told = world.end(ORDERS_0, ORDERS_1, BILLS_0)
    second, third = world.take()
    assert (second.broker_id, second.partitions) == (2, [(7, ORDERS_0), (7, BILLS_0)])
    assert (third.broker_id, third.partitions) == (3, [(7, ORDERS_1)])
    third.answer()
    second.answer()
    assert told.written == [ORDERS_1, ORDERS_0, BILLS_0]


def test_a_transaction_without_partitions_needs_no_markers() -> None:
    world = World()
    assert world.end() == Told([], [])
    assert world.sender.waits_for("billing-1").markers == ()


def test_markers_that_wait_for_a_busy_broker_share_its_next_request() -> None:
    """Many transactions, one request; the first ones wait for nothing."""
    world = World(topic("orders", 2))
    told = [world.end(ORDERS_0, name=f"billing-{nth}", producer_id=nth) for nth in range(20)]
    first = world.take()
    assert [len(asked.request.markers) for asked in first] == [1] * MAX_REQUESTS
    first[0].answer()
    shared = world.only()
    assert [producer_id for producer_id, _ in shared.partitions] == list(range(MAX_REQUESTS, 20))
    for asked in (*first[1:], shared):
        asked.answer()
    assert [each.written for each in told] == [[ORDERS_0]] * 20


def test_a_request_has_a_bounded_number_of_markers() -> None:
    count = MAX_MARKERS_PER_REQUEST * (MAX_REQUESTS + 1) + 1
    world = World(topic("orders", *[2] * count))
    partitions = [TopicPartition("orders", nth) for nth in range(count)]
    told = world.end(*partitions)
    sizes = []
    while world.asked:
        asked = world.asked.pop(0)
        sizes.append(len(asked.partitions))
        asked.answer()
    assert sizes == [MAX_MARKERS_PER_REQUEST] * (MAX_REQUESTS + 1) + [1]
    assert told.written == partitions


def test_many_markers_of_this_broker_are_written_in_turns_of_the_loop() -> None:
    count = MAX_MARKERS_PER_REQUEST * 2 + 1
    world = World(topic("orders", *[HERE] * count))
    partitions = [TopicPartition("orders", nth) for nth in range(count)]
    world.end(*partitions)
    world.end(ORDERS_0, name="billing-2", producer_id=8)
    assert [len(each.partitions) for each in world.here] == [MAX_MARKERS_PER_REQUEST]
    world.turn()
    assert [len(each.partitions) for each in world.here] == [MAX_MARKERS_PER_REQUEST] * 2
    world.turn()
    assert [len(each.partitions) for each in world.here[2:]] == [1, 1]
    world.advance_ms(10)
    assert len(world.here) == 4


def test_the_next_end_may_begin_while_the_last_marker_is_noted() -> None:
    """A coordinator with one replica completes a transaction at once."""
    world = World(topic("orders", 2, HERE))
    second: list[Told] = []
    first = TransactionEnd("billing-1", 7, 3, True, 0, (ORDERS_0,), 1)
    world.sender.end(first, written=lambda tp: second.append(world.end(ORDERS_0, ORDERS_1)), gave_up=lambda code: None)
    world.only().answer()
    world.only().answer()
    world.here.pop().answer()
    assert second == [Told([ORDERS_0, ORDERS_1], [])]
    assert world.sender.waits_for("billing-1").markers == ()


def test_ends_that_follow_each_other_at_once_do_so_without_recursion() -> None:
    """As with one replica, when a client has sent its requests ahead."""
    world = World(topic("orders", HERE))
    world.is_instant = True
    ended = 0

    def end(tp: TopicPartition | None = None) -> None:
        nonlocal ended
        ended += 1
        if ended < 2_000:
            each = TransactionEnd("billing-1", 7, 3, True, 0, (ORDERS_0,), 1)
            world.sender.end(each, written=end, gave_up=lambda code: None)

    end()
    assert ended == 1 + MAX_MARKERS_PER_REQUEST
    for _ in world.calls.steps():
        pass
    assert ended == 2_000


# --- failures ---

RETRIED = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
]


@pytest.mark.parametrize("code", RETRIED)
def test_a_marker_is_sent_again_after_any_error_of_the_moment(code: ErrorCode) -> None:
    """KAFKA-6052: a retry was lost."""
    world = World(topic("orders", 2))
    told = world.end(ORDERS_0)
    world.only().answer(code)
    assert told == Told()
    world.advance_ms(FIRST_RETRY_MS)
    world.only().answer()
    assert told == Told([ORDERS_0], [])


@pytest.mark.parametrize("code", RETRIED)
def test_a_marker_of_this_broker_is_written_again_after_any_error_of_the_moment(code: ErrorCode) -> None:
    world = World(topic("orders", HERE))
    told = world.end(ORDERS_0)
    world.here.pop().answer(code)
    assert told == Told()
    world.advance_ms(FIRST_RETRY_MS)
    world.here.pop().answer()
    assert told == Told([ORDERS_0], [])


@pytest.mark.parametrize("error", [ConnectionResetError("lost"), TimeoutError("late"), OSError("refused")])
def test_markers_are_sent_again_when_the_broker_is_lost(error: Exception) -> None:
    world = World(topic("orders", 2, 2))
    told = world.end(ORDERS_0, ORDERS_1)
    world.only().fail(error)
    world.advance_ms(FIRST_RETRY_MS)
    for asked in world.take():
        asked.answer()
    assert sorted(told.written) == [ORDERS_0, ORDERS_1]


def test_a_marker_that_an_answer_leaves_out_is_sent_again() -> None:
    world = World(topic("orders", 2))
    told = world.end(ORDERS_0)
    world.only().done(WriteTxnMarkersResponse(), None)
    world.advance_ms(FIRST_RETRY_MS)
    world.only().answer(31_000)  # a code that this broker does not know
    world.advance_ms(FIRST_RETRY_MS * 2)
    world.only().answer()
    assert told == Told([ORDERS_0], [])


def test_markers_are_written_again_after_a_bug(error_log: ErrorLog) -> None:
    world = World(topic("orders", HERE))
    world.raises = ZeroDivisionError()
    told = world.end(ORDERS_0)
    error_log.expect("ZeroDivisionError")
    world.raises = None
    world.advance_ms(FIRST_RETRY_MS)
    world.here.pop().answer()
    assert told == Told([ORDERS_0], [])


def test_a_coordinator_that_fails_to_note_a_marker_is_told_of_the_others(error_log: ErrorLog) -> None:
    world = World(topic("orders", 2, 2))
    told: list[TopicPartition] = []

    def written(tp: TopicPartition) -> None:
        told.append(tp)
        raise ZeroDivisionError

    end = TransactionEnd("billing-1", 7, 3, True, 0, (ORDERS_0, ORDERS_1), 1)
    world.sender.end(end, written=written, gave_up=lambda code: None)
    world.only().answer()
    assert told == [ORDERS_0, ORDERS_1]
    error_log.expect("ZeroDivisionError")
    error_log.expect("ZeroDivisionError")


def test_what_is_written_is_not_sent_again_with_what_is_not() -> None:
    world = World(topic("orders", 2, 2))
    told = world.end(ORDERS_0, ORDERS_1)
    world.only().answer(by_partition={ORDERS_1: ErrorCode.NOT_ENOUGH_REPLICAS})
    assert told.written == [ORDERS_0]
    world.advance_ms(FIRST_RETRY_MS)
    again = world.only()
    assert again.partitions == [(7, ORDERS_1)]
    again.answer()
    assert told.written == [ORDERS_0, ORDERS_1]


def test_tries_become_rarer_but_never_end() -> None:
    world = World(topic("orders", 2))
    told = world.end(ORDERS_0)
    gaps = []
    with capture_logs() as logged:
        for _ in range(12):
            world.only().answer(ErrorCode.NOT_ENOUGH_REPLICAS)
            gap = 0
            while not world.asked:
                world.advance_ms(10)
                gap += 10
            gaps.append(gap)
    assert gaps == [20, 40, 80, 160, 320, 640, *[MAX_RETRY_MS] * 6]
    assert [entry["event"] for entry in logged] == ["markers of transactions wait for a partition"]
    assert sum(gaps[: WARN_AT_FAILURE - 1]) > 1_000
    world.only().answer()
    assert told.written == [ORDERS_0]
    world.end(ORDERS_0)
    world.only().answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.advance_ms(FIRST_RETRY_MS)
    assert world.take(), "the failures of before count no more"


def test_transactions_that_wait_for_one_partition_are_tried_together() -> None:
    world = World(topic("orders", 2))
    first = world.end(ORDERS_0)
    second = world.end(ORDERS_0, name="billing-2", producer_id=8)
    one, other = world.take()
    one.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.advance_ms(10)
    other.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert world.timer.size == 1
    world.advance_ms(10)
    again = world.only()
    assert again.partitions == [(7, ORDERS_0), (8, ORDERS_0)]
    again.answer()
    assert (first.written, second.written) == ([ORDERS_0], [ORDERS_0])


def test_a_success_lets_the_others_of_its_partition_try_at_once() -> None:
    world = World(topic("orders", 2))
    first = world.end(ORDERS_0)
    second = world.end(ORDERS_0, name="billing-2", producer_id=8)
    one, other = world.take()
    one.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    other.answer()
    assert second.written == [ORDERS_0]
    world.only().answer()
    assert first.written == [ORDERS_0]
    assert world.timer.size == 0


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_a_transaction_that_is_refused_for_good_is_given_up_once(code: ErrorCode) -> None:
    world = World(topic("orders", 2, 2, 3))
    told = world.end(ORDERS_0, ORDERS_1, TopicPartition("orders", 2))
    second, third = world.take()
    second.answer(code)
    third.answer()
    assert told == Told([], [code])
    world.advance_ms(MAX_RETRY_MS)
    assert world.take() == []
    assert world.sender.waits_for("billing-1").markers == ()


# --- the page ---


def test_the_page_names_partitions_leaders_and_reasons() -> None:
    world = World(topic("orders", *[2] * 5), topic("bills", 3))
    world.end(BILLS_0, *[TopicPartition("orders", nth) for nth in range(5)])
    world.asked[1].answer(
        by_partition={ORDERS_0: ErrorCode.NOT_ENOUGH_REPLICAS, ORDERS_1: ErrorCode.NOT_ENOUGH_REPLICAS}
    )
    unwritten = (
        UnwrittenMarker(BILLS_0, 3, ""),
        UnwrittenMarker(ORDERS_0, 2, "NOT_ENOUGH_REPLICAS"),
        UnwrittenMarker(ORDERS_1, 2, "NOT_ENOUGH_REPLICAS"),
    )
    assert world.sender.waits_for("billing-1") == MarkersMissing("billing-1", unwritten, 0)


def test_missing_markers_are_counted() -> None:
    world = World(topic("orders", 2, NO_LEADER))
    world.end(ORDERS_0, ORDERS_1)
    world.end(ORDERS_0, name="billing-2", producer_id=8)
    assert world.sender.missing_count == 3
    for asked in world.asked:
        asked.answer()
    assert world.sender.missing_count == 1
