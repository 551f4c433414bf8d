"""Which tests a run of a part leaves out: ``pytest --part quick``, ``pytest --part usual``.

``./scripts/test --quick`` runs the first, ``./scripts/test`` the second, and CI all tests but the heavy ones. Two lists
beside this file say more than the marks do. A line of them is a test, one of its cases, or a file or folder whose tests
are not even read; # begins a remark.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
SLOW_LIST: Final = FOLDER / "slow_tests.txt"
"""The tests that take too much CPU for a quick run: `scripts/slow_tests.py` makes it of the times of a run."""
CI_LIST: Final = FOLDER / "ci_tests.txt"
"""The tests that are left to CI: written by hand."""
LIMIT_SECONDS: Final = 0.03
"""The CPU time that a quick test may take, with its fixtures."""
FAR_TOO_SLOW_SECONDS: Final = 0.75
"""In CI a quick test that takes longer fails the run: so much is no noise."""
EXAMPLES: Final = 15
"""How many examples Hypothesis tries in a quick run, where a test does not say."""
MARKS: Final[Mapping[str, str]] = {
    "quick": "not (simulation or spark or clients or process or slow or ci or heavy)",
    "usual": "not (ci or heavy)",
}
"""The parts, with what their tests are not."""
REAL_CLIENTS: Final = ("clients", "spark")
"""Tests with these marks are left to CI if they have not the mark `smoke`."""
CLIENTS_FOLDER: Final = "tests/compat/"
"""Where all tests are of real clients; its conftest.py marks them so."""


LARGE: Final = ("confluent_kafka", "pyarrow", "pyspark", "pytest_socket")
"""Packages that the extra `dev` has and `quick` has not; a quick run leaves out what imports one that is missing."""
_IMPORTED: Final = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Listed:
    """Tests that are left out.

    Attributes:
        paths: files, and folders with a slash at the end, from the root on.
        tests: node ids, of one case or of all.
    """

    paths: tuple[str, ...]
    tests: frozenset[str]

    @classmethod
    def read(cls, text: str) -> Listed:
        """Read a list."""
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return cls(tuple(line for line in lines if "::" not in line), frozenset(line for line in lines if "::" in line))

    def has(self, nodeid: str) -> bool:
        """Return whether the test, all its cases, or its file is listed."""
        return nodeid in self.tests or nodeid.partition("[")[0] in self.tests or self.has_path(nodeid)

    def has_path(self, path: str) -> bool:
        """Return whether a file, a folder (with its slash), or a folder above is listed."""
        return path.startswith(self.paths)


@cache
def slow() -> Listed:
    """Return what is too slow for a quick run."""
    return Listed.read(SLOW_LIST.read_text(encoding="utf-8"))


@cache
def left_to_ci() -> Listed:
    """Return what is left to CI."""
    return Listed.read(CI_LIST.read_text(encoding="utf-8"))


def is_read(part: str, path: str) -> bool:
    """Return whether a run of the part reads the tests of a file, or of a folder (with its slash)."""
    return not (left_to_ci().has_path(path) or (part == "quick" and slow().has_path(path)))


@cache
def missing() -> frozenset[str]:
    """Return the large packages that are not installed."""
    return frozenset(name for name in LARGE if importlib.util.find_spec(name) is None)


def can_be_read(source: str, missing: frozenset[str]) -> bool:
    """Return whether a file of tests imports none of the packages that are missing, and is not for Spark as a whole."""
    for_spark = "\npytestmark = needs_spark\n" in source and "pyspark" in missing
    return not for_spark and missing.isdisjoint(_IMPORTED.findall(source))


def marks_of(nodeid: str, marks: Iterable[str]) -> list[str]:
    """Return the marks that the lists, and the rule of the real clients, add to those of a test."""
    known = set(marks)
    is_real = nodeid.startswith(CLIENTS_FOLDER) or not known.isdisjoint(REAL_CLIENTS)
    is_left = left_to_ci().has(nodeid) or (is_real and "smoke" not in known)
    return ["slow"] * slow().has(nodeid) + ["ci"] * is_left
