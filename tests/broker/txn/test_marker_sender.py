"""Markers reach the leaders of their partitions, over failures and elections, and each is noted once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from purgatorio.broker.clock import ManualClock
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER, BrokerIncarnation, ClusterImage, PartitionState, Topic
from purgatorio.broker.purgatory import Timer
from purgatorio.broker.txn.ending import EndsTransactions, TransactionEnd
from purgatorio.broker.txn.marker_sender import (
    FIRST_RETRY_MS,
    MAX_MARKERS_PER_REQUEST,
    MAX_REQUESTS,
    MAX_RETRY_MS,
    WARN_AT_FAILURE,
    MarkerSender,
)
from purgatorio.broker.txn.marker_writer import Marker, Written
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.error_log import ErrorLog
from tests.logs import capture_logs

HERE = 1
ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
BILLS_0 = TopicPartition("bills", 0)


def topic(name: str, *leaders: int, epoch: int = 0, isr: tuple[int, ...] = (1, 2, 3)) -> Topic:
    """A topic with a partition per leader."""
    in_sync = tuple(BrokerIncarnation(each, each) for each in isr)
    states = tuple(PartitionState(leader, epoch, (1, 2, 3), in_sync) for leader in leaders)
    return Topic(name, name.encode().ljust(16, b"\0"), states)


@dataclass
class Asked:
    """A request to another broker, which the test answers."""

    broker_id: int
    version: int
    request: WriteTxnMarkersRequest
    done: Callable[[Any, Exception | None], None]

    @property
    def partitions(self) -> list[tuple[int, TopicPartition]]:
        return [
            (marker.producer_id, TopicPartition(each.name, index))
            for marker in self.request.markers
            for each in marker.topics
            for index in each.partition_indexes
        ]

    def answer(self, code: int = 0, *, by_partition: dict[TopicPartition, int] | None = None) -> None:
        codes = by_partition or {}
        self.done(
            WriteTxnMarkersResponse(
                markers=[
                    WritableTxnMarkerResult(
                        producer_id=marker.producer_id,
                        topics=[
                            WritableTxnMarkerTopicResult(
                                name=each.name,
                                partitions=[
                                    WritableTxnMarkerPartitionResult(
                                        partition_index=index,
                                        error_code=codes.get(TopicPartition(each.name, index), code),
                                    )
                                    for index in each.partition_indexes
                                ],
                            )
                            for each in marker.topics
                        ],
                    )
                    for marker in self.request.markers
                ]
            ),
            None,
        )

    def fail(self, error: Exception | None = None) -> None:
        self.done(None, error or ConnectionResetError("lost"))


@dataclass
class Here:
    """Markers for partitions of this broker, which the test answers."""

    marker: Marker
    partitions: list[TopicPartition]
    written: Written
    client: str

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        for tp in self.partitions:
            self.written(tp, code)


@dataclass
class Told:
    """What the coordinator was told of one transaction."""

    written: list[TopicPartition] = field(default_factory=list)
    gave_up: list[ErrorCode] = field(default_factory=list)


class World:
    """A sender between a coordinator and brokers that the test plays."""

    def __init__(self, *topics: Topic) -> None:
        self.clock = ManualClock()
        self.timer = Timer(self.clock.now_ms)
        self.image = ClusterImage(1, "test", 1, {}, {each.name: each for each in topics})
        self.asked: list[Asked] = []
        self.here: list[Here] = []
        self.raises: Exception | None = None
        self.is_instant = False
        self.sender = MarkerSender(HERE, image=lambda: self.image, write=self._write, ask=self._ask, timer=self.timer)

    def _ask(self, broker_id: int, api_key: ApiKey, version: int, message: Any, done: Callable[..., None]) -> None:
        assert api_key == ApiKey.WRITE_TXN_MARKERS
        self.asked.append(Asked(broker_id, version, message, done))

    def _write(self, marker: Marker, partitions: list[TopicPartition], written: Written, *, client: str) -> None:
        if self.raises is not None:
            raise self.raises
        self.here.append(Here(marker, partitions, written, client))
        if self.is_instant:
            self.here.pop().answer()

    def end(
        self,
        *partitions: TopicPartition,
        name: str = "billing-1",
        producer_id: int = 7,
        epoch: int = 0,
        version: int = 1,
    ) -> Told:
        told = Told()
        end = TransactionEnd(name, producer_id, 3, True, epoch, partitions, version)
        self.sender.end(end, written=told.written.append, gave_up=told.gave_up.append)
        return told

    def elect(self, *topics: Topic, deleted: Iterable[str] = ()) -> None:
        """A new image, in which these topics have changed."""
        image = self.image.with_topics(topics).without_topics(deleted)
        self.image = image.with_version(self.image.version + 1)
        self.sender.image_changed(self.image)

    def advance_ms(self, delta_ms: int) -> None:
        self.clock.advance_ms(delta_ms)
        self.timer.advance(self.clock.now_ms())

    def take(self) -> list[Asked]:
        asked, self.asked = self.asked, []
        return asked

    def only(self) -> Asked:
        (asked,) = self.take()
        return asked


def ends_transactions(sender: MarkerSender) -> EndsTransactions:
    """The types agree."""
    return sender


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
    assert world.sender.waits_for("billing-1") == ""


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
    world.advance_ms(1)
    assert [len(each.partitions) for each in world.here] == [MAX_MARKERS_PER_REQUEST] * 2
    world.advance_ms(1)
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
    assert world.sender.waits_for("billing-1") == ""


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
    assert world.sender.waits_for("billing-1") == ""


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
    assert world.sender.waits_for("billing-1") == "the markers of orders-0 (no leader)"
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


# --- the page ---


def test_the_page_names_partitions_leaders_and_reasons() -> None:
    world = World(topic("orders", *[2] * 5), topic("bills", 3))
    world.end(BILLS_0, *[TopicPartition("orders", nth) for nth in range(5)])
    world.asked[1].answer(
        by_partition={ORDERS_0: ErrorCode.NOT_ENOUGH_REPLICAS, ORDERS_1: ErrorCode.NOT_ENOUGH_REPLICAS}
    )
    assert world.sender.waits_for("billing-1") == (
        "the markers of bills-0 (broker 3), orders-0 (broker 2: NOT_ENOUGH_REPLICAS), "
        "orders-1 (broker 2: NOT_ENOUGH_REPLICAS)"
    )


def test_missing_markers_are_counted() -> None:
    world = World(topic("orders", 2, NO_LEADER))
    world.end(ORDERS_0, ORDERS_1)
    world.end(ORDERS_0, name="billing-2", producer_id=8)
    assert world.sender.missing_count == 3
    for asked in world.asked:
        asked.answer()
    assert world.sender.missing_count == 1
