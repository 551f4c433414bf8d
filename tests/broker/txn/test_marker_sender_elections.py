"""Markers follow the leaders of their partitions, and end with topics and with their coordinator."""

from __future__ import annotations

import pytest

from purgatorio.broker.causes.cause import UnwrittenMarker
from purgatorio.broker.coordinator.broker_calls import MAX_REQUESTS
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.txn.marker_sender import MAX_RETRY_MS
from purgatorio.protocol.errors import ErrorCode
from tests.broker.txn.marker_world import BILLS_0, HERE, ORDERS_0, ORDERS_1, Told, World, topic

# --- elections, deletions ---


def test_markers_follow_the_leader_at_once() -> None:
    world = World(topic("orders", 2))
    told = world.end(ORDERS_0)
    old = world.only()
    world.elect(topic("orders", 3, epoch=1))
    new = world.only()
    assert new.broker_id == 3
    old.fail()
    assert world.timer.size == 0, "what the former leader says does not count"
    new.answer()
    assert told.written == [ORDERS_0]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_what_a_former_leader_refuses_does_not_count(code: ErrorCode) -> None:
    world = World(topic("orders", 2))
    told = world.end(ORDERS_0)
    old = world.only()
    world.elect(topic("orders", 3, epoch=1))
    old.answer(code)
    assert told == Told()
    world.only().answer()
    assert told == Told([ORDERS_0], [])


def test_a_marker_that_a_former_leader_has_committed_is_written() -> None:
    world = World(topic("orders", 2))
    told = world.end(ORDERS_0)
    old = world.only()
    world.elect(topic("orders", 3, epoch=1))
    old.answer()
    world.only().answer()
    assert told == Told([ORDERS_0], [])


def test_markers_follow_the_leader_to_this_broker() -> None:
    world = World(topic("orders", 2))
    told = world.end(ORDERS_0)
    world.elect(topic("orders", HERE, epoch=1))
    world.here.pop().answer()
    assert told.written == [ORDERS_0]


def test_markers_wait_for_an_election_without_asking_anybody() -> None:
    world = World(topic("orders", NO_LEADER))
    told = world.end(ORDERS_0)
    world.advance_ms(5_000)
    assert world.take() == []
    assert world.sender.waits_for("billing-1").markers == (UnwrittenMarker(ORDERS_0, None, ""),)
    world.elect(topic("orders", 3, epoch=1))
    world.only().answer()
    assert told.written == [ORDERS_0]
    assert world.timer.size == 0


def test_a_leader_that_is_known_already_is_asked_at_once_after_a_refusal() -> None:
    """The image came between the request and its answer, but named no leader yet."""
    world = World(topic("orders", 2))
    told = world.end(ORDERS_0)
    asked = world.only()
    world.elect(topic("orders", NO_LEADER, epoch=1))
    world.image = world.image.with_topics([topic("orders", 3, epoch=2)])
    asked.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    world.only().answer()
    assert told.written == [ORDERS_0]


def test_a_change_of_the_partition_ends_the_wait_for_the_next_try() -> None:
    """Such as a follower that joins the in-sync replicas."""
    world = World(topic("orders", 2, isr=(2,)))
    told = world.end(ORDERS_0)
    world.only().answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.elect(topic("orders", 2, isr=(2, 3)))
    world.only().answer()
    assert told.written == [ORDERS_0]
    assert world.timer.size == 0


def test_changes_of_other_partitions_send_nothing() -> None:
    world = World(topic("orders", 2), topic("bills", 2))
    world.end(ORDERS_0)
    world.only().answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.elect(topic("bills", 3, epoch=1))
    assert world.take() == []


def test_markers_that_wait_for_a_busy_broker_follow_the_leader_too() -> None:
    world = World(topic("orders", *[2] * 10))
    told = [
        world.end(TopicPartition("orders", nth), name=f"billing-{nth}", producer_id=nth)
        for nth in range(MAX_REQUESTS + 1)
    ]
    at_second = world.take()
    world.elect(topic("orders", *[3] * 10, epoch=1))
    at_third = world.take()
    assert {asked.broker_id for asked in at_third} == {3}
    for asked in at_second:
        asked.fail()
    assert world.take() == [], "the former leader is asked no more"
    for asked in at_third:
        asked.answer()
    for asked in world.take():
        asked.answer()
    assert all(len(each.written) == 1 for each in told)


def test_a_deleted_topic_needs_no_marker() -> None:
    world = World(topic("orders", 2), topic("bills", 2))
    told = world.end(ORDERS_0, BILLS_0)
    asked = world.only()
    world.elect(deleted=["bills"])
    assert told.written == [BILLS_0]
    asked.answer(by_partition={BILLS_0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    assert told == Told([BILLS_0, ORDERS_0], [])


def test_a_topic_that_was_deleted_before_needs_no_marker() -> None:
    world = World(topic("orders", 2))
    told = world.end(BILLS_0, ORDERS_0)
    assert told.written == [BILLS_0]
    world.only().answer()
    assert told.written == [BILLS_0, ORDERS_0]


def test_a_topic_that_is_deleted_while_its_marker_waits_needs_none() -> None:
    world = World(topic("orders", 2))
    told = world.end(ORDERS_0)
    world.only().answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.elect(deleted=["orders"])
    assert told.written == [ORDERS_0]
    assert world.timer.size == 0


# --- the coordinator resigns ---


def test_a_dropped_transaction_is_not_retried_and_nobody_is_told() -> None:
    world = World(topic("orders", 2, 2))
    told = world.end(ORDERS_0, ORDERS_1)
    world.only().answer(by_partition={ORDERS_1: ErrorCode.NOT_ENOUGH_REPLICAS})
    told.written.clear()
    world.sender.drop("billing-1", 0)
    world.advance_ms(MAX_RETRY_MS)
    world.elect(topic("orders", 3, 3, epoch=1))
    assert (world.take(), told, world.timer.size) == ([], Told(), 0)


def test_the_answer_to_a_dropped_transaction_is_ignored() -> None:
    world = World(topic("orders", 2))
    told = world.end(ORDERS_0)
    world.sender.drop("billing-1", 0)
    world.only().answer()
    assert told == Told()


def test_a_former_epochs_drop_leaves_the_transaction_of_this_epoch() -> None:
    """KAFKA-16352."""
    world = World(topic("orders", 2))
    world.end(ORDERS_0, epoch=4)
    old = world.only()
    told = world.end(ORDERS_0, epoch=5)
    world.sender.drop("billing-1", 4)
    new = world.only()
    old.answer(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert told == Told()
    new.answer()
    assert told == Told([ORDERS_0], [])
