"""The failing tests that are kept, and how their reports are compared."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

FAILING: Final = Path(__file__).parent / "failing"
NAMES: Final = sorted(each.stem for each in FAILING.glob("*.py"))
NORMAL: Final = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"-?\d+(?:\.\d+)? (ms|s)\b"), r"N \1"),
    (re.compile(r"--attach \d+"), "--attach PID"),
    (re.compile(r"-[0-9a-f]{8}-[0-9a-f-]{27}"), "-ID"),
)
VARYING: Final = ("parked operations", "waits that ended", "last rebalances", "last requests")
"""Sections whose lines depend on the moment: a client is between two polls, or has just asked for metadata."""


def normal(text: str) -> str:
    """Return a report without what differs from run to run."""
    for pattern, word in NORMAL:
        text = pattern.sub(word, text)
    return text


def lasting(text: str) -> list[str]:
    """Return the lines of a report that do not depend on the moment: of its conclusions the first."""
    lines = normal(text).splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("brokers:"))
    kept, leaves_out = lines[:1], False
    for line in lines[begin:]:
        if not line.startswith(" "):
            leaves_out = line.startswith(VARYING)
        if not leaves_out:
            kept.append(re.sub(r" for N s, (where|and) .*", "", line))
    readers = sorted(line for line in kept[1:] if " reads " in line)  # whose fetches come in any order
    return [line for line in kept if line not in readers] + readers


def first_line(name: str) -> str:
    """Return the first line of the kept report of a failing test."""
    return (FAILING / f"{name}.txt").read_text(encoding="utf-8").splitlines()[0]
