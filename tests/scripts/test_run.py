"""./scripts/run passes any command of `purgatorio` on, and runs a cluster without one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "run"

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (["groups", "list", "--help"], "usage: purgatorio groups list"),
        (["--help"], "usage: purgatorio [-h]"),
        (["--brokers", "1", "--help"], "usage: purgatorio cluster"),
    ],
)
def test_a_word_is_a_command_and_a_flag_is_of_the_cluster(arguments: list[str], usage: str) -> None:
    """`./scripts/run groups list` said that it did not know `groups list`."""
    ran = subprocess.run([str(SCRIPT), *arguments], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith(usage)
