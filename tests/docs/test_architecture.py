"""The page about the architecture names files that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS = ("broker", "protocol", "simulation", "testing", "pipeline", "scripts", "tests")


def missing(text: str) -> list[str]:
    """Return the names of Python files in a text that no file has."""
    there = {path.name for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    there |= {path.name for path in ROOT.glob("*.py")}
    return [name for name in re.findall(r"\w+\.py\b", text) if name not in there]


def test_every_file_that_the_page_names_is_there() -> None:
    assert len(re.findall(r"\w+\.py\b", PAGE)) > 80
    assert not missing(PAGE)


def test_a_file_that_was_moved_is_noticed() -> None:
    assert missing("begin with rebalances.py and delayed_join.py") == ["delayed_join.py"]
