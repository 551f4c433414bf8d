"""Leaders check markers, append them with acks=-1, and end the offsets of consumer groups through their coordinator."""

from __future__ import annotations

import pytest

from purgatorio.broker.coordinator.coordinator_log import Committed
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.txn.marker_writer import Marker, MarkerWriter
from purgatorio.protocol.end_marker import EndMarker, read_end_marker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, iter_batches
from tests.broker.replica.harness import ORDERS, Harness, topic

OFFSETS = TopicPartition("__consumer_offsets", 3)
PRODUCER_ID = 7


class Leader(Harness):
    """A leader with followers 2 and 3, and what its writer has said."""

    def __init__(self, isr: tuple[int, ...] = (1, 2, 3)) -> None:
        super().__init__()
        self.written: list[tuple[TopicPartition, ErrorCode]] = []
        self.offsets_ended: list[tuple[TopicPartition, int, int, EndMarker]] = []
        self.offsets_done: list[Committed] = []
        self.writer = MarkerWriter(self.replicas, self.clock, timeout_ms=5_000, end_offsets=self._end_offsets)
        self.set_topics(topic(isr=isr, partitions=2), topic("__consumer_offsets", isr=isr, partitions=4))

    def _end_offsets(
        self, tp: TopicPartition, producer_id: int, producer_epoch: int, marker: EndMarker, done: Committed
    ) -> None:
        self.offsets_ended.append((tp, producer_id, producer_epoch, marker))
        self.offsets_done.append(done)

    def begin(self, epoch: int = 0, tp: TopicPartition = ORDERS) -> None:
        """Write a record in a transaction."""
        records = build_batch(
            [Record(0, 1_000, None, b"value")],
            producer_id=PRODUCER_ID,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        self.partition(tp).append_own(records, acks=1, wall_ms=1_000)

    def write(
        self,
        *partitions: TopicPartition,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        committed: bool = True,
        is_bumped: bool = False,
        producer_id: int = PRODUCER_ID,
    ) -> list[ErrorCode]:
        """Write a marker; returns what is answered at once."""
        before = len(self.written)
        marker = Marker(producer_id, epoch, EndMarker(committed, coordinator_epoch), is_bumped)
        self.writer.write(
            marker, partitions or (ORDERS,), lambda tp, code: self.written.append((tp, code)), client="billing-1"
        )
        return [code for _, code in self.written[before:]]

    def stable_offset(self) -> int:
        """The last stable offset once all records are committed."""
        log = self.partition().log
        return log.last_stable_offset(log.log_end_offset if len(self.partition().isr) == 1 else log.high_watermark)

    def replicate(self, tp: TopicPartition = ORDERS) -> None:
        end = self.partition(tp).log.log_end_offset
        self.follow((2, end), (3, end), tp=tp)


def test_a_marker_is_written_when_the_followers_have_it() -> None:
    leader = Leader()
    leader.begin()
    assert leader.write() == []
    assert leader.stable_offset() == 0
    leader.replicate()
    assert leader.written == [(ORDERS, ErrorCode.NONE)]
    assert leader.stable_offset() == 2


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_has_the_result_the_epochs_and_the_leaders_time(committed: bool) -> None:
    leader = Leader(isr=(1,))
    leader.clock.advance_ms(77)
    assert leader.write(epoch=4, coordinator_epoch=9, committed=committed) == [ErrorCode.NONE]
    log = leader.partition().log
    ((header, batch),) = iter_batches(b"".join(log.read(0, max_bytes=1_000, end_offset=1).parts))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (PRODUCER_ID, 4, -1)
    assert (header.is_transactional, header.is_control) == (True, True)
    assert header.max_timestamp == leader.clock.wall_ms()
    assert read_end_marker(batch) == EndMarker(committed, 9)


def test_a_marker_is_appended_where_nothing_was_written_and_fences_older_epochs() -> None:
    leader = Leader(isr=(1,))
    assert leader.write(epoch=5) == [ErrorCode.NONE]
    assert leader.write(epoch=4) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert leader.partition().log.log_end_offset == 1


def test_a_marker_that_is_sent_again_is_appended_again() -> None:
    leader = Leader(isr=(1,))
    leader.begin()
    assert leader.write() + leader.write() == [ErrorCode.NONE, ErrorCode.NONE]
    assert leader.partition().log.log_end_offset == 3


def test_a_former_coordinators_marker_is_refused() -> None:
    leader = Leader(isr=(1,))
    leader.write(coordinator_epoch=5)
    leader.begin()
    assert leader.write(coordinator_epoch=4) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    assert leader.stable_offset() == 1


def test_kafka_19446_a_late_marker_with_a_bumped_epoch_leaves_the_next_transaction_open() -> None:
    """With transaction.version 2 the records of a transaction have a lower epoch than its marker."""
    leader = Leader(isr=(1,))
    leader.begin(epoch=0)
    assert leader.write(epoch=1, is_bumped=True) == [ErrorCode.NONE]
    leader.begin(epoch=1)
    assert leader.write(epoch=1, is_bumped=True) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert leader.stable_offset() == 2
    assert leader.write(epoch=2, is_bumped=True) == [ErrorCode.NONE]


def test_kafka_19999_a_marker_with_a_bumped_epoch_may_be_sent_again() -> None:
    leader = Leader(isr=(1,))
    leader.begin(epoch=0)
    assert leader.write(epoch=1, is_bumped=True) + leader.write(epoch=1, is_bumped=True) == [ErrorCode.NONE] * 2


def test_each_partition_is_answered_for_itself() -> None:
    leader = Leader()
    unknown, second = TopicPartition("nowhere", 0), TopicPartition("orders", 1)
    leader.begin(epoch=3, tp=second)
    leader.write(unknown, ORDERS, second)
    assert leader.written == [
        (unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (second, ErrorCode.INVALID_PRODUCER_EPOCH),
    ]
    leader.replicate()
    assert leader.written[2:] == [(ORDERS, ErrorCode.NONE)]


def test_only_the_leader_writes_markers() -> None:
    leader = Leader()
    leader.may_lead = False
    assert leader.write(ORDERS, OFFSETS) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    leader.may_lead = True
    leader.set_topics(topic(leader=2, leader_epoch=1, partitions=2))
    assert leader.write() == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_marker_waits_for_the_in_sync_replicas_no_longer_than_the_timeout() -> None:
    leader = Leader()
    leader.write()
    leader.advance_ms(5_001)
    assert leader.written == [(ORDERS, ErrorCode.REQUEST_TIMED_OUT)]


def test_too_few_in_sync_replicas_refuse_a_marker() -> None:
    leader = Leader(isr=(1,))
    leader.set_topics(topic(isr=(1,), min_insync_replicas="2", partition_epoch=1, partitions=2))
    assert leader.write() == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert leader.partition().log.log_end_offset == 0


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1)])
def test_a_marker_without_a_producer_is_refused(producer_id: int, epoch: int) -> None:
    leader = Leader(isr=(1,))
    assert leader.write(producer_id=producer_id, epoch=epoch) == [ErrorCode.INVALID_REQUEST]
    assert leader.partition().log.log_end_offset == 0


