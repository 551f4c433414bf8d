"""What a log has is known after every change of it, and a batch that stays is not read again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.segment import Segment
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, read_header
from purgatorio.simulation.checks import known_log
from purgatorio.simulation.checks.known_log import BatchPool, KnownBatch, KnownLog
from tests.batches import batches_of
from tests.histories import seeds


class Replica:
    """A log of small segments with batches of three producers, and what is known of it."""

    def __init__(self, pool: BatchPool) -> None:
        self.log = Log(LogConfig(segment_bytes=300))
        partition: Any = SimpleNamespace(log=self.log)
        self.known = KnownLog(partition, pool, "broker-1")

    def append(self, count: int = 1, *, leader_epoch: int = 0) -> None:
        for _ in range(count):
            producer_id = self.log.log_end_offset % 3
            state = self.log.producers.get(producer_id)
            batch = build_batch(
                [Record(0, -1, None, b"value", ())],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0 if state is None else state.next_sequence,
            )
            self.log.append_as_leader(batch, leader_epoch=leader_epoch, wall_ms=0)

    def transaction(self, *, committed: bool) -> None:
        """Append a transaction of one record, and its marker."""
        batch = build_batch(
            [Record(0, -1, None, b"value", ())],
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        end = build_end_marker(EndMarker(committed, 0), producer_id=7, producer_epoch=0, timestamp_ms=0)
        for each in (batch, end):
            self.log.append_as_leader(each, leader_epoch=0, wall_ms=0, from_client=False)

    def copy(self, leader: Replica) -> None:
        """Append what the leader has from this log's end on."""
        end_offset = leader.log.log_end_offset
        parts = batches_of(leader.log.read(self.log.log_end_offset, max_bytes=10**9, end_offset=end_offset).parts)
        self.log.append_as_follower(b"".join(parts), wall_ms=0, leader_epoch=9)

    def read_on(self) -> KnownLog:
        """Read on, and compare what is known with the log."""
        self.known.read_on()
        headers = [read_header(raw) for segment in self.log._segments for raw in segment.batches()]
        assert self.known.batches == [
            KnownBatch(h.base_offset, h.last_offset, h.partition_leader_epoch, h.crc) for h in headers
        ]
        assert self.known.memory_bytes == self.log._segments.memory_bytes
        return self.known


@pytest.fixture
def pool() -> BatchPool:
    return BatchPool()


@pytest.fixture
def parsed() -> Iterator[Counter[bytes]]:
    """How often each batch is parsed for a `KnownLog`."""
    counted: Counter[bytes] = Counter()

    def count(raw: bytes) -> Any:
        counted[bytes(raw)] += 1
        return read_header(raw)

    with mock.patch.object(known_log, "read_header", count):
        yield counted


@pytest.mark.parametrize("seed", seeds(20, quick=3))
def test_after_any_changes_the_batches_of_the_log_are_known(pool: BatchPool, seed: int) -> None:
    rng, replica = random.Random(seed), Replica(pool)
    for epoch in range(100):
        log = replica.log
        for _ in range(rng.randint(1, 3)):
            change = rng.randrange(6)
            if change < 3:
                replica.append(rng.randint(1, 8), leader_epoch=epoch)
            elif change == 3:
                log.truncate_to(rng.randint(max(0, log.log_end_offset - 6), log.log_end_offset))
            elif change == 4:
                log.advance_log_start(rng.randint(log.log_start_offset, log.log_end_offset))
            elif rng.random() < 0.2:
                log.truncate_fully_and_start_at(rng.randint(0, log.log_end_offset))
        replica.read_on()


def test_an_appended_batch_is_read_once(pool: BatchPool, parsed: Counter[bytes]) -> None:
    replica = Replica(pool)
    for count in (5, 0, 40, 1):
        replica.append(count)
        replica.read_on()
    replica.log.advance_log_start(20)
    replica.read_on()
    replica.log.truncate_to(40)
    replica.append(5, leader_epoch=1)
    replica.read_on()
    assert len(parsed) == sum(parsed.values()) == 46 + 5


