"""How a shard is loaded from a log that changes meanwhile."""

from __future__ import annotations

from purgatorio.broker.coordinator import shards
from purgatorio.broker.coordinator.shard import Shard
from purgatorio.broker.coordinator.shards import load_steps
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.time.long_work import SLICE
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import BatchHeader, build_batch
from tests.broker.time.by_hand import turns_of

TP = TopicPartition("__consumer_offsets", 0)
VALUE = b"v" * 1_000
BATCHES = 1_000


class Replayed(Shard):
    """Keeps the offsets of the batches that were replayed, and the results of transactions."""

    def __init__(self) -> None:
        super().__init__(TP, 0)
        self.offsets: list[int] = []
        self.ends: list[tuple[int, bool]] = []

    def replay(self, batch: BatchHeader, key: bytes | None, value: bytes | None) -> int:
        self.offsets.append(batch.base_offset)
        return 1

    def replay_end(self, batch: BatchHeader, marker: EndMarker) -> None:
        self.ends.append((batch.producer_id, marker.committed))


def log_with(batches: int) -> Log:
    """Return a log of batches of one record each, four times as many bytes as are read at once."""
    log = Log(LogConfig(segment_bytes=100_000))
    for _ in range(batches):
        log.append_as_leader(build_batch([Record(0, 0, b"k", VALUE, ())]), leader_epoch=0, wall_ms=0)
    log.high_watermark = log.log_end_offset
    return log


def test_all_records_are_replayed_in_steps() -> None:
    log, replayed = log_with(BATCHES), Replayed()
    assert log.size_bytes > 3 * shards.READ_BYTES
    assert turns_of(load_steps(TP, log, replayed)) in range(5, 1 + 2 * BATCHES * shards.RECORD_COST // SLICE)
    assert replayed.offsets == list(range(BATCHES))


def test_a_log_whose_start_moves_while_it_is_loaded_is_loaded_from_there_on() -> None:
    """DeleteRecords, or the memory cap: what is not there any more is skipped, and the rest is not lost."""
    log, replayed = log_with(BATCHES), Replayed()
    steps = load_steps(TP, log, replayed)
    next(steps)
    before = len(replayed.offsets)
    assert log.advance_log_start(900)
    for _ in steps:
        pass
    in_hand = replayed.offsets[before : replayed.offsets.index(900)]
    assert replayed.offsets[-100:] == list(range(900, BATCHES))
    assert in_hand == list(range(before, before + len(in_hand))), "the rest of what was read before"
    assert len(in_hand) * len(VALUE) < shards.READ_BYTES


def test_a_log_that_is_emptied_while_it_is_loaded_ends_the_load() -> None:
    log, replayed = log_with(BATCHES), Replayed()
    steps = load_steps(TP, log, replayed)
    next(steps)
    assert log.advance_log_start(log.log_end_offset)
    for _ in steps:
        pass
    assert len(replayed.offsets) < BATCHES


def test_records_that_are_appended_while_it_is_loaded_are_loaded() -> None:
    log, replayed = log_with(BATCHES), Replayed()
    steps = load_steps(TP, log, replayed)
    next(steps)
    log.append_as_leader(build_batch([Record(0, 0, b"k", VALUE, ())]), leader_epoch=0, wall_ms=0)
    for _ in steps:
        pass
    assert replayed.offsets == list(range(BATCHES + 1))


def test_markers_are_replayed_with_their_result() -> None:
    log, replayed = Log(LogConfig()), Replayed()
    for producer_id, committed in ((7, True), (8, False)):
        marker = build_end_marker(EndMarker(committed, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=0)
        log.append_as_leader(marker, leader_epoch=0, wall_ms=0, from_client=False)
    for _ in load_steps(TP, log, replayed):
        pass
    assert replayed.ends == [(7, True), (8, False)]
