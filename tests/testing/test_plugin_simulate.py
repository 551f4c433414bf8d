"""The pytest plugin and simulations: which seeds are run, what is remembered, what a failure prints."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.testing.simulate import decorator
from purgatorio.testing.simulate.journal import Journal
from purgatorio.testing.simulate.outcome import Failure, Outcome
from tests.testing.conftest import Run

SOURCE = """
    from purgatorio.testing.simulate import simulate

    @simulate(seeds=6)
    async def test_bills(world, tmp_path):
        pass

    def test_plain(tmp_path):
        pass
"""
pytest_plugins = ["pytester"]

CACHE = ("-p", "cacheprovider")


class Runs:
    """Stands in for the runs of seeds: some fail."""

    def __init__(self) -> None:
        self.bad: set[int] = set()
        self.seeds: list[int] = []
        self.scenarios: list[Any] = []

    def run_seed(self, scenario: Any, options: Any, seed: int, plan: Any = None) -> Outcome:
        self.seeds.append(seed)
        self.scenarios.append(scenario)
        failures = [Failure(1.0, "world", AssertionError("a bill is lost"))] if seed in self.bad else []
        return Outcome(seed, (), Journal(lambda: 0.0), failures)

    def since(self) -> list[int]:
        """Return the seeds that were run since the last call."""
        seeds, self.seeds = self.seeds, []
        return seeds


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    fake = Runs()
    monkeypatch.setattr(decorator, "run_seed", fake.run_seed)
    return fake


def test_a_failing_seed_prints_its_report_alone_with_the_line_that_runs_it_again(run: Run, runs: Runs) -> None:
    runs.bad = {4}
    result = run(SOURCE)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *SimulationFailed: seed 4 of test_bills: AssertionError: a bill is lost",
            "*again: pytest 'test_it.py::test_bills' --kafka-sim-seed=4 *Python 3*",
        ]
    )
    result.stdout.no_fnmatch_line("*decorator.py*")
    assert runs.since() == [0, 1, 2, 3, 4]


def test_seeds_that_failed_are_run_first_by_the_next_session(run: Run, runs: Runs) -> None:
    runs.bad = {4}
    run(SOURCE, *CACHE)
    runs.since()
    run(SOURCE, *CACHE).assert_outcomes(passed=1, failed=1)
    assert runs.since() == [4]
    runs.bad = set()
    run(SOURCE, *CACHE).assert_outcomes(passed=2)
    assert runs.since() == [4, 0, 1, 2, 3, 5]
    run(SOURCE, *CACHE)
    assert runs.since() == [0, 1, 2, 3, 4, 5]


def test_a_seed_of_the_command_line_is_run_alone(run: Run, runs: Runs) -> None:
    run(SOURCE, "--kafka-sim-seed=300", "--kafka-sim-seed", "2").assert_outcomes(passed=2)
    assert runs.since() == [300, 2]


IN_A_CLASS = """
    from purgatorio.testing.simulate import simulate

    class TestBilling:
        @simulate(seeds=2)
        async def test_bills(self, world, tmp_path):
            pass
"""


def test_a_method_of_a_test_class_is_a_simulation_too(run: Run, runs: Runs) -> None:
    runs.bad = {1}
    result = run(IN_A_CLASS)
    result.stdout.fnmatch_lines(["*again: pytest 'test_it.py::TestBilling::test_bills' --kafka-sim-seed=1 *"])
    (bound,) = runs.scenarios[-1:]
    assert type(bound.args[0]).__name__ == "TestBilling"
    assert list(bound.keywords) == ["tmp_path"]


def test_a_budget_of_no_time_leaves_one_seed(run: Run, runs: Runs) -> None:
    run(SOURCE, "--kafka-sim-seconds=0").assert_outcomes(passed=2)
    assert runs.since() == [0]


MARKED = """
    import pytest
    from purgatorio.testing.simulate import simulate

    @simulate(seeds=5)
    async def test_bills(world):
        pass

    @pytest.mark.xfail(strict=False)
    @simulate(seeds=[100, 101])
    async def test_known_bug(world):
        pass
"""


def test_under_xdist_a_test_has_a_part_for_each_worker_and_one_that_shall_fail_has_one(
    run: Run, runs: Runs, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest("def pytest_configure(config): config.workerinput = {'workercount': 2}")  # as xdist does it
    result = run(MARKED, "-v")
    result.assert_outcomes(passed=2, xpassed=1)
    result.stdout.fnmatch_lines(["*test_bills?part 2 of 2?*"])
    assert runs.since() == [0, 2, 4, 1, 3, 100, 101]
