"""Tests of how the tests are shared among processes."""

from __future__ import annotations

import pytest

from tests.sharing import rank, share_of

SPARK = "tests/pipeline/test_source.py::test_a"
SEEDS = "tests/simulation/test_seeds.py::test_a[1-5]"
UNIT = "tests/broker/log/test_log.py::test_a"


def test_files_are_shared_as_a_whole_and_long_tests_one_by_one() -> None:
    assert share_of(SPARK) == share_of("tests/pipeline/delays/test_batches.py::test_b") != share_of(UNIT)
    assert share_of(SEEDS) != share_of(SEEDS.replace("[1-5]", "[6-10]"))
    assert share_of(UNIT) == share_of(UNIT.replace("test_a", "test_b"))


def test_what_takes_longest_begins_first() -> None:
    assert sorted([UNIT, SEEDS, SPARK], key=rank) == [SPARK, SEEDS, UNIT]


def test_all_tests_of_spark_have_one_session(request: pytest.FixtureRequest) -> None:
    assert len({share_of(item.nodeid) for item in request.session.items if item.get_closest_marker("spark")}) <= 1
