"""`purgatorio simulate --seeds`: what is told of many seeds; the simulations are faked."""

from __future__ import annotations

import platform
from collections import Counter

import pytest

from purgatorio.simulation import command
from purgatorio.simulation.checks.checkers import Anomaly
from purgatorio.simulation.checks.sometimes import SOMETIMES
from purgatorio.simulation.history.history import History
from purgatorio.simulation.run import Scenario, SeedReport, has_transactions
from purgatorio.simulation.swarm import plain

FIRST, *OTHERS = SOMETIMES


def fake(monkeypatch: pytest.MonkeyPatch, *reached: str, anomalies: tuple[Anomaly, ...] = ()) -> None:
    """Let every seed reach these paths, and find these anomalies."""

    def simulate(seed: int, scenario: Scenario, *, watch: object = None) -> SeedReport:
        swarm = plain(brokers=3, partitions=1, min_insync_replicas=2)
        return SeedReport(seed, scenario, History(), swarm, list(anomalies), reached=Counter(reached))

    monkeypatch.setattr(command, "simulate", simulate)


def test_a_hundred_seeds_that_never_reach_a_path_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(monkeypatch, *OTHERS)
    assert command.run(seed=1, seeds=100) == 1
    assert f"never reached: {FIRST}   {SOMETIMES[FIRST]}" in capsys.readouterr().out
    assert command.run(seed=1, seeds=99) == 0, "too few to tell"
    assert command.run(seed=1, seeds=100, faults="pause") == 0, "not all faults"
    assert command.run(seed=1, seeds=100, seconds=3.0) == 0, "not the usual time"


def test_a_rare_path_is_not_missed_by_a_part_of_the_default_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    for path, seeds in command.RARE.items():
        fake(monkeypatch, *(other for other in SOMETIMES if other != path))
        assert command.run(seed=101, seeds=100) == 0
        assert command.run(seed=1, seeds=seeds) == 1


def test_a_hundred_seeds_that_reach_all_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, *SOMETIMES)
    assert command.run(seed=1, seeds=100) == 0


def test_the_line_that_replays_a_failure_names_the_version_of_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(monkeypatch, anomalies=(Anomaly("gap", "orders-0", ""),))
    assert command.run(seed=7, seeds=2) == 1
    said = capsys.readouterr().out
    assert f"seed 8: gap   purgatorio simulate --seed 8   # Python {platform.python_version()}\n" in said


def test_only_the_seeds_with_transactions_are_simulated_if_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(monkeypatch)
    assert command.run(seed=1, seeds=400, transactions=True) == 0, "too few of all to tell"
    chosen = sum(map(has_transactions, range(1, 401)))
    assert 60 < chosen < 140
    assert f"{chosen} of {chosen} seeds passed" in capsys.readouterr().out
