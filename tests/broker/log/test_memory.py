"""The cap over all logs of a broker."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.errors import MemoryExhausted
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.memory import MIN_SEGMENT_BYTES, WARNING_INTERVAL_MS, MemoryBudget
from purgatorio.broker.log.segment import BATCH_OVERHEAD_BYTES
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import Record, build_batch
from tests.compiled import extends_classes
from tests.logs import capture_logs

BATCH_BYTES = 1000


@pytest.fixture
def append(batch_of):
    """A function that appends batches of 1000 bytes, with their overhead, and commits them."""

    def append_to(log: Log, count: int = 1, *, commit: bool = True, wall_ms: int = 0) -> None:
        value = bytes(BATCH_BYTES - BATCH_OVERHEAD_BYTES - len(batch_of(b"")) - 2)
        for _ in range(count):
            log.append_as_leader(batch_of(value), leader_epoch=0, wall_ms=wall_ms)
            if commit:
                log.high_watermark = log.log_end_offset

    return append_to


def small_logs(budget: MemoryBudget, count: int) -> list[Log]:
    """Logs with segments of three batches."""
    return [
        Log(LogConfig(segment_bytes=3 * (BATCH_BYTES - BATCH_OVERHEAD_BYTES) + 10), memory=budget) for _ in range(count)
    ]


def test_bytes_and_overhead_are_counted_and_given_back(append) -> None:
    budget = MemoryBudget(100_000)
    log = small_logs(budget, 1)[0]
    append(log, 10)
    assert budget.used_bytes == 10 * BATCH_BYTES
    log.truncate_to(4)
    assert budget.used_bytes == 4 * BATCH_BYTES
    log.advance_log_start(3)
    assert budget.used_bytes == BATCH_BYTES
    log.close()
    assert budget.used_bytes == 0


def test_the_oldest_segments_over_all_logs_go_first(append) -> None:
    budget = MemoryBudget(32 * BATCH_BYTES)
    first, second = small_logs(budget, 2)
    append(first, 12)
    append(second, 12)
    append(first, 9)  # past the cap: segments of the first log, as they are the oldest
    assert (first.log_start_offset, second.log_start_offset) == (3, 0)
    append(second, 12)
    assert (first.log_start_offset, second.log_start_offset) == (12, 3)
    assert budget.used_bytes <= budget.limit_bytes
    assert budget.evicted_bytes == 15 * BATCH_BYTES


def test_uncommitted_records_are_never_deleted(append) -> None:
    budget = MemoryBudget(12 * BATCH_BYTES)
    log = small_logs(budget, 1)[0]
    append(log, 12, commit=False)
    log.high_watermark = 5
    append(log, 1, commit=False)
    assert log.log_start_offset == 3
    append(log, 2, commit=False)
    with pytest.raises(MemoryExhausted) as caught:
        append(log, 1, commit=False)
    assert caught.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert caught.value.error_code.retriable
    assert (log.log_start_offset, log.log_end_offset) == (3, 15)
    log.high_watermark = 15
    append(log)
    assert log.log_end_offset == 16


def test_a_refused_append_leaves_no_trace(append, batch_of) -> None:
    budget = MemoryBudget(2 * BATCH_BYTES)
    log = small_logs(budget, 1)[0]
    append(log, 2, commit=False)
    with pytest.raises(MemoryExhausted):
        log.append_as_leader(batch_of(bytes(100), producer=(1, 0, 0)), leader_epoch=5, wall_ms=0)
    with pytest.raises(MemoryExhausted):
        log.append_as_follower(batch_of(bytes(100), base_offset=2, leader_epoch=5))
    assert log.log_end_offset == 2
    assert log.epochs.latest_epoch == 0
    assert len(log.producers) == 0
    assert budget.used_bytes == 2 * BATCH_BYTES


def test_even_the_active_segment_goes_if_that_is_all_there_is(append) -> None:
    """A thousand logs with one small segment each must not fill the memory for good."""
    budget = MemoryBudget(100 * BATCH_BYTES)
    logs = [Log(LogConfig(), memory=budget) for _ in range(100)]
    for log in logs:
        append(log)
    append(logs[0])
    assert budget.used_bytes <= budget.limit_bytes
    assert [log.log_start_offset for log in logs[:6]] == [1, 1, 1, 1, 1, 0]  # one for the batch, four to have some room
    assert logs[0].log_end_offset == 2
    assert logs[1].read(1, max_bytes=1, end_offset=1).parts == []


def test_eviction_makes_a_little_more_room_than_it_must(append) -> None:
    """So that a full broker does not look for the oldest segment at each append."""
    budget = MemoryBudget(320 * BATCH_BYTES)
    log = small_logs(budget, 1)[0]
    append(log, 321)
    assert budget.used_bytes <= budget.limit_bytes - budget.limit_bytes // 32


def test_segments_are_small_against_the_cap_whatever_the_topic_says(append) -> None:
    assert MemoryBudget(640 << 20).max_segment_bytes == 10 << 20
    assert MemoryBudget(1000).max_segment_bytes == MIN_SEGMENT_BYTES
    log = Log(LogConfig(segment_bytes=1 << 30), memory=MemoryBudget(8 << 20))
    append(log, 3000)
    assert log.segment_count == 3


def test_one_batch_larger_than_the_cap_is_refused(batch_of) -> None:
    log = Log(LogConfig(), memory=MemoryBudget(1000))
    with pytest.raises(MemoryExhausted):
        log.append_as_leader(batch_of(bytes(1000)), leader_epoch=0, wall_ms=0)


def test_a_closed_log_is_not_asked_any_more(append) -> None:
    budget = MemoryBudget(6 * BATCH_BYTES)
    closed, log = small_logs(budget, 2)
    append(closed, 3)
    closed.close()
    append(log, 7)
    assert log.log_start_offset == 3


def test_a_flood_loses_its_own_records_and_not_the_newest_of_a_quiet_topic(append) -> None:
    """The quiet topic's segment is the older one, and its records are the newer ones."""
    budget = MemoryBudget(64 * BATCH_BYTES)
    quiet, flood = small_logs(budget, 2)
    append(quiet, wall_ms=1)
    for second in range(2, 50):
        append(flood, 3, wall_ms=second)
    append(quiet, wall_ms=50)
    append(flood, 60, wall_ms=51)
    assert quiet.log_start_offset == 0
    assert flood.log_start_offset > 0
    assert budget.used_bytes <= budget.limit_bytes


