"""The text that a failed test shows."""

from __future__ import annotations

from purgatorio.testing import cluster
from purgatorio.testing.report import MAX_LINES, MAX_WIDTH, section


def test_a_section_says_how_much_it_leaves_out() -> None:
    assert section("title", ["a", "b"], later=2, earlier=-3) == ["title:", "  a", "  b", "  … 2 more"]
    assert section("title", ["a"], earlier=1) == ["title:", "  … 1 earlier", "  a"]
    assert section("title", []) == []


def test_lines_and_their_lengths_are_bounded() -> None:
    with cluster(brokers=40) as kafka:
        kafka.topic("orders", partitions=100, replicas=3)
        kafka.stop(1)
        lines = kafka.report().splitlines()
    assert len(lines) <= MAX_LINES
    assert len(lines[0]) == MAX_WIDTH
    assert lines[0].endswith("…")


def test_an_idle_cluster_says_that_nothing_waits() -> None:
    """Followers' own fetches wait all the time, and are left out."""
    with cluster() as kafka:
        kafka.topic("orders")
        kafka.produce("orders", "first")
        kafka.until_parked(api="Fetch").wait()
        assert kafka.report().splitlines()[1:] == ["parked operations: none"]