# --- offsets of consumer groups ---


def test_kafka_17507_offsets_are_ended_by_the_group_coordinator_that_says_when() -> None:
    leader = Leader(isr=(1,))
    assert leader.write(OFFSETS, epoch=2, coordinator_epoch=5) == []
    assert leader.offsets_ended == [(OFFSETS, PRODUCER_ID, 2, EndMarker(True, 5))]
    assert leader.partition(OFFSETS).log.log_end_offset == 0, "the group coordinator appends it"
    leader.offsets_done.pop()(ErrorCode.NONE)
    assert leader.written == [(OFFSETS, ErrorCode.NONE)]


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR]
)
def test_a_group_coordinators_refusal_is_that_of_a_leader(code: ErrorCode) -> None:
    leader = Leader(isr=(1,))
    leader.write(OFFSETS)
    leader.offsets_done.pop()(code)
    assert leader.written == [(OFFSETS, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_markers_of_offsets_are_checked_as_all_are() -> None:
    leader = Leader(isr=(1,))
    leader.begin(epoch=3, tp=OFFSETS)
    assert leader.write(OFFSETS, epoch=2) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert leader.write(OFFSETS, epoch=3, is_bumped=True) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert leader.offsets_ended == []


def test_without_offsets_in_transactions_their_partitions_are_as_others() -> None:
    leader = Leader(isr=(1,))
    leader.writer = MarkerWriter(leader.replicas, leader.clock, timeout_ms=5_000)
    assert leader.write(OFFSETS) == [ErrorCode.NONE]
    assert leader.partition(OFFSETS).log.log_end_offset == 1
