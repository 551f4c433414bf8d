"""Twelve failing tests, each with one of the commonest mistakes of those who test with Kafka, and their reports.

`failing/` has the tests, which pytest does not collect by itself, and beside each the report that it must give, whole,
without its times, ports and processes. ``WRITE_REPORTS=1 pytest tests/testing/why`` writes them anew; read what
changed.
"""

from __future__ import annotations

import os
import re
from typing import Final

import pytest

from tests.error_log import ErrorLog
from tests.testing.why.kept import FAILING, NAMES, lasting, normal

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.clients

BEGINS: Final = re.compile(r"-+ Kafka at the failed call -+\n")
ENDS: Final = re.compile(r"^(?:/|=+ |_+ |-+ |\S+\.py:\d)", re.MULTILINE)
LOGGED: Final = {"no_permission": ["GroupAuthorizationFailedError"]}
"""Errors that the clients log in these tests."""


def report_of(name: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a failing test as its author would, and return the report."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makefile(".py", **{f"test_{name}": (FAILING / f"{name}.py").read_text(encoding="utf-8")})
    pytester.makeini("[pytest]\nasyncio_mode = auto\n")
    plugins = ("-p", "pytest_purgatorio", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider")
    result = pytester.runpytest_inprocess(*plugins, "-W", "ignore", "--tb=line")
    result.assert_outcomes(failed=1)
    shown = result.stdout.str()
    found = BEGINS.split(shown)[1]
    return normal(found[: end.start() if (end := ENDS.search(found)) else None])


@pytest.mark.parametrize("name", NAMES)
def test_the_report_names_the_cause_in_its_first_line(
    name: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, error_log: ErrorLog
) -> None:
    report, kept = report_of(name, pytester, monkeypatch), FAILING / f"{name}.txt"
    for words in LOGGED.get(name, ()):
        error_log.expect(words)
    if os.environ.get("WRITE_REPORTS"):
        kept.write_text(report, encoding="utf-8")
    assert lasting(report) == lasting(kept.read_text(encoding="utf-8"))
    assert not report.startswith("brokers:")
