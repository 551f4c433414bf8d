"""The benchmarks run; what they say is for the README, not for a test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    head, rule, *rows = ran.stdout.splitlines()
    assert head == "| what | measured | bar | met |"
    assert rule == "|---|---|---|---|"
    assert rows
    assert all(row.count("|") == 5 for row in rows)
