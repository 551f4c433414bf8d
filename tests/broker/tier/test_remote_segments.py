"""Tests of which copied segments are a log's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from purgatorio.broker.log.epochs import LeaderEpochs
from purgatorio.broker.log.transactions import AbortedTxn
from purgatorio.broker.tier.names import SegmentName
from purgatorio.broker.tier.remote_segments import ALL_KNOWN, RemoteSegments, is_of_log
from purgatorio.broker.tier.segment_file import Part, RemoteSegment


def segment(
    start: int, end: int, *epochs: tuple[int, int], number: int = 0, aborted: tuple[AbortedTxn, ...] = ()
) -> RemoteSegment:
    name = SegmentName(start, 0, 0, f"{number:032x}")
    return RemoteSegment(name, end, 10, epochs or ((0, 0),), (Part(start, 0, 10, 0, 0),), aborted, None)


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs()
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


def of_log(*segments: RemoteSegment, start: int = 0, end: int = 1000) -> RemoteSegments:
    return RemoteSegments.of_log(segments, epochs((0, 0)), start, end)


@pytest.mark.parametrize(
    ("its_epochs", "is_its"),
    [
        (((0, 0),), False),
        (((0, 0), (2, 15)), True),
        (((0, 0), (1, 12), (2, 15)), False),
        (((2, 10),), False),
        (((0, 5), (2, 15)), True),
        (((0, 0), (2, 16)), False),
        ((), False),
    ],
)
def test_a_segment_is_the_logs_if_its_records_have_the_epochs_of_the_log(
    its_epochs: tuple[tuple[int, int], ...], is_its: bool
) -> None:
    own = epochs((0, 0), (2, 15), (3, 30))
    assert is_of_log(RemoteSegment(SegmentName(10, 0, 0, ""), 20, 1, its_epochs, (), (), None), own, 0, 40) is is_its


def test_the_epochs_of_records_before_the_log_start_do_not_count() -> None:
    own = epochs((0, 0), (2, 15))
    own.truncate_from_start(16)
    assert is_of_log(segment(10, 20, (0, 0), (1, 12), (2, 15)), own, 16, 40)


def test_a_segment_that_ends_behind_the_log_is_not_its() -> None:
    assert not is_of_log(segment(10, 20), epochs((0, 0)), 0, 19)


def test_of_several_the_segment_that_ends_last_has_an_offset() -> None:
    found = of_log(segment(0, 10), segment(0, 15, number=1), segment(12, 20))
    assert [found.find(offset).end_offset for offset in (0, 11, 12, 19)] == [15, 15, 20, 20]  # type: ignore[union-attr]
    assert found.find(20) is None


def test_segments_before_the_log_start_are_not_counted() -> None:
    assert [each.start_offset for each in of_log(segment(0, 10), segment(10, 20), start=10)] == [10]


def test_copied_is_what_follows_without_a_gap() -> None:
    assert of_log(segment(0, 10), segment(8, 15), segment(16, 20)).end_from(0) == 15
    assert of_log(segment(5, 10)).end_from(3) == 3
    assert of_log(segment(0, 10), segment(2, 4)).end_from(7) == 10


def test_aborted_transactions_are_those_with_a_part_in_the_range() -> None:
    found = of_log(
        segment(0, 10, aborted=(AbortedTxn(1, 0, 3, 4),)),
        segment(10, 20, aborted=(AbortedTxn(2, 5, 12, 6), AbortedTxn(3, 6, 15, 16))),
        segment(20, 30, aborted=(AbortedTxn(4, 21, 22, 23),)),
    )
    first, known_to = found.aborted(0, 4)
    assert ([each.producer_id for each in first], known_to) == ([1], ALL_KNOWN)
    second, known_to = found.aborted(4, 10)
    assert ([each.producer_id for each in second], known_to) == ([2, 3], ALL_KNOWN)
    last, known_to = found.aborted(22, 30)
    assert ([each.producer_id for each in last], known_to) == ([4], 30)
    assert found.aborted(40, 50) == ([], 40)


def test_a_segment_is_added_once_and_in_its_place() -> None:
    first, second, third = segment(0, 10), segment(10, 20), segment(20, 30)
    found = of_log(first, third)
    found.add(second)
    found.add(second)
    assert (list(found), found.size_bytes) == ([first, second, third], 30)
    found.remove({first.name, third.name})
    assert (list(found), found.size_bytes) == ([second], 10)


@pytest.mark.parametrize(
    ("offset", "end"), [(0, 30), (5, 30), (10, 30), (19, 30), (30, 30), (35, 35), (40, 60), (45, 60), (60, 60)]
)
def test_the_offset_up_to_which_they_have_all(offset: int, end: int) -> None:
    """One that begins earlier may end later than the next ones."""
    found = of_log(segment(0, 20), segment(5, 10, number=1), segment(10, 30, number=2), segment(40, 60))
    assert found.end_from(offset) == end


@pytest.mark.parametrize(
    ("offset", "older_than_ms", "end"),
    [(0, 100, 0), (0, 101, 10), (5, 101, 10), (0, 301, 20), (0, 201, 10), (20, 999, 20), (25, 401, 30), (25, 400, 25)],
)
def test_the_offset_up_to_which_all_are_older(offset: int, older_than_ms: int, end: int) -> None:
    """Not beyond a hole, nor beyond a segment with a newer record though later ones are older."""
    places = [(0, 10, 100), (10, 15, 300), (15, 20, 200), (25, 30, 400)]
    segments = [replace(segment(start, end), parts=(Part(start, 0, 10, 0, ms),)) for start, end, ms in places]
    assert of_log(*segments).end_from(offset, older_than_ms) == end


@pytest.mark.parametrize("ranges", [[(0, 10), (10, 20), (25, 30)], [(0, 20), (5, 10), (10, 30)], []])
@pytest.mark.parametrize("start_offset", [0, 5, 10, 20, 29, 30])
@pytest.mark.parametrize("end_offset", [0, 10, 29, 30])
def test_their_bytes_are_those_that_are_not_twice(
    ranges: list[tuple[int, int]], start_offset: int, end_offset: int
) -> None:
    found = of_log(*(segment(*each, number=number) for number, each in enumerate(ranges)))
    expected = sum(size_bytes for _, size_bytes in found.between(start_offset, end_offset))
    assert found.bytes_between(start_offset, end_offset) == expected


def test_bytes_count_once_also_of_a_segment_that_is_added() -> None:
    found = of_log(segment(0, 10), segment(20, 30))
    assert found.bytes_between(0, 30) == 20
    found.add(segment(10, 20))
    assert found.bytes_between(0, 30) == 30
    found.add(segment(0, 30, number=1))
    assert found.bytes_between(0, 30) == 10, "it has all offsets, and is as small as the others here"
