"""Compaction of transactions: aborted records go, markers stay as long as a record or a follower may need them."""

from __future__ import annotations

from purgatorio.broker.log.log import Log
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.records import read_header
from tests.broker.log.compacting import (
    DELETE_RETENTION_MS,
    NOW_MS,
    batches,
    compact_all,
    compacted,
    content,
    records,
)


def test_open_transactions_and_later_records_are_not_touched(put) -> None:
    log = compacted(segment_bytes=80)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"a", b"3"), producer=(7, 0, 0), transactional=True)
    put(log, (b"a", b"4"))
    put(log, (b"a", b"5"))
    compact_all(log)
    assert [record.offset for record in records(log)] == [1, 2, 3, 4]


def end(log: Log, *, committed: bool, producer_id: int = 7, epoch: int = 0) -> None:
    """Append a marker that ends a producer's transaction."""
    marker = build_end_marker(
        EndMarker(committed, 0), producer_id=producer_id, producer_epoch=epoch, timestamp_ms=NOW_MS
    )
    log.append_as_leader(marker, leader_epoch=0, wall_ms=NOW_MS, from_client=False)


def fill(put, log: Log, count: int = 3) -> None:
    """Append plain records, so that those before are not in the active segment."""
    for _ in range(count):
        put(log, (b"fill", b"1"))


def markers(log: Log) -> list[int]:
    """The offsets of the control batches."""
    return [header.base_offset for header in map(read_header, batches(log)) if header.is_control]


def test_a_committed_record_is_compacted_as_any_other_and_stays_in_its_transaction(put) -> None:
    log = compacted(segment_bytes=80)
    put(log, (b"a", b"1"), (b"b", b"1"), producer=(7, 0, 0), transactional=True)
    put(log, (b"a", b"2"), producer=(7, 0, 2), transactional=True)
    end(log, committed=True)
    fill(put, log)
    compact_all(log)
    kept = [record for record in content(log) if record[1] in (b"a", b"b")]
    assert kept == [(1, b"b", b"1"), (2, b"a", b"2")]
    header = read_header(batches(log)[0])
    assert (header.is_transactional, header.record_count, header.last_offset) == (True, 1, 1)


def test_an_aborted_record_goes_and_supersedes_none(put) -> None:
    log = compacted(segment_bytes=80)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"aborted"), producer=(7, 0, 0), transactional=True)
    end(log, committed=False)
    fill(put, log)
    compact_all(log)
    assert [record for record in content(log) if record[1] == b"a"] == [(0, b"a", b"1")]
    assert len(log.producers.aborted) == 0


def test_the_header_of_an_aborted_batch_stays_for_its_producers_retries_and_the_marker_with_it(put) -> None:
    """Without the marker, a replica that copies the log would hold its readers back for ever."""
    log = compacted(segment_bytes=80)
    put(log, (b"a", b"1"), producer=(7, 0, 0), transactional=True)
    end(log, committed=False)
    put(log, (b"a", b"2"), producer=(7, 0, 1), transactional=True)
    end(log, committed=False)
    fill(put, log)
    compact_all(log, NOW_MS)
    compact_all(log, NOW_MS + 10 * DELETE_RETENTION_MS)
    headers = [read_header(batch) for batch in batches(log)][:4]
    assert [header.is_control for header in headers] == [False, True, False, True]
    assert [header.record_count for header in headers] == [0, 1, 0, 1]
    fresh = Log(log.config)
    fresh.append_as_follower(b"".join(batches(log)))
    assert fresh.last_stable_offset(fresh.log_end_offset) == fresh.log_end_offset
    assert [batch.base_sequence for batch in fresh.producers.get(7).batches] == [0, 1]


def test_a_marker_stays_for_the_delete_retention_after_its_data_is_gone(put) -> None:
    log = compacted(segment_bytes=80, delete_retention_ms=DELETE_RETENTION_MS)
    put(log, (b"a", b"1"), producer=(7, 0, 0), transactional=True)
    end(log, committed=False)
    log.producers.expire(10**12)  # the headers of its batches go, too
    fill(put, log)
    compact_all(log)
    assert markers(log) == [1]
    compact_all(log, NOW_MS + DELETE_RETENTION_MS - 1)
    assert markers(log) == [1]
    assert read_header(batches(log)[0]).delete_horizon_ms == NOW_MS + DELETE_RETENTION_MS
    compact_all(log, NOW_MS + DELETE_RETENTION_MS)
    assert markers(log) == []


def test_a_commit_marker_stays_as_long_as_a_record_of_its_transaction(put) -> None:
    log = compacted(segment_bytes=80, delete_retention_ms=DELETE_RETENTION_MS)
    put(log, (b"a", b"1"), producer=(7, 0, 0), transactional=True)
    end(log, committed=True)
    log.producers.expire(10**12)
    fill(put, log)
    for wall_ms in (NOW_MS, NOW_MS + DELETE_RETENTION_MS):
        compact_all(log, wall_ms)
        assert markers(log) == [1]
    put(log, (b"a", b"2"))
    fill(put, log)
    for wall_ms in (NOW_MS + 2 * DELETE_RETENTION_MS, NOW_MS + 3 * DELETE_RETENTION_MS):
        compact_all(log, wall_ms)
    assert markers(log) == []


def test_a_marker_goes_also_if_an_earlier_transaction_of_its_producer_stays(put) -> None:
    log = compacted(segment_bytes=80, delete_retention_ms=DELETE_RETENTION_MS)
    put(log, (b"a", b"1"), producer=(7, 0, 0), transactional=True)
    end(log, committed=True)
    put(log, (b"a", b"2"), producer=(7, 0, 1), transactional=True)
    end(log, committed=False)
    log.producers.expire(10**12)
    fill(put, log)
    for wall_ms in (NOW_MS, NOW_MS + DELETE_RETENTION_MS):
        compact_all(log, wall_ms)
    assert markers(log) == [1]


def test_the_last_marker_of_a_known_producer_stays(put) -> None:
    """It is where replicas learn the coordinator's epoch from, which locks out an older coordinator."""
    log = compacted(segment_bytes=80, delete_retention_ms=DELETE_RETENTION_MS)
    end(log, committed=False)
    end(log, committed=False)
    fill(put, log)
    for n in range(3):
        compact_all(log, NOW_MS + n * DELETE_RETENTION_MS)
    assert markers(log) == [1]


def test_a_control_batch_of_another_kind_stays(put, batch_of) -> None:
    log = compacted(segment_bytes=80, delete_retention_ms=0)
    other = batch_of(b"", keys=(b"\x00\x00\x00\x05",), producer=(7, 0, -1), control=True, transactional=True)
    log.append_as_leader(other, leader_epoch=0, wall_ms=0, from_client=False)
    fill(put, log)
    for n in range(3):
        compact_all(log, NOW_MS + n)
    assert markers(log) == [0]
