"""Compaction: the newest record of each key stays, at its offset."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from fastcrc import crc32

from purgatorio.broker.log import compaction
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.time import long_work
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import check_crc, iter_records, read_header
from tests.batches import ExactArena
from tests.broker.log.compacting import (
    DAY_MS,
    NOW_MS,
    batches,
    compact,
    compact_all,
    compacted,
    content,
    records,
)
from tests.broker.time.by_hand import slices
from tests.histories import seeds


def test_only_the_newest_record_of_each_key_stays_and_keeps_its_offset(put) -> None:
    log = compacted()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"c", b"1"), (b"a", b"3"))
    put(log, (b"d", b"1"))
    put(log, (b"b", b"2"))  # in the active segment, so b's first record stays too
    before_bytes = log.size_bytes
    freed_bytes = compact_all(log)
    assert content(log) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"a", b"3"), (5, b"d", b"1"), (6, b"b", b"2")]
    assert freed_bytes == before_bytes - log.size_bytes > 0
    assert (log.log_start_offset, log.log_end_offset) == (0, 7)


def test_a_forced_pass_compacts_the_active_segment_too_whatever_the_dirty_ratio(put) -> None:
    log = compacted(segment_bytes=10_000, min_cleanable_dirty_ratio=1.0)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"b", b"not committed"))
    compact_all(log)
    assert len(records(log)) == 4
    assert compact(log, 3, NOW_MS, forced=True) == 0, "the batch that is not committed is in the same segment"
    assert compact(log, 4, NOW_MS, forced=True) > 0
    assert content(log) == [(2, b"a", b"2"), (3, b"b", b"not committed")]
    put(log, (b"a", b"3"))
    compact(log, 5, NOW_MS, forced=True)
    assert content(log) == [(3, b"b", b"not committed"), (4, b"a", b"3")]
    assert compact(log, 5, NOW_MS, forced=True) == 0


def test_of_two_passes_at_once_one_works_and_a_forced_one_waits_for_its_turn(put) -> None:
    log = compacted()
    for number in range(6):
        put(log, (b"a", b"%d" % number))
    first = log.compaction_steps(log.log_end_offset, NOW_MS)
    next(first)
    assert compact_all(log) == 0
    forced = log.compaction_steps(log.log_end_offset, NOW_MS, forced=True)
    next(forced)
    assert len(records(log)) == 6
    for _ in first:
        pass
    for _ in forced:
        pass
    assert content(log) == [(5, b"a", b"5")]
    put(log, (b"a", b"6"))
    given_up = log.compaction_steps(log.log_end_offset, NOW_MS, forced=True)
    next(given_up)
    given_up.close()
    compact(log, log.log_end_offset, NOW_MS, forced=True)
    assert content(log) == [(6, b"a", b"6")]


def test_a_batch_keeps_the_offsets_sequences_and_epoch_of_its_remaining_records(put, batch_of) -> None:
    log = compacted()
    pairs = [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]
    put(log, *pairs, producer=(7, 1, 5), compression=Compression.LZ4, at_ms=(10, 20, 30))
    for _ in range(3):
        put(log, (b"a", b"2"), (b"c", b"2"))
    before = read_header(batches(log)[0])
    compact_all(log)
    batch = batches(log)[0]
    header = read_header(batch)
    check_crc(header, batch)
    assert (header.base_offset, header.last_offset) == (0, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 1, 5, 7)
    assert header.compression is Compression.LZ4
    assert header.partition_leader_epoch == before.partition_leader_epoch
    assert list(iter_records(batch)) == [Record(1, 20, b"b", b"1")]


def test_a_log_that_is_not_compacted_is_left_alone(put) -> None:
    log = compacted(cleanup_policy=("delete",))
    for _ in range(6):
        put(log, (b"a", b"1"))
    assert compact_all(log) == 0
    assert len(records(log)) == 6


def test_the_active_segment_is_never_touched(put) -> None:
    log = compacted(segment_bytes=10_000)
    for _ in range(6):
        put(log, (b"a", b"1"))
    assert compact_all(log) == 0
    assert len(records(log)) == 6


def test_nothing_at_or_above_the_high_watermark_is_touched(put) -> None:
    log = compacted(segment_bytes=80)
    for _ in range(6):
        put(log, (b"a", b"1"))
    assert compact(log, 3, NOW_MS) > 0
    assert [record.offset for record in records(log)] == [2, 3, 4, 5]


def test_records_without_a_key_go_since_the_topic_was_not_compacted_when_they_came(put, batch_of) -> None:
    log = compacted(cleanup_policy=("delete",))
    log.append_as_leader(batch_of(b"keyless", b"two"), leader_epoch=0, wall_ms=NOW_MS)
    for key in (b"a", b"b", b"c"):
        put(log, (key, b"1"))
    log.config = compacted().config
    compact_all(log)
    assert [record.key for record in records(log)] == [b"a", b"b", b"c"]


def test_a_tombstone_removes_its_key_and_goes_itself_after_its_time(put) -> None:
    log = compacted(delete_retention_ms=DAY_MS)
    put(log, (b"a", b"1"), at_ms=100)
    put(log, (b"a", None), (b"b", b"1"), at_ms=200)
    for key in (b"c", b"d", b"e"):
        put(log, (key, b"1"))
    compact_all(log, NOW_MS)
    assert content(log)[0] == (1, b"a", None)
    assert records(log)[0].timestamp_ms == 200
    assert read_header(batches(log)[0]).delete_horizon_ms == NOW_MS + DAY_MS
    compact_all(log, NOW_MS + DAY_MS - 1)
    assert content(log)[0] == (1, b"a", None)
    compact_all(log, NOW_MS + DAY_MS)
    assert content(log)[0] == (2, b"b", b"1")
    assert all(record.value is not None for record in records(log))


def test_a_second_pass_does_not_postpone_the_end_of_a_tombstone(put) -> None:
    log = compacted(delete_retention_ms=DAY_MS)
    put(log, (b"a", None))
    for n in range(3):
        put(log, (b"%d" % n, b"1"))
    compact_all(log, NOW_MS)
    for n in range(3):
        put(log, (b"%d" % n, b"2"))
    compact_all(log, NOW_MS + 10)
    assert read_header(batches(log)[0]).delete_horizon_ms == NOW_MS + DAY_MS


def test_the_last_five_batches_of_a_producer_stay_empty_so_that_its_retries_are_recognised(put) -> None:
    """A replica that begins empty and copies the compacted log has the whole duplicate window."""
    log = compacted(segment_bytes=90)
    for sequence in range(40, 47):
        put(log, (b"a", b"1"), producer=(7, 0, sequence))
    for _ in range(3):
        put(log, (b"a", b"3"))
    compact_all(log)
    headers = [read_header(batch) for batch in batches(log)]
    kept = [header for header in headers if header.producer_id == 7]
    assert [(h.base_offset, h.record_count, h.last_sequence) for h in kept] == [(n, 0, 40 + n) for n in range(2, 7)]
    assert all(header.compression is Compression.NONE for header in kept)
    fresh = compacted()
    fresh.append_as_follower(b"".join(batches(log)))
    assert [batch.base_sequence for batch in fresh.producers.get(7).batches] == [42, 43, 44, 45, 46]
    log.truncate_to(8)
    assert log.producers.get(7).next_sequence == 47


def test_the_last_batch_of_a_pass_stays_so_that_replicas_agree_where_the_log_ends(put) -> None:
    log = compacted(segment_bytes=80)
    put(log, (b"x", b"1"))
    put(log, (b"a", None))
    put(log, (b"b", b"1"))
    compact(log, 2, NOW_MS)
    compact(log, 2, NOW_MS + 2 * DAY_MS)
    assert [(read_header(b).base_offset, read_header(b).record_count) for b in batches(log)] == [(0, 1), (1, 0), (2, 1)]


def test_small_segments_are_merged(put) -> None:
    log = compacted(segment_bytes=400)
    for n in range(100):
        put(log, (b"%d" % (n % 3), b"x" * 10))
    before = log.segment_count
    compact_all(log)
    assert before > 15
    assert log.segment_count <= 3
    assert log.size_between(0, log.log_end_offset) == log.size_bytes == sum(map(len, batches(log)))


def test_a_batch_that_cannot_be_read_stays(put, batch_of) -> None:
    log = compacted(cleanup_policy=("delete",))
    good = batch_of(b"value", keys=(b"a",))
    log.append_as_follower(_with_garbage(good))
    for _ in range(4):
        put(log, (b"a", b"2"))
    log.config = compacted().config
    compact_all(log)
    assert read_header(batches(log)[0]).base_offset == 0


def _with_garbage(batch: bytes) -> bytes:
    raw = bytearray(batch[:61] + b"\xff" * (len(batch) - 61))
    raw[17:21] = crc32.iscsi(raw[21:]).to_bytes(4, "big")
    return bytes(raw)


# --- when it happens ---


def test_there_is_no_pass_while_too_little_is_new(put) -> None:
    log = compacted(min_cleanable_dirty_ratio=0.5, segment_bytes=80)
    for n in range(8):
        put(log, (b"%d" % n, b"1"))
    compact_all(log)
    for _ in range(4):
        put(log, (b"1", b"2"))
    assert compact_all(log) == 0
    for _ in range(8):
        put(log, (b"1", b"3"))
    assert compact_all(log) > 0


def test_records_younger_than_the_minimum_lag_stay(put) -> None:
    log = compacted(min_compaction_lag_ms=1000, segment_bytes=80)
    for at_ms in (100, 200, 5000, 5000):
        put(log, (b"a", b"1"), at_ms=at_ms)
    assert compact_all(log, 1050) == 0
    compact_all(log, 1200)
    assert [record.timestamp_ms for record in records(log)] == [200, 5000, 5000]


def test_the_maximum_lag_overrides_the_ratio_and_rolls_the_segment(put) -> None:
    log = compacted(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000, segment_bytes=10_000)
    for at_ms in (100, 100, 1101, 2200):
        put(log, (b"a", b"1"), at_ms=at_ms)
    assert log.segment_count == 3
    assert compact_all(log, 1100) > 0  # as nothing was ever compacted, all is new
    put(log, (b"b", b"1"), at_ms=3500)
    assert compact_all(log, 3200) == 0
    assert compact_all(log, 3201) > 0
    assert [record.offset for record in records(log)] == [3, 4]


def test_a_pass_without_work_costs_nothing(put) -> None:
    log = compacted()
    for n in range(6):
        put(log, (b"%d" % n, b"1"))
    compact_all(log)
    assert list(log.compaction_steps(log.log_end_offset, NOW_MS)) == []


def test_a_pass_remembers_no_more_keys_than_it_may(put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MAX_KEYS", 4)
    log = compacted(segment_bytes=160)
    for n in range(10):
        put(log, (b"%d" % n, b"1"), (b"same", b"%d" % n))
    assert log.segment_count == 10
    compact_all(log)
    assert sum(key == b"same" for _, key, _ in content(log)) > 1
    while compact_all(log):
        pass
    assert [value for _, key, value in content(log) if key == b"same"] == [b"8", b"9"]


# --- the log goes on meanwhile ---


def test_appends_between_the_steps_are_kept(put) -> None:
    log = compacted()
    for _ in range(6):
        put(log, (b"a", b"old"))
    for _ in log.compaction_steps(log.log_end_offset, NOW_MS):
        put(log, (b"b", b"new"))
    assert [record.offset for record in records(log) if record.key == b"a"] == [3, 4, 5]
    assert [record.offset for record in records(log) if record.key == b"b"] == list(range(6, log.log_end_offset))


@pytest.mark.parametrize("disturb", ["truncate", "delete", "restart"])
def test_a_pass_is_dropped_if_the_log_is_cut_meanwhile(put, disturb: str) -> None:
    log = compacted()
    for _ in range(8):
        put(log, (b"a", b"1"))
    steps = log.compaction_steps(log.log_end_offset, NOW_MS)
    next(steps)
    if disturb == "truncate":
        log.truncate_to(3)
    elif disturb == "delete":
        log.advance_log_start(4)
    else:
        log.truncate_fully_and_start_at(20)
    expected = content(log)
    for _ in steps:
        pass
    assert content(log) == expected


def test_records_after_a_truncation_are_compacted_again(put) -> None:
    log = compacted()
    for _ in range(8):
        put(log, (b"a", b"1"))
    compact_all(log)
    log.truncate_to(5)
    for _ in range(6):
        put(log, (b"a", b"2"))
    compact_all(log)
    assert len(records(log)) <= 3


def test_the_memory_of_dropped_records_is_released(put) -> None:
    budget = MemoryBudget(1 << 20, arena=ExactArena())
    log = Log(compacted().config, memory=budget)
    for _ in range(50):
        put(log, (b"a", b"1"))
    compact_all(log)
    used_bytes = budget.used_bytes
    log.close()
    assert 0 < used_bytes < 1000
    assert budget.used_bytes == 0


def test_a_follower_takes_over_a_compacted_log_with_its_gaps(put) -> None:
    log = compacted()
    for n in range(20):
        put(log, (b"%d" % (n % 4), b"1"), producer=(7, 0, n))
    compact_all(log)
    follower = compacted()
    while follower.log_end_offset < log.log_end_offset:
        read = log.read(follower.log_end_offset, max_bytes=200, end_offset=log.log_end_offset)
        follower.append_as_follower(b"".join(read.parts), wall_ms=NOW_MS)
        assert read.next_offset == follower.log_end_offset
    assert batches(follower) == batches(log)
    assert follower.producers.get(7).next_sequence == 20


@pytest.mark.parametrize("seed", seeds(25, quick=3))
def test_any_history_keeps_the_newest_of_each_key_and_every_offset_readable(seed: int, put) -> None:
    """Against a dict: a reader from the start ends with the same table, whenever passes happen."""
    rng = random.Random(seed)
    log = compacted(segment_bytes=rng.choice([150, 300, 1000]), delete_retention_ms=rng.choice([0, 500, DAY_MS]))
    written: dict[int, tuple[bytes, bytes | None]] = {}
    wall_ms = NOW_MS
    for _ in range(60):
        pairs = [
            (b"k%d" % rng.randrange(8), rng.choice([None, b"v%d" % rng.randrange(99)]))
            for _ in range(rng.randrange(1, 4))
        ]
        written.update({log.log_end_offset + n: pair for n, pair in enumerate(pairs)})
        put(log, *pairs, compression=rng.choice(list(Compression)), wall_ms=wall_ms)
        wall_ms += rng.randrange(200)
        if rng.random() < 0.2:
            compact(log, rng.randrange(log.log_end_offset + 1), wall_ms)
        if rng.random() < 0.05:
            log.truncate_to(rng.randrange(max(0, log.log_end_offset - 5), log.log_end_offset + 1))
            written = {offset: pair for offset, pair in written.items() if offset < log.log_end_offset}
    compact_all(log, wall_ms)
    table = {key: value for _, (key, value) in sorted(written.items()) if value is not None}
    for _, (key, value) in sorted(written.items()):
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    found: dict[bytes | None, bytes | None] = {}
    for offset, key, value in content(log):
        assert written[offset] == (key, value)
        found[key] = value
    assert {key: value for key, value in found.items() if value is not None} == table
    for offset in range(log.log_end_offset):
        read = log.read(offset, max_bytes=1, end_offset=log.log_end_offset)
        assert not read.parts or read_header(read.parts[0]).last_offset >= offset
        assert log.size_between(offset, log.log_end_offset) >= read.size_bytes


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_of_many_records_is_compacted_in_steps_of_bounded_work(
    put, compression: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1.2 million tiny records in one batch held the event loop for seconds, as one step."""
    for module in (compaction, long_work):
        monkeypatch.setattr(module, "SLICE", 100 * compaction.RECORD_COST)
    log = compacted(segment_bytes=1_000_000)
    put(log, *[(b"%d" % (number % 700), b"v" * 200) for number in range(1_000)], compression=compression)
    put(log, *[(b"%d" % number, b"w") for number in range(100)])
    put(log, (b"last", bytes(900_000)))
    put(log, (b"active", b"v"))
    reads: list[int] = []
    iter_unpacked = compaction.iter_unpacked

    def counted(header, data):
        for record in iter_unpacked(header, data):
            reads.append(record.offset)
            yield record

    monkeypatch.setattr(compaction, "iter_unpacked", counted)
    most = 0
    for _ in slices(log.compaction_steps(log.log_end_offset, NOW_MS)):
        most = max(most, len(reads))
        reads.clear()
    assert most <= 200, "the end of one batch and the beginning of the next, at most"
    expected = {b"%d" % number: b"w" if number < 100 else b"v" * 200 for number in range(700)}
    kept = {key: value for _, key, value in content(log)[:-2]}
    assert kept == expected
    for batch in batches(log):
        check_crc(read_header(batch), batch)


