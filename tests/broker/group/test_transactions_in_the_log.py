"""Offsets of transactions in the log of `__consumer_offsets`: loaded, compacted, and kept over elections."""

from __future__ import annotations

import pytest

from purgatorio.broker.group.offsets import CommittedOffset, OffsetChange
from purgatorio.broker.group.txn_offset_manager import TxnCommit
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.producing.verification import ProducerTransaction
from purgatorio.broker.txn.marker_writer import Marker, MarkerWriter
from purgatorio.protocol.consumer_offsets import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.group.harness import PARTITION, GroupHarness, offsets_topic

DAY_MS = 24 * 60 * 60_000


class Broker(GroupHarness):
    """Broker 1, whose groups commit offsets of the partition orders-0."""

    def txn(self, offset: int, producer_id: int = 1, epoch: int = 0, group_id: str = "app") -> list[ErrorCode]:
        """Commit an offset with a producer's transaction."""
        done: list[ErrorCode] = []
        committed = CommittedOffset(offset, -1, "", self.clock.wall_ms())
        transaction = ProducerTransaction(f"t{producer_id}", producer_id, epoch, False)
        self.groups.txn_offsets.commit(TxnCommit(group_id, transaction, [("orders", 0, committed)]), done.append)
        return done

    def plain(self, offset: int | None, group_id: str = "app") -> None:
        """Commit an offset without a transaction, or delete it."""
        committed = None if offset is None else CommittedOffset(offset, -1, "", self.clock.wall_ms())
        shard = self.groups.coordinator.shard_of(group_id)
        self.groups.offsets.write(shard, [OffsetChange(group_id, "orders", 0, committed)], lambda code: None)

    def end(self, producer_id: int = 1, *, commits: bool = True, epoch: int = 0) -> list[ErrorCode]:
        done: list[ErrorCode] = []
        self.groups.txn_offsets.end(PARTITION, producer_id, epoch, EndMarker(commits, 0), done.append)
        return done

    def reload(self) -> None:
        """Elect this broker again, so that it loads the log."""
        partition = self.partition(PARTITION)
        self.elect(1, partition.leader_epoch + 1, partition.replicas)
        self.work()

    def seen(self, group_id: str = "app") -> int | None:
        """The offset that a consumer sees."""
        committed = self.groups.coordinator.shard_of(group_id).offsets.get(group_id, "orders", 0)
        return None if committed is None else committed.offset

    @property
    def is_unstable(self) -> bool:
        return self.groups.coordinator.shard_of("app").offsets.is_unstable("app", "orders", 0)


@pytest.mark.parametrize(("commits", "offset"), [(True, 7), (False, 5)])
def test_batches_and_markers_are_loaded(commits: bool, offset: int) -> None:
    broker = Broker()
    broker.plain(5)
    broker.txn(7)
    broker.end(commits=commits)
    broker.reload()
    assert (broker.seen(), broker.is_unstable) == (offset, False)


def test_a_change_of_the_coordinator_within_a_transaction_loses_nothing() -> None:
    broker = Broker()
    broker.plain(5)
    broker.txn(7)
    broker.reload()
    assert (broker.seen(), broker.is_unstable) == (5, True)
    assert broker.end() == [ErrorCode.NONE]
    assert (broker.seen(), broker.is_unstable) == (7, False)


def test_a_new_coordinator_takes_over_from_another_broker() -> None:
    leader = Broker(replicas=(1, 2))
    leader.txn(7)
    log = leader.partition(PARTITION).log
    copied = b"".join(log.read(0, max_bytes=1 << 20, end_offset=log.log_end_offset).parts)
    other = Broker(replicas=(2, 1))
    other.elect(2, 1, replicas=(2, 1))
    other.replicas.append_as_follower(other.partition(PARTITION), copied, 0, 0)
    other.elect(1, 2, replicas=(2, 1))
    other.work()
    other.follow((2, 1), tp=PARTITION)
    other.work()
    assert other.is_unstable
    other.end()
    other.follow((2, 2), tp=PARTITION)
    assert other.seen() == 7


