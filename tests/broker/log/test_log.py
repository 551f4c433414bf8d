"""The log of a partition: append, read, roll, truncate, delete."""

from __future__ import annotations

import pytest

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.errors import InvalidBatch, OffsetOutOfRange, UnexpectedOffset
from purgatorio.broker.log.log import Log
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import TimestampType, check_crc, iter_records, read_header
from tests.batches import batches_of

EVERYTHING = 10**9


@pytest.fixture
def log() -> Log:
    return Log(LogConfig())


@pytest.fixture
def append(log: Log, batch_of):
    """A function that appends one batch of so many records."""

    def append_to(count: int = 1, *, to: Log | None = None, epoch: int = 0, wall_ms: int = 2000, **options):
        target = to if to is not None else log
        batch = batch_of(*[b"value"] * count, **options)
        return target.append_as_leader(batch, leader_epoch=epoch, wall_ms=wall_ms)

    return append_to


def parts(log: Log, offset: int | None = None) -> list[bytes]:
    start = log.log_start_offset if offset is None else offset
    return batches_of(log.read(start, max_bytes=EVERYTHING, end_offset=log.log_end_offset).parts)


def bases(batches: list[bytes]) -> list[int]:
    return [read_header(batch).base_offset for batch in batches]


# --- append as leader ---


def test_a_new_log_is_empty_and_can_be_read(log: Log) -> None:
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes, log.segment_count) == (0, 0, 0, 1)
    assert log.read(0, max_bytes=EVERYTHING, end_offset=0) == ([], 0, 0)
    assert log.size_between(0, 10) == 0


def test_offsets_go_on_where_the_last_batch_ended(log: Log, append) -> None:
    infos = [append(count) for count in (1, 5, 2)]
    assert [(info.first_offset, info.last_offset, info.record_count) for info in infos] == [
        (0, 0, 1),
        (1, 5, 5),
        (6, 7, 2),
    ]
    assert log.log_end_offset == 8
    assert sum(info.size_bytes for info in infos) == log.size_bytes == sum(map(len, parts(log)))
    assert not any(info.duplicate for info in infos)
    assert {info.log_append_time_ms for info in infos} == {-1}


@pytest.mark.parametrize("view", [bytes, bytearray, memoryview])
def test_a_batch_is_copied_with_its_place_written_into_it(log: Log, batch_of, view: type) -> None:
    log.append_as_leader(batch_of(b"first"), leader_epoch=3, wall_ms=0)
    buffer = bytearray(batch_of(b"second", b"third"))
    log.append_as_leader(view(buffer), leader_epoch=4, wall_ms=0)
    buffer[:] = bytes(len(buffer))
    batch = parts(log)[1]
    header = read_header(batch)
    check_crc(header, batch)
    assert type(batch) is bytes
    assert (header.base_offset, header.partition_leader_epoch) == (1, 4)
    assert [record.value for record in iter_records(batch)] == [b"second", b"third"]
    assert log.epochs.entries == [(3, 0), (4, 1)]


def test_append_times_are_the_brokers(append) -> None:
    log = Log(LogConfig(message_timestamp_type="LogAppendTime"))
    info = append(2, to=log, wall_ms=7777, at_ms=1)
    assert info.log_append_time_ms == 7777
    header = read_header(parts(log)[0])
    check_crc(header, parts(log)[0])
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp_ms for record in iter_records(parts(log)[0])} == {7777}


def test_a_refused_batch_leaves_no_trace(log: Log, append, batch_of) -> None:
    append()
    log.config = LogConfig(max_message_bytes=100)
    with pytest.raises(InvalidBatch) as caught:
        append(20, epoch=9, producer=(1, 0, 0))
    assert caught.value.error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert (log.log_end_offset, log.epochs.latest_epoch, len(log.producers)) == (1, 0, 0)


def test_a_configuration_takes_effect_at_once(log: Log, append) -> None:
    log.config = LogConfig(message_timestamp_type="LogAppendTime")
    assert append(wall_ms=5).log_append_time_ms == 5
    log.config = LogConfig()
    assert append(wall_ms=5).log_append_time_ms == -1


# --- append as follower ---


