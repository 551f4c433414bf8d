"""What the brokers of a test's cluster log is the test's business only if it asks for it."""

from __future__ import annotations

import pytest

from tests.testing.conftest import Run

pytest_plugins = "pytester"

HEAD = """
import logging

def trouble(kafka):
    \"\"\"A broker that dies is fenced, of which another one warns.\"\"\"
    kafka.topic("orders")
    kafka.kill(kafka.leader("orders"))
    kafka.produce("orders", "tea")

def fenced(caplog):
    return [each for each in caplog.records if "broker fenced" in each.getMessage()]
"""
CASES = {
    "what brokers warn of is not the test's": """
def test_it(kafka, caplog):
    trouble(kafka)
    logging.getLogger("shop").warning("sold out")
    assert [each.getMessage() for each in caplog.records] == ["sold out"]
    assert "fenced" not in caplog.text
""",
    "nor is it for one that wants all of its own": """
def test_it(kafka, caplog):
    with caplog.at_level(logging.DEBUG):
        trouble(kafka)
    assert [each for each in caplog.records if each.name.startswith("purgatorio")] == []
""",
    "a test that asks gets it": """
def test_it(kafka, caplog):
    with caplog.at_level(logging.WARNING, logger="purgatorio"):
        trouble(kafka)
    assert fenced(caplog)
    caplog.clear()
    kafka.kill(kafka.leader("orders"))
    kafka.produce("orders", "tea")
    assert not fenced(caplog)
""",
    "a test that asks for one logger gets that": """
def test_it(kafka, caplog):
    caplog.set_level(logging.WARNING, logger="purgatorio.broker.metadata")
    trouble(kafka)
    assert fenced(caplog)
""",
    "a test's own use of the library is its own": """
def test_it(kafka, caplog):
    logging.getLogger("purgatorio.broker.metadata.embedded").warning("broker fenced")
    assert fenced(caplog)
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_caplog(run: Run, case: str) -> None:
    run(HEAD + case).assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_failed_tests_report_shows_what_the_brokers_warned_of(run: Run) -> None:
    result = run(f"{HEAD}\ndef test_it(kafka):\n    trouble(kafka)\n    assert False")
    result.stdout.fnmatch_lines(["*Captured log call*", "*broker fenced: its lease expired*"])