def test_a_marker_that_the_old_coordinator_appended_is_loaded_by_the_new_one() -> None:
    broker = Broker(replicas=(1, 2))
    broker.txn(7)
    answered = broker.end()
    broker.elect(1, 1)
    broker.work()
    broker.follow((2, 2), tp=PARTITION)
    broker.work()
    assert broker.seen() == 7
    assert answered == [ErrorCode.NONE]


def test_kafka_14505_holds_for_loaded_offsets() -> None:
    broker = Broker()
    broker.txn(7)
    broker.txn(9, producer_id=2)
    broker.plain(3, group_id="other")
    broker.txn(8, group_id="other")
    broker.plain(4, group_id="other")
    broker.end(2)
    broker.end(1)
    for _ in range(2):
        assert (broker.seen(), broker.seen("other")) == (9, 4)
        broker.reload()


def test_a_tombstone_clears_loaded_offsets_of_transactions() -> None:
    broker = Broker()
    broker.txn(7)
    broker.plain(None)
    broker.end()
    for _ in range(2):
        assert (broker.seen(), broker.is_unstable) == (None, False)
        broker.reload()


def test_an_offset_in_an_old_version_is_loaded_as_part_of_its_transaction() -> None:
    broker = Broker()
    key = encode_key(OffsetCommitKey(group_id="app", topic="orders", partition=0))
    value = encode_value(OffsetCommitValue(offset=7, metadata="", commit_timestamp_ms=0, expire_timestamp_ms=DAY_MS))
    batch = build_batch([Record(0, 0, key, value)], producer_id=1, producer_epoch=0, transactional=True)
    broker.replicas.append([(PARTITION, batch)], acks=1, timeout_ms=0, done=lambda results: None, from_client=False)
    broker.reload()
    assert (broker.seen(), broker.is_unstable) == (None, True)
    broker.end()
    assert broker.seen() == 7


def test_compaction_of_offsets_under_exactly_once_shrinks_the_log_and_keeps_what_is_seen() -> None:
    broker = Broker()
    broker.set_topics(offsets_topic((1,), 1, 1, segment_bytes="16384", min_cleanable_dirty_ratio="0.1"))
    producers, rounds = 20, 200
    for nth in range(rounds):
        for producer_id in range(producers):
            broker.txn(nth, producer_id, group_id=f"g{producer_id}")
            broker.end(producer_id, commits=nth % 4 != 3)  # the last round is aborted
    broker.txn(rounds, 0, group_id="g0")
    log = broker.partition(PARTITION).log
    before_bytes = log.size_bytes
    for _ in range(3):
        for _ in broker.replicas.compaction_steps():
            pass
        broker.clock.advance_ms(DAY_MS + 1)  # delete.retention.ms: markers without data may go
    assert log.size_bytes < before_bytes / 10
    broker.reload()
    offsets = broker.groups.coordinator.shard_of("g").offsets
    assert {group: broker.seen(group) for group in offsets.groups} == {
        f"g{each}": rounds - 2 for each in range(producers)
    }
    assert offsets.unstable_of("g0") == {"orders": {0: None}}
    broker.end(0)
    assert broker.seen("g0") == rounds


@pytest.mark.parametrize(("bumped", "epoch"), [(False, 0), (True, 1)])
def test_the_leaders_writer_of_markers_ends_offsets_through_the_group_coordinator(bumped: bool, epoch: int) -> None:
    broker = Broker()
    writer = MarkerWriter(broker.replicas, broker.clock, timeout_ms=5_000, end_offsets=broker.groups.txn_offsets.end)
    broker.txn(7)
    told: list[tuple[TopicPartition, ErrorCode]] = []
    for _ in range(2):  # the second one is a retry
        marker = Marker(1, epoch, EndMarker(True, 0), bumped)
        writer.write(marker, [PARTITION], lambda tp, code: told.append((tp, code)), client="coordinator")
    assert told == [(PARTITION, ErrorCode.NONE)] * 2
    assert (broker.seen(), broker.is_unstable) == (7, False)
