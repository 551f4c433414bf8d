"""Histograms of waits: percentiles, bins, and durations as text."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.pipeline.delays import waits
from tests.pipeline.delays import oracle

some_waits = st.lists(st.integers(0, 10**7) | st.integers(0, 100), min_size=1, max_size=200)


@given(some_waits)
def test_a_bucket_holds_the_waits_of_its_width(found: list[int]) -> None:
    for wait_ms in found:
        least_ms = oracle.bucket(wait_ms)
        assert least_ms <= wait_ms < least_ms + waits.bucket_width(least_ms)
        assert waits.bucket_width(least_ms) <= max(1, least_ms / 32)


@given(some_waits, st.sampled_from([0.0, 0.5, 0.95, 0.99, 1.0]))
def test_percentiles_of_buckets_are_near_those_of_the_waits(found: list[int], share: float) -> None:
    nearest_rank = sorted(found)[int(share * (len(found) - 1))]
    about = waits.percentile(Counter(map(oracle.bucket, found)), share)
    if nearest_rank < 64:
        assert about == nearest_rank
    else:
        assert abs(about - nearest_rank) <= nearest_rank / 64


def test_no_waits_have_no_percentiles() -> None:
    with pytest.raises(ValueError, match="no waits"):
        waits.percentile({}, 0.5)


@given(some_waits)
def test_bins_hold_all_waits(found: list[int]) -> None:
    counts = Counter(map(oracle.bucket, found))
    bounds = waits.edges(counts)
    assert all(low < high for low, high in pairwise(bounds))
    last = max(counts)
    assert bounds[-2] < last + waits.bucket_width(last) <= bounds[-1]
    assert sum(waits.shares(counts, bounds)) == pytest.approx(100)


def test_bins_are_milliseconds_first_and_then_ten_for_each_factor_of_ten() -> None:
    assert waits.edges({3: 1, 90: 1}) == [0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 63, 80, 100]
    assert waits.edges({0: 1}) == [0, 1]


def test_a_bucket_across_a_bound_is_divided() -> None:
    """The bucket from 98 ms spans two milliseconds, that from 160 four."""
    assert waits.shares({98: 1, 160: 3}, [0, 99, 162, 200]) == [12.5, 12.5 + 37.5, 37.5]


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0, "0 ms"),
        (70.5, "70.5 ms"),
        (999, "999 ms"),
        (999.5, "1 s"),
        (1250, "1.25 s"),
        (59_900, "59.9 s"),
        (59_990, "1 min"),
        (60_000, "1 min"),
        (125_000, "2 min 5 s"),
        (3_599_900, "1 h"),
        (11_400_000, "3 h 10 min"),
        (100 * 86_400_000, "100 d"),
    ],
)
def test_durations_are_written_with_units(milliseconds: float, words: str) -> None:
    assert waits.duration(milliseconds) == words