def test_a_follower_takes_batches_as_they_are(log: Log, append) -> None:
    for epoch, count in ((0, 2), (3, 1), (3, 4)):
        append(count, epoch=epoch)
    follower = Log(LogConfig())
    info = follower.append_as_follower(b"".join(parts(log)))
    assert info is not None
    assert (info.first_offset, info.last_offset, info.record_count, info.size_bytes) == (0, 6, 7, log.size_bytes)
    assert parts(follower) == parts(log)
    assert follower.epochs.entries == log.epochs.entries == [(0, 0), (3, 2)]
    assert follower.log_end_offset == 7


def test_a_partial_batch_at_the_end_is_left_out(log: Log, append) -> None:
    append(2)
    append(3)
    whole = b"".join(parts(log))
    first = len(parts(log)[0])
    for length in range(len(whole)):
        follower = Log(LogConfig())
        info = follower.append_as_follower(whole[:length])
        assert (info is None) == (length < first)
        assert follower.log_end_offset == (2 if length >= first else 0)


def test_a_follower_takes_gaps_but_nothing_that_it_has(log: Log, append, batch_of) -> None:
    follower = Log(LogConfig())
    follower.append_as_follower(batch_of(b"a", b"b", base_offset=5))
    follower.append_as_follower(batch_of(b"c", base_offset=9))
    assert (follower.log_start_offset, follower.log_end_offset) == (0, 10)
    for base in (9, 4, 0):
        with pytest.raises(UnexpectedOffset):
            follower.append_as_follower(batch_of(b"d", base_offset=base))
    backwards = batch_of(b"x", base_offset=12) + batch_of(b"y", base_offset=11)
    with pytest.raises(UnexpectedOffset):
        follower.append_as_follower(backwards)
    assert follower.log_end_offset == 10
    assert bases(parts(follower)) == [5, 9]


def test_damage_on_the_way_is_refused_as_a_whole(log: Log, append) -> None:
    append(2)
    append(2)
    damaged = bytearray(b"".join(parts(log)))
    damaged[-1] ^= 1
    follower = Log(LogConfig())
    with pytest.raises(InvalidBatch) as caught:
        follower.append_as_follower(damaged)
    assert caught.value.error_code is ErrorCode.CORRUPT_MESSAGE
    assert follower.log_end_offset == 0


def test_an_empty_log_may_begin_within_a_batch(log: Log, append) -> None:
    """The leader's records were deleted up to an offset inside of a batch, so that its log start lies there."""
    append(10)
    append(2)
    follower = Log(LogConfig())
    follower.truncate_fully_and_start_at(4)
    follower.append_as_follower(b"".join(parts(log, 4)))
    assert (follower.log_start_offset, follower.log_end_offset) == (4, 12)
    assert parts(follower) == parts(log)
    with pytest.raises(OffsetOutOfRange):
        follower.read(3, max_bytes=1, end_offset=12)


def test_batches_of_later_epochs_than_the_followers_own_are_left_out(log: Log, append) -> None:
    """KAFKA-18723: an answer of a leader that was deposed on the way may hold what its successor wrote."""
    append(1, epoch=1)
    append(1, epoch=2)
    append(1, epoch=3)
    follower = Log(LogConfig())
    follower.append_as_follower(b"".join(parts(log)), leader_epoch=2)
    assert follower.log_end_offset == 2


# --- read ---


def test_a_read_starts_with_the_batch_that_contains_the_offset(log: Log, append) -> None:
    for count in (3, 1, 4):
        append(count)
    assert [bases(parts(log, offset)) for offset in (0, 2, 3, 4, 7)] == [[0, 3, 4], [0, 3, 4], [3, 4], [4], [4]]
    assert parts(log, 8) == []


@pytest.mark.parametrize("offset", [-1, 9, 10**12])
def test_an_offset_outside_of_the_log_is_out_of_range(log: Log, append, offset: int) -> None:
    append(8)
    with pytest.raises(OffsetOutOfRange) as caught:
        log.read(offset, max_bytes=1, end_offset=8)
    assert caught.value.error_code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_only_batches_that_end_before_the_end_are_read(log: Log, append) -> None:
    for _ in range(3):
        append(2)
    reads = [log.read(0, max_bytes=EVERYTHING, end_offset=end) for end in range(7)]
    assert [bases(batches_of(read.parts)) for read in reads] == [[], [], [0], [0], [0, 2], [0, 2], [0, 2, 4]]
    assert [read.next_offset for read in reads] == [0, 0, 2, 2, 4, 4, 6]
    assert log.read(5, max_bytes=EVERYTHING, end_offset=2).parts == []


