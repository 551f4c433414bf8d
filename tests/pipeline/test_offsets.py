"""Positions, ranges of offsets and tasks: each record is read once."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from purgatorio.pipeline.offsets import (
    TASK_RECORDS,
    DataLoss,
    OffsetRange,
    TopicPartition,
    at_most,
    from_json,
    ids_from_json,
    ranges_between,
    resolve,
    tasks_of,
    to_json,
)
from purgatorio.pipeline.options import EARLIEST, LATEST, OptionError, Position

A, B, C = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("b", 10)

offsets = st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 10**6))


@given(offsets, st.dictionaries(st.sampled_from(["a", "b", "elsewhere"]), st.text()))
def test_offsets_are_read_as_written_and_always_written_the_same_way(
    given_offsets: dict[TopicPartition, int], ids: dict[str, str]
) -> None:
    written = json.dumps(to_json(given_offsets, ids))
    assert from_json(json.loads(written)) == given_offsets
    read = {tp.topic for tp in given_offsets}
    assert ids_from_json(json.loads(written)) == {topic: ids[topic] for topic in ids if topic in read}
    backwards = dict(reversed(given_offsets.items())), dict(reversed(ids.items()))
    assert json.dumps(to_json(*backwards)) == written


def test_positions_are_resolved_with_the_present_offsets() -> None:
    earliest, latest = {A: 5, B: 0, C: 0}, {A: 9, B: 7, C: 3}
    position = Position(EARLIEST, offsets={"a": {0: LATEST}, "b": {0: 4}})
    assert resolve(position, earliest, latest, {}) == {A: 9, B: 4, C: 0}
    assert resolve(Position(LATEST), earliest, latest, {B: 2}) == {A: 9, B: 2, C: 3}


def test_an_offset_of_an_unknown_partition_or_after_its_end_is_refused() -> None:
    for offsets, complaint in [
        ({"b": {77: 1}}, "an offset or time is given for b-77, which is not there or not read"),
        ({"a": {0: 10}}, "a-0 ends at offset 9, before the offset 10 that is given for it"),
    ]:
        with pytest.raises(OptionError, match=complaint):
            resolve(Position(EARLIEST, offsets=offsets), {A: 5}, {A: 9}, {})


def test_a_timestamp_of_an_unknown_partition_is_refused() -> None:
    with pytest.raises(OptionError, match="an offset or time is given for b-7, which is not there or not read"):
        resolve(Position(EARLIEST, timestamps_ms={"a": {0: 1}, "b": {7: 1}}), {A: 5}, {A: 9}, {A: 6})


def test_a_timestamp_may_be_found_after_the_latest_offset_of_an_earlier_look_up() -> None:
    assert resolve(Position(EARLIEST, timestamp_ms=1), {A: 5}, {A: 9}, {A: 12}) == {A: 12}


def test_a_range_is_from_start_to_end_and_a_new_partition_is_read_from_its_beginning() -> None:
    ranges = ranges_between({A: 3, B: 7}, {A: 5, B: 7, C: 2}, {A: 0, B: 0, C: 1}, fail_on_data_loss=True)
    assert ranges == [OffsetRange("a", 0, 3, 5), OffsetRange("b", 10, 1, 2)]


def test_records_that_were_deleted_before_they_were_read_are_an_error_or_skipped() -> None:
    start, end, earliest = {A: 3}, {A: 9}, {A: 6}
    with pytest.raises(DataLoss, match="a-0 begins at offset 6: offsets 3 to 5 were deleted"):
        ranges_between(start, end, earliest, fail_on_data_loss=True)
    assert ranges_between(start, end, earliest, fail_on_data_loss=False) == [OffsetRange("a", 0, 6, 9)]
    assert ranges_between({A: 3}, {A: 5}, {A: 6}, fail_on_data_loss=False) == []


def test_a_deleted_partition_is_an_error_or_left_out() -> None:
    with pytest.raises(DataLoss, match="b-0 is gone"):
        ranges_between({A: 0, B: 3}, {A: 1}, {A: 0}, fail_on_data_loss=True)
    assert ranges_between({A: 0, B: 3}, {A: 1}, {A: 0}, fail_on_data_loss=False) == [OffsetRange("a", 0, 0, 1)]


@given(st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 10**6), min_size=1), st.integers(1, 10**5))
def test_a_limited_batch_is_divided_in_proportion_and_starves_no_partition(
    end: dict[TopicPartition, int], limit: int
) -> None:
    start = dict.fromkeys(end, 0)
    limited = at_most(start, end, limit)
    assert sum(limited.values()) <= limit + len(end)
    assert all(0 <= limited[tp] <= end[tp] for tp in end)
    assert all(limited[tp] > 0 for tp in end if end[tp] > 0)


ranges_of_partitions = st.lists(st.tuples(st.integers(0, 10**4), st.integers(0, 10**5)), max_size=20).map(
    lambda pairs: [OffsetRange("t", nth, start, start + size) for nth, (start, size) in enumerate(pairs) if size]
)


@given(ranges_of_partitions, st.none() | st.integers(1, 50), st.none() | st.integers(1, 10**6))
def test_tasks_read_every_record_once(
    ranges: list[OffsetRange], min_tasks: int | None, max_records: int | None
) -> None:
    total = sum(each.size for each in ranges)
    assume(max_records is None or total < 1_000 * max_records)
    packed = tasks_of(ranges, min_tasks=min_tasks, max_records=max_records)
    covered = sorted(each for task in packed for each in task)
    joined: list[OffsetRange] = []
    for each in covered:
        assert each.size > 0
        if joined and joined[-1].partition == each.partition and joined[-1].end == each.start:
            joined[-1] = joined[-1]._replace(end=each.end)
        else:
            joined.append(each)
    assert joined == ranges
    sizes = [sum(each.size for each in task) for task in packed]
    assert max(sizes, default=0) <= (max_records or TASK_RECORDS)
    if min_tasks is not None:
        assert max(sizes, default=0) <= -(-total // min_tasks)


def test_few_records_are_one_task_unless_more_are_requested() -> None:
    ranges = [OffsetRange("t", nth, 0, 10) for nth in range(40)]
    assert len(tasks_of(ranges)) == 1
    assert len(tasks_of(ranges, min_tasks=8)) == 8
    assert len(tasks_of(ranges, max_records=100)) == 4
    assert tasks_of([], min_tasks=8) == []
