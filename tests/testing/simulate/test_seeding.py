"""Which seeds a test runs: the failed ones first, its part, those that are asked for, within a budget."""

from __future__ import annotations

from pathlib import Path

from purgatorio.testing.simulate.seeding import MAX_REMEMBERED, FailedSeeds, Seeding


def test_seeds_that_failed_come_first_until_they_pass(tmp_path: Path) -> None:
    seeding = Seeding(failed=FailedSeeds(tmp_path, "test_it.py::test_it"))
    other = Seeding(failed=FailedSeeds(tmp_path, "test_it.py::test_other"))
    for seed in (30, 7):
        seeding.note(seed, passed=False)
    assert seeding.order(range(10)) == [7, 30, 0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert other.order(range(3)) == [0, 1, 2]
    for seed in (30, 7, 1):
        seeding.note(seed, passed=True)
    assert seeding.order(range(3)) == [0, 1, 2]


def test_the_parts_of_a_test_have_all_seeds_once_and_each_its_failed_ones_first(tmp_path: Path) -> None:
    failed = FailedSeeds(tmp_path, "test_it")
    for seed in (4, 5, 99):
        failed.add(seed)
    parts = [Seeding(part=(nth, 3), failed=failed).order(range(8)) for nth in range(3)]
    assert parts == [[99, 0, 3, 6], [4, 1, 7], [5, 2]]


def test_a_bounded_number_of_failed_seeds_is_remembered(tmp_path: Path) -> None:
    failed = FailedSeeds(tmp_path, "test_it")
    for seed in range(MAX_REMEMBERED + 5):
        failed.add(seed)
    assert list(failed) == list(range(MAX_REMEMBERED))


def test_seeds_that_are_asked_for_are_the_only_ones() -> None:
    assert Seeding(only=(7, 300)).order(range(10)) == [7, 300]


def test_no_seed_begins_after_the_budget_but_one_is_run() -> None:
    clock = iter([0.0, 4.0, 8.0, 12.0, 16.0])
    seeding = Seeding(budget_seconds=10)
    assert list(seeding.within_budget(range(100), now_seconds=lambda: next(clock))) == [0, 1, 2]
    assert list(Seeding(budget_seconds=0).within_budget(range(100))) == [0]
