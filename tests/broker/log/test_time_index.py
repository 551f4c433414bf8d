"""Offsets by timestamp, against a look at every record."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from fastcrc import crc32

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.time_index import MAX_LOOKS, MAX_UNPACKED_BYTES, LookUpBudget, TimestampOffset
from purgatorio.broker.log.validator import RecordValidation
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.records import iter_records, read_header
from tests.batches import batches_of
from tests.histories import seeds


def append(log: Log, batch: bytes, epoch: int = 0) -> None:
    log.append_as_leader(batch, leader_epoch=epoch, wall_ms=10_000)


def test_the_first_record_that_is_not_older_is_found_inside_its_batch(batch_of) -> None:
    log = Log(LogConfig())
    append(log, batch_of(b"a", b"b", at_ms=(100, 200)), 3)
    append(log, batch_of(b"c", b"d", b"e", at_ms=(300, 250, 400), compression=Compression.GZIP), 4)
    answers = {ms: log.offset_for_timestamp(ms, 5) for ms in (0, 100, 101, 201, 251, 301, 400, 401)}
    assert answers == {
        0: (0, 100, 3),
        100: (0, 100, 3),
        101: (1, 200, 3),
        201: (2, 300, 4),
        251: (2, 300, 4),
        301: (4, 400, 4),
        400: (4, 400, 4),
        401: None,
    }


def test_records_at_or_after_the_end_are_not_seen(batch_of) -> None:
    log = Log(LogConfig())
    append(log, batch_of(b"a", at_ms=100))
    append(log, batch_of(b"b", b"c", at_ms=(200, 300)))
    assert log.offset_for_timestamp(150, 1) is None
    assert log.offset_for_timestamp(250, 2) is None
    assert log.max_timestamp(1) == (0, 100, 0)
    assert log.max_timestamp(0) is None


def test_records_before_the_start_are_not_seen(batch_of) -> None:
    log = Log(LogConfig())
    append(log, batch_of(b"a", b"b", b"c", at_ms=(500, 100, 400)))
    append(log, batch_of(b"d", at_ms=300))
    log.advance_log_start(1)
    assert log.offset_for_timestamp(0, 4) == (1, 100, 0)
    assert log.offset_for_timestamp(450, 4) is None
    assert log.max_timestamp(4) == (2, 400, 0)
    log.advance_log_start(3)
    assert log.max_timestamp(4) == (3, 300, 0)


def test_an_empty_log_has_no_timestamps() -> None:
    log = Log(LogConfig())
    assert log.offset_for_timestamp(0, 0) is None
    assert log.max_timestamp(0) is None


def test_the_highest_timestamp_is_that_of_the_first_record_that_has_it(batch_of) -> None:
    log = Log(LogConfig(segment_bytes=120))
    for times in ((100,), (300, 200), (300,), (250,)):
        append(log, batch_of(*[b"v" * 20] * len(times), at_ms=times))
    assert log.segment_count > 1
    assert log.max_timestamp(5) == (1, 300, 0)


def test_with_append_times_a_batch_need_not_be_read(batch_of) -> None:
    log = Log(LogConfig(message_timestamp_type="LogAppendTime"))
    for wall_ms in (100, 200):
        log.append_as_leader(batch_of(b"a", b"b", b"c"), leader_epoch=0, wall_ms=wall_ms)
    assert log.offset_for_timestamp(101, 6) == (3, 200, 0)
    assert log.max_timestamp(6) == (3, 200, 0)
    log.advance_log_start(4)
    assert log.offset_for_timestamp(0, 6) == (4, 200, 0)


def test_of_a_batch_that_cannot_be_read_the_header_counts(batch_of) -> None:
    log = Log(LogConfig(), validation=RecordValidation(full=False))
    good = batch_of(b"a", b"b", at_ms=(100, 200))
    raw = bytearray(good[:61] + b"\xff" * (len(good) - 61))
    raw[17:21] = crc32.iscsi(raw[21:]).to_bytes(4, "big")
    append(log, bytes(raw))
    assert log.offset_for_timestamp(150, 2) == (0, 200, 0)
    assert log.max_timestamp(2) == (0, 200, 0)


@pytest.mark.parametrize("seed", seeds(20, quick=3))
def test_every_look_up_agrees_with_a_look_at_every_record(seed: int, batch_of) -> None:
    rng = random.Random(seed)
    log = Log(LogConfig(segment_bytes=600))
    for _ in range(30):
        times = tuple(rng.choice([-1, *range(0, 2000, 50)]) for _ in range(rng.randrange(1, 5)))
        append(log, batch_of(*[b"v"] * len(times), at_ms=times), rng.randrange(3))
    log.advance_log_start(rng.randrange(log.log_end_offset))
    start = log.log_start_offset
    everything = [
        TimestampOffset(record.offset, record.timestamp_ms, read_header(batch).partition_leader_epoch)
        for batch in batches_of(log.read(start, max_bytes=10**9, end_offset=log.log_end_offset).parts)
        for record in iter_records(batch)
        if record.offset >= start
    ]
    read = log.read(start, max_bytes=10**9, end_offset=10**9)
    ends = [read_header(batch).last_offset + 1 for batch in batches_of(read.parts)]
    for end in [start, *ends]:
        visible = [record for record in everything if record.offset < end]
        for timestamp_ms in range(-1, 2100, 25):
            expected = next((record for record in visible if record.timestamp_ms >= timestamp_ms), None)
            assert log.offset_for_timestamp(timestamp_ms, end) == expected
        newest = max(visible, key=lambda record: (record.timestamp_ms, -record.offset), default=None)
        assert log.max_timestamp(end) == newest


def overstated(batch: bytes, max_timestamp_ms: int) -> bytes:
    """The batch with a highest timestamp that no record has, as a client may write it."""
    changed = bytearray(batch)
    changed[35:43] = max_timestamp_ms.to_bytes(8)
    changed[17:21] = crc32.iscsi(changed[21:]).to_bytes(4)
    return bytes(changed)


BOMB_BYTES = 30 * 1024 * 1024
LATER_MS = 1_000_000


@pytest.fixture
def bombs(batch_of) -> Log:
    """Batches of a few KB that unpack to 30 MiB each, and whose headers promise a late record."""
    log = Log(
        LogConfig(message_timestamp_after_max_ms=10 * LATER_MS),
        validation=RecordValidation(full=False),  # as record.validation=header appends them
    )
    for _ in range(10):
        bomb = batch_of(bytes(BOMB_BYTES), at_ms=100, compression=Compression.ZSTD)
        append(log, overstated(bomb, LATER_MS))
    return log


def test_batches_that_unpack_to_much_are_not_unpacked(bombs: Log) -> None:
    """Thirty of 3 KB that unpack to 99 MiB took 5 s; the answer is the start of the first of them."""
    tracemalloc.start()
    try:
        assert bombs.offset_for_timestamp(LATER_MS, 10) == (0, LATER_MS, 0)
        assert bombs.max_timestamp(10) == (0, LATER_MS, 0)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3 * MAX_UNPACKED_BYTES


def test_a_batch_that_cannot_be_unpacked_spends_the_budget(batch_of) -> None:
    """To find that out of the last member of gzip may have taken as long as any batch."""
    log, budget = Log(LogConfig(), validation=RecordValidation(full=False)), LookUpBudget()
    raw = bytearray(batch_of(b"a", b"b", at_ms=(4, 5), compression=Compression.GZIP))
    raw[-8:] = bytes(8)
    raw[17:21] = crc32.iscsi(raw[21:]).to_bytes(4, "big")
    append(log, bytes(raw))
    assert log.offset_for_timestamp(5, 1, budget) is not None
    assert budget.is_spent


def test_the_look_ups_of_a_request_share_its_budget(batch_of) -> None:
    """Each batch alone is within it."""
    log = Log(LogConfig(message_timestamp_after_max_ms=10 * LATER_MS))
    for _ in range(5):
        append(log, overstated(batch_of(bytes(3 * 1024 * 1024), at_ms=100, compression=Compression.ZSTD), LATER_MS))
    budget = LookUpBudget()
    assert log.offset_for_timestamp(LATER_MS, 5, budget) == (2, LATER_MS, 0), "two were unpacked in vain"
    assert log.offset_for_timestamp(LATER_MS, 5, budget) == (0, LATER_MS, 0), "none is any more"


def test_many_records_are_looked_at_only_so_far(batch_of) -> None:
    """The answer is not after the wanted record, so that a consumer misses none."""
    log = Log(LogConfig())
    times = (*(100,) * (MAX_LOOKS + 500), 200)
    append(log, batch_of(*[b"v"] * len(times), at_ms=times))
    found = log.offset_for_timestamp(200, len(times))
    assert found is not None
    assert MAX_LOOKS - 10 < found.offset <= len(times) - 1


def test_many_headers_are_looked_at_only_so_far(batch_of) -> None:
    """One that lies makes all later ones of its segment candidates."""
    log = Log(LogConfig(message_timestamp_after_max_ms=10 * LATER_MS))
    append(log, overstated(batch_of(b"v", at_ms=100), LATER_MS))
    for _ in range(50):
        append(log, batch_of(b"v", at_ms=100))
    budget = LookUpBudget()
    budget.looks = 20
    assert log.offset_for_timestamp(LATER_MS, 51, budget) == (19, 100, 0)