def test_what_was_read_of_one_replica_is_not_parsed_again_in_another(pool: BatchPool, parsed: Counter[bytes]) -> None:
    leader, follower = Replica(pool), Replica(pool)
    leader.append(30)
    follower.copy(leader)
    assert leader.read_on().batches == follower.read_on().batches
    assert sum(parsed.values()) == 30


def test_nothing_is_walked_where_nothing_has_changed(pool: BatchPool) -> None:
    replica = Replica(pool)
    replica.append(30)
    replica.read_on()
    with mock.patch.object(Segment, "index_of", side_effect=AssertionError("looked into a segment")):
        replica.known.read_on()


def test_batches_that_were_compared_stay_so_until_they_are_gone(pool: BatchPool) -> None:
    replica = Replica(pool)
    replica.append(30)
    replica.read_on().checked = 25
    replica.log.advance_log_start(12)
    known = replica.read_on()
    assert known.checked == 25 - known.batches[0].base_offset > 0
    replica.log.truncate_to(20)
    known = replica.read_on()
    assert known.checked == len(known.batches)


def test_logs_that_end_in_the_same_batch_are_compared_where_both_have_batches(pool: BatchPool) -> None:
    leader, follower = Replica(pool), Replica(pool)
    leader.append(30)
    follower.copy(leader)
    leader.log.advance_log_start(12)
    assert not leader.read_on().differs_from(follower.read_on())
    assert not follower.known.differs_from(leader.known)
    follower.log.truncate_to(20)
    follower.append(1, leader_epoch=1)
    follower.copy(leader)
    assert leader.read_on().batches[-1] == follower.read_on().batches[-1]
    assert leader.known.differs_from(follower.known)
    assert follower.known.differs_from(leader.known)


def test_producers_are_compared_after_appends_and_truncations(pool: BatchPool) -> None:
    leader, follower = Replica(pool), Replica(pool)
    leader.append(30)
    follower.copy(leader)
    assert not leader.read_on().producers_differ_from(follower.read_on())
    follower.log.truncate_to(29)
    assert leader.read_on().producers_differ_from(follower.read_on())
    follower.copy(leader)
    assert not leader.read_on().producers_differ_from(follower.read_on())
    follower.log.producers.clear()
    assert leader.read_on().producers_differ_from(follower.read_on())


def test_transactions_are_compared_as_producers_are(pool: BatchPool) -> None:
    one, other = Replica(pool), Replica(pool)
    one.transaction(committed=False)
    other.copy(one)
    assert not one.read_on().producers_differ_from(other.read_on())
    other.log.producers.aborted.truncate(0)
    assert one.known.producers_differ_from(other.known)


def test_aborts_behind_the_later_log_start_are_compared(pool: BatchPool) -> None:
    """A replica that has not heard of the leader's new start still knows the aborts before it: seeds 2169 and 2769."""
    one, other = Replica(pool), Replica(pool)
    one.transaction(committed=False)
    one.transaction(committed=False)
    other.copy(one)
    one.log.advance_log_start(2)
    assert len(one.log.producers.aborted) < len(other.log.producers.aborted)
    assert one.read_on().has_first_batch
    assert not one.known.producers_differ_from(other.read_on())
    assert not other.known.producers_differ_from(one.known)
    one.log.producers.aborted.truncate(2)
    assert one.known.producers_differ_from(other.known)
    assert other.known.producers_differ_from(one.known)


def test_a_compacted_log_is_not_read(pool: BatchPool) -> None:
    replica = Replica(pool)
    replica.append(10)
    replica.read_on()
    replica.log.config = LogConfig(segment_bytes=300, cleanup_policy=("compact",))
    replica.known.read_on()
    assert (replica.known.batches, replica.known.checked) == ([], 0)
    assert replica.known.memory_bytes == replica.log._segments.memory_bytes
    replica.log.config = LogConfig(segment_bytes=300)
    replica.read_on()
