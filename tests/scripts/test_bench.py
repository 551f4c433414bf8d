"""The benchmarks run; what they say is for the README, not for a test."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.process

BENCH = Path(__file__).resolve().parents[2] / "scripts" / "bench"


@pytest.mark.parametrize(
    "name",
    [
        "codec",
        pytest.param("groups", marks=pytest.mark.heavy),
        "kit",
        "lag",
        "latency",
        pytest.param("memory", marks=[pytest.mark.clients, pytest.mark.heavy]),
        "purgatory",
        pytest.param("scale", marks=pytest.mark.heavy),
        "startup",
        "throughput",
        "wheel",
    ],
)
def test_a_quick_run_prints_its_table(name: str) -> None:
    command = [sys.executable, str(BENCH), "--quick", "--only", name]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert ran.returncode == 0, ran.stderr
    head, rule, *rows, empty, load = ran.stdout.splitlines()
    assert head == "| what | measured | bar | met |"
    assert rule == "|---|---|---|---|"
    assert rows
    assert (empty, load.partition(":")[0]) == ("", "Load average when each part began")
    assert all(row.count("|") == 5 for row in rows)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """scripts/bench/rows.py."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("rows")


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [([1.0, 1.1, 1.2, 1.3, 9.0], "yes"), ([1.1, 1.4, 1.45, 1.6, 1.7], "hidden by noise"), ([1.5, 1.6, 1.7], "**no**")],
)
def test_a_bar_that_lies_within_the_rounds_is_hidden_by_noise(
    rows: ModuleType, rounds: list[float], verdict: str
) -> None:
    """The rounds count that lie in the middle half; an outlier does not."""
    assert rows.rounds_at_most("p50", rounds, 1.5, "×").verdict == verdict
    assert rows.rounds_at_least("p50", [-value for value in rounds], -1.5, "×").verdict == verdict


def test_a_row_of_rounds_says_how_far_they_lie_apart(rows: ModuleType) -> None:
    assert rows.rounds_at_most("p50", [1.0, 2.0, 3.0, 4.0, 5.0], 6, "×", "; 7 µs").measured == (
        "3× (2 to 4 in half of 5 rounds); 7 µs"
    )