def test_many_batches_are_compacted_in_steps_of_bounded_work(put, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step put all batches into segments: 200 ms for 20,000 end markers of `__consumer_offsets`."""
    log = compacted(segment_bytes=10_000)
    for n in range(500):
        put(log, (b"%d" % n, b"v"))
    headers: list[int] = []

    def counted(batch, position=0):
        headers.append(position)
        return read_header(batch, position)

    monkeypatch.setattr(compaction, "read_header", counted)
    most = 0
    steps = log.compaction_steps(log.log_end_offset, NOW_MS)
    is_done = False
    while not is_done:
        headers.clear()
        is_done = next(steps, "done") == "done"
        most = max(most, len(headers))
    assert most <= 2


def test_a_batch_that_unpacks_to_too_much_stays_as_it_is(put) -> None:
    log = compacted(segment_bytes=100_000)
    bomb = (b"a", bytes(compaction.MAX_UNPACKED_BYTES))
    put(log, bomb, compression=Compression.ZSTD)
    put(log, (b"a", b"v" * 99_000))
    put(log, (b"b", b"v" * 99_000))
    tracemalloc.start()
    try:
        compact_all(log)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [key for _, key, _ in content(log)] == [b"a", b"a", b"b"]
    assert peak_bytes < 2 * compaction.MAX_UNPACKED_BYTES


def test_no_key_of_a_damaged_large_batch_supersedes_a_record(put, batch_of, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SLICE", 10 * compaction.RECORD_COST)
    log = compacted(segment_bytes=2_000)
    put(log, (b"a", b"1"), (b"b", b"1"))
    damaged = bytearray(batch_of(*[b"v"] * 50, keys=tuple([b"a"] * 50), base_offset=2, leader_epoch=0))
    damaged[-1] = 9  # the last record announces headers that it lacks
    damaged[17:21] = crc32.iscsi(damaged[21:]).to_bytes(4)
    log.append_as_follower(bytes(damaged), wall_ms=NOW_MS)
    put(log, (b"c", b"v" * 1_900))
    put(log, (b"c", b"v" * 1_900))
    compact_all(log)
    assert next(iter_records(batches(log)[0])).key == b"a"
