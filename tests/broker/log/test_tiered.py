"""A log of which a tier has the older records: what stays, what goes, and where it begins in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.errors import MemoryExhausted, OffsetInTier, OffsetOutOfRange
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from tests.logs import capture_logs

TIERED = LogConfig(remote_storage_enable=True, segment_bytes=200, retention_ms=-1)
EVERYTHING = 10**9


@pytest.fixture
def append(batch_of) -> Callable[..., None]:
    """A function that appends batches of one record, two of which fill a segment of 200 bytes."""

    def append_to(log: Log, count: int, *, epoch: int = 0, wall_ms: int = 2000, committed: bool = True) -> None:
        for _ in range(count):
            log.append_as_leader(batch_of(b"value" * 4, at_ms=wall_ms), leader_epoch=epoch, wall_ms=wall_ms)
        if committed:
            log.commit_to(log.log_end_offset)

    return append_to


@pytest.fixture
def log(append) -> Log:
    """A log of five segments of two records, and an active one with one."""
    log = Log(TIERED)
    append(log, 11)
    assert log.segment_count == 6
    return log


def keep_two(log: Log) -> None:
    """Delete by local retention what may go of all but the last two segments."""
    log.config = replace(log.config, local_retention_bytes=300)
    log.apply_retention(10_000, log.high_watermark)


def test_what_is_not_copied_stays_whatever_retention_says(log: Log) -> None:
    keep_two(log)
    assert (log.log_start_offset, log.local_start_offset, log.segment_count) == (0, 0, 6)


def test_what_is_copied_leaves_memory_and_the_log_starts_where_it_did(log: Log) -> None:
    log.copied(4)
    keep_two(log)
    assert (log.log_start_offset, log.local_start_offset, log.segment_count) == (0, 4, 4)
    log.copied(10)
    keep_two(log)
    assert (log.log_start_offset, log.local_start_offset) == (0, 6)


def test_records_that_only_the_tier_has_are_another_answer_than_those_that_are_gone(log: Log) -> None:
    log.copied(4)
    keep_two(log)
    log.advance_log_start(1)
    with pytest.raises(OffsetInTier):
        log.read(3, max_bytes=EVERYTHING, end_offset=11)
    with pytest.raises(OffsetOutOfRange):
        log.read(0, max_bytes=EVERYTHING, end_offset=11)
    assert log.read(4, max_bytes=EVERYTHING, end_offset=11).next_offset == 11


def test_epochs_are_kept_from_the_log_start_on(append) -> None:
    log = Log(TIERED)
    append(log, 4, epoch=1)
    append(log, 6, epoch=2)
    log.copied(6)
    keep_two(log)
    assert (log.local_start_offset, log.epochs.entries) == (6, [(1, 0), (2, 4)])
    log.advance_log_start(5)
    assert (log.log_start_offset, log.local_start_offset, log.epochs.entries) == (5, 6, [(2, 5)])
    log.advance_log_start(8)
    assert (log.log_start_offset, log.local_start_offset) == (8, 8)


def test_segments_are_copied_in_order_when_they_are_closed_and_decided(append) -> None:
    log = Log(TIERED)
    append(log, 1)
    assert log.to_copy() is None, "the active one"
    append(log, 4, committed=False)
    assert log.to_copy() is None, "nothing of it is committed"
    log.commit_to(4)
    first = log.to_copy()
    assert first is not None
    assert (first[0].base_offset, first[0].next_offset) == (0, 2)
    log.copied(2)
    second = log.to_copy()
    assert second is not None
    assert second[0].base_offset == 2
    log.copied(4)
    assert log.to_copy() is None


def test_a_log_says_when_a_segment_was_closed_and_whether_one_is_not_copied(append) -> None:
    log, closed = Log(TIERED), []
    log.on_closed = lambda: closed.append(log.log_end_offset)
    append(log, 5)
    assert (closed, log.awaits_copy) == ([2, 4], True)
    log.copied(2)
    assert log.awaits_copy
    log.copied(4)
    assert not log.awaits_copy
    log.truncate_to(3)
    append(log, 2)
    assert (closed, log.awaits_copy) == ([2, 4, 4], True)
    log.config = replace(log.config, remote_storage_enable=False)
    append(log, 4)
    assert (len(closed), log.awaits_copy) == (4, False)
    log.config = TIERED
    assert (len(closed), log.awaits_copy) == (5, True)


def test_an_open_transaction_keeps_segments_from_being_copied(batch_of, append) -> None:
    log = Log(TIERED)
    log.append_as_leader(batch_of(b"value" * 4, producer=(7, 0, 0), transactional=True), leader_epoch=0, wall_ms=2000)
    append(log, 6)
    assert log.to_copy() is None


def test_an_operator_closes_the_active_segment_and_drops_what_is_copied(log: Log) -> None:
    assert log.close_active(3_000) == 11
    assert log.close_active(3_000) == 11, "an empty segment is not closed"
    log.copied(8)
    assert log.drop_copied() > 0
    assert (log.log_start_offset, log.local_start_offset, log.copied_to) == (0, 8, 8)
    log.copied(11)
    assert (log.drop_copied() > 0, log.local_start_offset, log.size_bytes, log.drop_copied()) == (True, 11, 0, 0)


def test_a_follower_drops_its_active_segment_when_all_of_it_is_copied(append) -> None:
    log = Log(TIERED)
    append(log, 11, committed=False)
    log.copied(11)
    log.drop_copied()
    assert (log.local_start_offset, log.log_end_offset) == (11, 11)
    assert (log.high_watermark, log.uncommitted_bytes) == (11, 0), "what is copied is committed"


def test_what_can_be_copied_ends_before_an_open_transaction(batch_of, append) -> None:
    log = Log(TIERED)
    append(log, 2)
    log.append_as_leader(batch_of(b"t", producer=(7, 0, 0), transactional=True), leader_epoch=0, wall_ms=2000)
    log.commit_to(log.log_end_offset)
    assert log.close_active(3_000) == 2


def test_an_active_segment_past_the_local_retention_is_closed(log: Log) -> None:
    log.config = replace(TIERED, local_retention_ms=100)
    log.copied(10)
    log.apply_retention(2_050, 11)
    assert log.segment_count == 6
    log.apply_retention(2_101, 11)
    assert (log.local_start_offset, log.segment_count, log.active_segment_start_offset) == (10, 2, 11)
    log.copied(11)
    log.apply_retention(2_101, 11)
    assert (log.log_start_offset, log.local_start_offset, log.size_bytes) == (0, 11, 0)


def test_end_markers_find_room_in_a_full_log(batch_of) -> None:
    """What waits to be copied behind an open transaction can go only when it has ended."""
    logs = [Log(replace(TIERED, segment_bytes=300_000), memory=MemoryBudget(2 * 1024 * 1024)) for _ in range(2)]
    end = EndMarker(committed=False, coordinator_epoch=0)
    marker = build_end_marker(end, producer_id=5, producer_epoch=0, timestamp_ms=0)

    def append(log: Log) -> None:
        log.append_as_leader(batch_of(bytes(100_000)), leader_epoch=0, wall_ms=0)
        log.commit_to(log.log_end_offset)

    for log in logs:
        with contextlib.suppress(MemoryExhausted):
            for _ in range(30):
                append(log)
        with pytest.raises(MemoryExhausted, match="what is not copied to the tier stays"):
            append(log)
    leader, follower = logs
    info = leader.append_as_leader(marker, leader_epoch=0, wall_ms=0, from_client=False)
    replicated = b"".join(leader.read(info.first_offset, max_bytes=EVERYTHING, end_offset=EVERYTHING).parts)
    assert follower.append_as_follower(replicated, wall_ms=0) is not None
    assert follower.log_end_offset == leader.log_end_offset


def test_the_memory_cap_deletes_what_is_copied_and_refuses_appends_otherwise(append, batch_of) -> None:
    memory = MemoryBudget(2 * 1024 * 1024)
    log = Log(replace(TIERED, segment_bytes=300_000), memory=memory)

    def fill(count: int) -> None:
        for _ in range(count):
            log.append_as_leader(batch_of(bytes(100_000)), leader_epoch=0, wall_ms=0)
            log.commit_to(log.log_end_offset)

    with pytest.raises(MemoryExhausted, match="what is not copied to the tier stays"):
        fill(40)
    assert (log.log_start_offset, log.local_start_offset) == (0, 0)
    first = log.to_copy()
    assert first is not None
    log.copied(first[0].next_offset)
    with capture_logs() as logs:
        fill(1)
    assert logs == [], "nothing was lost"
    assert (log.log_start_offset, log.local_start_offset) == (0, first[0].next_offset)


def test_a_log_without_a_tier_starts_where_its_memory_does(append) -> None:
    log = Log(replace(TIERED, remote_storage_enable=False, retention_bytes=300))
    append(log, 11)
    log.apply_retention(10_000, 11)
    assert log.log_start_offset == log.local_start_offset == 6


def test_a_tiered_log_that_is_truncated_before_its_memory_starts_where_it_did(log: Log) -> None:
    """The follower then hears from the leader that the tier has the rest, and begins behind it."""
    log.copied(4)
    keep_two(log)
    log.truncate_to(3)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (0, 0, [])


def test_a_log_begins_behind_what_the_tier_has(log: Log, append) -> None:
    snapshot = log.producers.snapshot()
    log.begin_behind(20, log_start_offset=5, epochs=[(1, 0), (2, 4), (3, 9)], producers=snapshot)
    assert (log.log_start_offset, log.local_start_offset, log.log_end_offset, log.copied_to) == (5, 20, 20, 20)
    assert (log.high_watermark, log.epochs.entries, log.segment_count) == (20, [(2, 5), (3, 9)], 1)
    append(log, 2, epoch=3)
    assert (log.log_end_offset, log.epochs.latest_epoch) == (22, 3)


def test_producers_are_kept_whole_until_their_segment_is_copied(append, batch_of) -> None:
    log = Log(TIERED)
    log.append_as_leader(batch_of(b"value" * 4, producer=(7, 0, 0)), leader_epoch=0, wall_ms=2000)
    append(log, 12)
    first = log.to_copy()
    assert first is not None
    assert first[1] is not None
    assert list(first[1].states) == [7]
    assert all(segment.producers is not None for segment in list(log._segments)[1:])
    log.copied(5)
    assert [segment.producers is None for segment in log._segments] == [True] * 2 + [False] * 5
    log.copied(10)
    assert [segment.producers is not None for segment in log._segments][-2:] == [True, True]
    assert not any(segment.producers for segment in list(log._segments)[:-2])


def test_a_log_that_leaves_the_tier_starts_where_its_memory_does(log: Log) -> None:
    log.copied(4)
    keep_two(log)
    log.config = replace(log.config, remote_storage_enable=False)
    assert (log.log_start_offset, log.local_start_offset) == (4, 4)


def test_what_was_copied_with_records_that_are_truncated_is_copied_again_before_it_goes(log: Log, append) -> None:
    """After an unclean election: the copy [2, 4) is not of this log any more, so only memory has record 2."""
    log.copied(4)
    log.truncate_to(3)
    append(log, 1, epoch=1, wall_ms=10**12)  # so much later that it begins a segment
    append(log, 3, epoch=1, wall_ms=10**12)
    assert log.copied_to == 0
    log.config = replace(log.config, local_retention_bytes=0)
    log.apply_retention(10**12, log.high_watermark)
    assert (log.local_start_offset, log.log_end_offset) == (0, 7)


def test_a_truncation_behind_what_is_copied_takes_nothing_back(log: Log) -> None:
    log.copied(6)
    log.truncate_to(6)
    assert log.copied_to == 6


def due(log: Log, wall_ms: int) -> int | None:
    """The start of the segment that is due, which is then copied; None: none is."""
    found = log.to_copy(wall_ms)
    if found is None:
        return None
    log.copied(found[0].next_offset)
    return found[0].base_offset


def test_a_segment_is_due_when_its_newest_record_is_as_old_as_the_lag(log: Log) -> None:
    """KIP-1241. The records of the log are of the time 2000."""
    log.config = replace(TIERED, remote_copy_lag_ms=100)
    assert due(log, 2_099) is None
    assert due(log, 2_100) == 0
    log.config = replace(TIERED, remote_copy_lag_ms=0)
    assert due(log, 0) == 2, "0 is at once"


def test_a_segment_is_due_when_so_many_newer_bytes_lie_behind_it(log: Log) -> None:
    sizes = [segment.size_bytes for segment in log._segments]
    log.config = replace(TIERED, remote_copy_lag_ms=-1, remote_copy_lag_bytes=sum(sizes[2:]))
    assert [due(log, 10**15), due(log, 10**15), due(log, 10**15)] == [0, 2, None]
    log.config = replace(TIERED, remote_copy_lag_ms=10**6, remote_copy_lag_bytes=0)
    assert due(log, 0) == 4


def test_the_lag_may_be_the_local_retention_or_without_end(log: Log) -> None:
    log.config = replace(TIERED, remote_copy_lag_ms=-1, local_retention_ms=100)
    assert [due(log, 2_099), due(log, 2_100)] == [None, 0]
    log.config = replace(TIERED, remote_copy_lag_ms=-1)
    assert due(log, 10**15) is None
    log.due_to = 4
    assert [due(log, 0), due(log, 0)] == [2, None]


def test_what_is_to_leave_memory_is_copied_at_once(append) -> None:
    log = Log(replace(TIERED, remote_copy_lag_ms=-1))
    append(log, 5)
    assert log.to_copy(10**15) is None
    assert not log.evict_oldest()
    assert log.to_copy(0) is not None


def test_a_log_that_is_not_copied_any_more_deletes_as_one_without_a_tier(log: Log) -> None:
    """KIP-950."""
    log.copied(4)
    log.config = replace(TIERED, remote_log_copy_disable=True, retention_bytes=300)
    assert not log.awaits_copy
    log.apply_retention(10_000, 11)
    assert (log.log_start_offset, log.local_start_offset) == (6, 6)


@pytest.mark.parametrize("copied_to", [5, 6, 7])
def test_producers_are_known_after_a_truncation_to_anywhere_behind_what_is_copied(batch_of, copied_to: int) -> None:
    log = Log(TIERED)
    for number in range(20):
        batch = batch_of(b"value" * 4, at_ms=2000, producer=(7, 0, number))
        log.append_as_leader(batch, leader_epoch=0, wall_ms=2000)
        log.commit_to(min(10, log.log_end_offset))
        log.copied(min(copied_to, log.log_end_offset))
    log.config = replace(log.config, local_retention_bytes=0)
    log.apply_retention(10_000, 10)
    assert log.local_start_offset > 0
    log.truncate_to(8)
    producer = log.producers.get(7)
    assert producer is not None
    assert [each.last_sequence for each in producer.batches] == [3, 4, 5, 6, 7]
