"""The pages about the architecture name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = "".join((ROOT / "docs" / name).read_text() for name in ("architecture.md", "how-it-works.md", "rooms.md"))
ROOMS = (
    "purgatory",
    "protocol",
    "broker",
    "admin",
    "simulation",
    "testing",
    "plugins",
    "pipeline",
    "scripts",
    "tests",
    "purgatorio/client",
)


def missing(text: str) -> list[str]:
    """Return the names of Python files in a text that no file has."""
    there = {path.name for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    there |= {path.name for path in ROOT.glob("*.py")}
    return [name for name in re.findall(r"\w+\.py\b", text) if name not in there]


def test_every_file_that_the_pages_name_is_there() -> None:
    assert len(re.findall(r"\w+\.py\b", PAGES)) > 80
    assert not missing(PAGES)


def test_a_file_that_was_moved_is_noticed() -> None:
    assert missing("begin with rebalances.py and delayed_join.py") == ["delayed_join.py"]