def test_a_read_stays_below_its_limit_but_for_the_first_batch(append) -> None:
    log = Log(LogConfig(segment_bytes=200))
    size = append(to=log).size_bytes
    for _ in range(9):
        append(to=log)
    assert log.segment_count > 3
    for limit in range(0, 11 * size, 7):
        read = log.read(0, max_bytes=limit, end_offset=10)
        assert len(batches_of(read.parts)) == min(10, max(1, limit // size))
        assert read.size_bytes == sum(map(len, read.parts))
        assert read.next_offset == len(batches_of(read.parts))
        below = log.read(0, max_bytes=limit, end_offset=10, min_one=False)
        assert len(batches_of(below.parts)) == min(10, limit // size)


def test_bytes_between_two_offsets_are_those_of_their_batches(append) -> None:
    log = Log(LogConfig(segment_bytes=200))
    sizes = [append(2, to=log).size_bytes for _ in range(10)]
    for start in range(21):
        for end in range(21):
            assert log.size_between(start, end) == sum(sizes[start // 2 : end // 2])


# --- segments ---


def test_a_full_segment_is_followed_by_a_new_one(append) -> None:
    log = Log(LogConfig(segment_bytes=160))
    for _ in range(5):
        append(to=log)
    assert log.segment_count == 3
    assert [log.is_on_older_segment(offset, 4) for offset in range(5)] == [True] * 4 + [False]
    assert not log.is_on_older_segment(0, 1), "what lies past the reader's end does not count"


def test_a_segment_ends_when_its_records_span_its_time(append) -> None:
    log = Log(LogConfig(segment_ms=100))
    for at_ms, wall_ms in ((1000, 2000), (1100, 9000), (1101, 9000), (1050, 9000)):
        append(to=log, at_ms=at_ms, wall_ms=wall_ms)
    assert log.segment_count == 2


def test_without_timestamps_the_clock_ends_a_segment(append) -> None:
    log = Log(LogConfig(segment_ms=100))
    for wall_ms in (0, 100, 101, 102):
        append(to=log, at_ms=-1, wall_ms=wall_ms)
    assert log.segment_count == 2


# --- truncate ---


@pytest.mark.parametrize("cut", range(12))
def test_truncation_keeps_all_records_before_it(append, cut: int) -> None:
    log = Log(LogConfig(segment_bytes=160))
    for n in range(10):
        append(to=log, epoch=n // 3)
    log.truncate_to(cut)
    assert log.log_end_offset == min(cut, 10)
    assert bases(parts(log)) == list(range(min(cut, 10)))
    assert log.epochs.entries == [(n, 3 * n) for n in range(4) if 3 * n < cut]
    assert append(to=log, epoch=9).first_offset == min(cut, 10)
    assert log.size_bytes == sum(map(len, parts(log)))


def test_truncation_inside_of_a_batch_drops_all_of_it(log: Log, append) -> None:
    append(2)
    append(5)
    append(1)
    log.truncate_to(4)
    assert log.log_end_offset == 2
    assert bases(parts(log)) == [0]


def test_truncation_below_the_start_empties_the_log_and_moves_it(log: Log, append) -> None:
    log.truncate_fully_and_start_at(100)
    append(5)
    log.truncate_to(40)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (40, 40, 0)
    assert log.epochs.entries == []
    assert append().first_offset == 40


def test_truncation_pulls_the_start_and_the_high_watermark_down_with_the_end(log: Log, append) -> None:
    append(5)
    append(5)
    log.high_watermark = 10
    log.advance_log_start(8)
    log.truncate_to(5)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (5, 5, 5)


def test_truncating_beyond_the_end_forgets_an_epoch_that_never_wrote(log: Log, append) -> None:
    append(3, epoch=1)
    log.epochs.assign(2, 3)
    log.truncate_to(3)
    assert log.epochs.entries == [(1, 0)]
    assert log.log_end_offset == 3


def test_starting_over_forgets_everything(log: Log, append) -> None:
    append(3, producer=(7, 0, 0))
    log.truncate_fully_and_start_at(50)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes, log.segment_count) == (50, 50, 0, 1)
    assert (len(log.producers), log.epochs.latest_epoch) == (0, -1)
    assert append().first_offset == 50


# --- delete ---


def test_the_start_of_the_log_only_goes_forward_and_not_beyond_its_end(log: Log, append) -> None:
    append(5)
    assert log.advance_log_start(3)
    assert not log.advance_log_start(3)
    assert not log.advance_log_start(1)
    assert log.log_start_offset == 3
    assert log.advance_log_start(99)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (5, 5, 0)
    assert append().first_offset == 5


def test_segments_below_the_start_are_deleted_at_once(append) -> None:
    log = Log(LogConfig(segment_bytes=160))
    for n in range(10):
        append(to=log, epoch=n)
    log.advance_log_start(5)
    assert log.log_start_offset == 5
    assert bases(parts(log)) == [5, 6, 7, 8, 9]
    assert log.segment_count == 3
    assert log.epochs.entries[0] == (5, 5)
    with pytest.raises(OffsetOutOfRange):
        log.read(4, max_bytes=1, end_offset=10)


def retained(append, *, times: tuple[int, ...], high_watermark: int, wall_ms: int, **configs) -> tuple[int, int, Log]:
    """A log with one batch per segment and these timestamps, after retention: its start, bytes deleted, the log."""
    log = Log(LogConfig(segment_bytes=80, **configs))
    for at_ms in times:
        append(to=log, at_ms=at_ms, wall_ms=2000)
    assert log.segment_count == len(times)
    size_bytes = log.size_bytes
    deleted_bytes = log.apply_retention(wall_ms, high_watermark)
    assert deleted_bytes == size_bytes - log.size_bytes
    return log.log_start_offset, deleted_bytes, log


@pytest.mark.parametrize(
    ("wall_ms", "high_watermark", "start"),
    [(1100, 4, 0), (1101, 4, 1), (1201, 4, 2), (1201, 1, 1), (1201, 0, 0), (1300, 4, 2), (1301, 4, 3), (9999, 4, 4)],
)
def test_segments_go_when_their_newest_record_is_too_old(append, wall_ms: int, high_watermark: int, start: int) -> None:
    times = (1000, 1100, 1200, 1300)
    found, _, _ = retained(append, times=times, high_watermark=high_watermark, wall_ms=wall_ms, retention_ms=100)
    assert found == start


def test_a_young_segment_keeps_older_ones_after_it(append) -> None:
    assert retained(append, times=(5000, 1000), high_watermark=2, wall_ms=1500, retention_ms=100)[0] == 0


def test_when_the_active_segment_is_deleted_offsets_go_on(append) -> None:
    start, _, log = retained(append, times=(1000, 1000), high_watermark=2, wall_ms=5000, retention_ms=100)
    assert (start, log.log_end_offset, log.size_bytes, log.segment_count) == (2, 2, 0, 1)
    assert append(to=log).first_offset == 2


def test_without_timestamps_the_time_of_the_append_counts(append) -> None:
    assert retained(append, times=(-1, -1), high_watermark=2, wall_ms=2100, retention_ms=100)[0] == 0
    assert retained(append, times=(-1, -1), high_watermark=2, wall_ms=2101, retention_ms=100)[0] == 2


@pytest.mark.parametrize(
    ("segments", "high_watermark", "start"),
    [(5, 5, 0), (4.1, 5, 0), (4, 5, 1), (2.5, 5, 2), (2, 5, 3), (2, 2, 2), (0, 5, 5)],
)
def test_segments_go_while_the_rest_is_not_smaller_than_its_limit(
    append, segments: float, high_watermark: int, start: int
) -> None:
    size_bytes = append().size_bytes
    found, deleted_bytes, _ = retained(
        append,
        times=(1000,) * 5,
        high_watermark=high_watermark,
        wall_ms=2000,
        retention_ms=-1,
        retention_bytes=int(segments * size_bytes),
    )
    assert (found, deleted_bytes) == (start, start * size_bytes)


def test_without_limits_or_without_delete_nothing_goes(append) -> None:
    times = (1000,) * 3
    assert retained(append, times=times, high_watermark=3, wall_ms=10**15, retention_ms=-1)[0] == 0
    log = Log(LogConfig(segment_bytes=80, retention_ms=1, retention_bytes=1))
    for _ in times:
        append(to=log)
    log.config = LogConfig(cleanup_policy=("compact",), retention_ms=1, retention_bytes=1)
    assert log.apply_retention(10**15, 3) == 0


def test_a_closed_log_holds_nothing(log: Log, append) -> None:
    append(3)
    log.close()
    assert log.size_bytes == 0
