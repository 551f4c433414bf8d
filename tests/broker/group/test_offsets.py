"""Counts of pairs."""

from __future__ import annotations

from purgatorio.broker.group.offsets import Tally


def test_a_pair_is_there_until_it_was_discarded_as_often_as_it_was_added() -> None:
    tally: Tally[str, int] = Tally()
    tally.add("a", 1)
    tally.add("a", 1)
    tally.add("a", 2)
    tally.discard("a", 1)
    assert tally.has("a", 1)
    tally.discard("a", 1)
    assert (tally.has("a", 1), tally.has("b", 2), "a" in tally, list(tally.of("a"))) == (False, False, True, [2])


def test_nothing_is_left_of_a_pair_without_any() -> None:
    tally: Tally[str, int] = Tally()
    tally.add("a", 1)
    tally.discard("a", 1)
    assert ("a" in tally, list(tally.of("a")), tally._counts) == (False, [], {})