def test_a_quiet_topics_newest_records_stay_even_if_they_are_old(append) -> None:
    """An hour old, and all that the topic has: a consumer of it has lost nothing to its neighbour."""
    budget = MemoryBudget(64 * BATCH_BYTES)
    quiet, flood = small_logs(budget, 2)
    append(quiet, 2, wall_ms=0)
    append(flood, 500, wall_ms=3_600_000)
    assert quiet.log_start_offset == 0


def test_records_go_by_their_age_among_topics_that_have_several_segments(append) -> None:
    """Not by the time at which their segments began."""
    budget = MemoryBudget(24 * BATCH_BYTES)
    slow, fast = small_logs(budget, 2)
    append(slow, wall_ms=1)
    append(fast, 3, wall_ms=2)
    append(slow, 2, wall_ms=9)
    for log in (slow, fast):
        append(log, 6, wall_ms=10)
    append(fast, 7, wall_ms=11)
    assert (slow.log_start_offset, fast.log_start_offset) == (0, 3)


def test_one_warning_a_minute_names_the_partitions_and_the_bytes(append) -> None:
    now_ms = 0
    budget = MemoryBudget(64 * BATCH_BYTES, lambda: now_ms)
    log = Log(LogConfig(segment_bytes=3_000), memory=budget, name="orders-0")
    append(log, 64)
    with capture_logs() as logs:
        append(log, 1)
    (line,) = logs
    assert line["log_level"] == "warning"
    assert line["deleted_bytes"] == budget.evicted_bytes
    assert line["partitions"] == f"orders-0 ({budget.evicted_bytes} bytes)"
    before_bytes = budget.evicted_bytes
    with capture_logs() as logs:
        append(log, 100)
        assert logs == []
        now_ms = WARNING_INTERVAL_MS
        while not logs:
            append(log)
    assert [line["deleted_bytes"] for line in logs] == [budget.evicted_bytes - before_bytes]


class Checked(Log):
    """A log that checks, when it loses a segment, that no other log has an older one that may go."""

    def __init__(self, config: LogConfig, budget: MemoryBudget, others: list[Checked]) -> None:
        super().__init__(config, memory=budget)
        self.others = others

    @property
    def may_go(self) -> bool:
        return self.oldest_age() is not None and self._segments[0].next_offset <= self.high_watermark

    def evict_oldest(self) -> bool:
        older = [log for log in self.others if log.may_go and log.oldest_age() < self.oldest_age()]
        assert not older or not self.may_go
        return super().evict_oldest()


@extends_classes
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["append", "append", "append", "commit", "truncate", "retain", "restart", "close"]),
            st.integers(0, 4),
            st.integers(1, 8),
        ),
        min_size=20,
        max_size=80,
    )
)
def test_whatever_happens_to_logs_the_oldest_segment_of_all_goes_first(steps: list[tuple[str, int, int]]) -> None:
    """Seen to fail: without the note when a log's first segment is closed, and without the one of its first batch."""
    budget = MemoryBudget(20 * BATCH_BYTES)
    logs: list[Checked] = []
    config = LogConfig(segment_bytes=3 * (BATCH_BYTES - BATCH_OVERHEAD_BYTES) + 10)
    logs += (Checked(config, budget, logs) for _ in range(5))
    batch = build_batch([Record(0, 0, None, bytes(BATCH_BYTES - BATCH_OVERHEAD_BYTES - 71), ())])
    for wall_ms, (kind, which, number) in enumerate(steps):
        log = logs[which]
        if kind == "append":
            with contextlib.suppress(MemoryExhausted):
                for _ in range(number):
                    log.append_as_leader(batch, leader_epoch=0, wall_ms=wall_ms)
                    log.high_watermark = log.log_end_offset if number < 6 else log.high_watermark
        elif kind == "commit":
            log.high_watermark = log.log_end_offset
        elif kind == "truncate":
            log.truncate_to(max(log.log_start_offset, log.log_end_offset - number))
        elif kind == "retain":
            log.advance_log_start(log.log_start_offset + number)
        elif kind == "restart":
            log.truncate_fully_and_start_at(number)
        else:
            log.close()
            logs[which] = Checked(config, budget, logs)
        assert budget.used_bytes == sum(each._segments.memory_bytes for each in logs) <= budget.limit_bytes
        assert len(budget._heap) <= 2 * len(budget._logs) + 1


def test_a_log_that_is_not_evictable_keeps_its_records_and_the_others_make_room(append) -> None:
    budget = MemoryBudget(32 * BATCH_BYTES)
    kept, other = small_logs(budget, 2)
    kept.is_evictable = False
    append(kept, 12)
    append(other, 40)
    assert kept.log_start_offset == 0
    assert other.log_start_offset > 0
    with pytest.raises(MemoryExhausted):
        append(kept, 40)
    assert kept.log_start_offset == 0
