"""The test kits for JavaScript, Go and Java: their own tests, each with its language's usual client."""

from __future__ import annotations

import re

import pytest

from tests.compat.kits.conftest import CLIENTS, PAGE, RUN_TIMEOUT_SECONDS, Run, run
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS, found

pytestmark = pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + RUN_TIMEOUT_SECONDS)

WAITS = r"broker \d Produce of shop, \d+ ms, -?\d+ ms left: orders-\d: broker \d is at 0 of 1"
CONCLUSION = r"^[ .\w:]*shop waits for acks=all of orders-\d: broker \d is at 0 of 1 .*\n *brokers: 1 at "


def test_the_javascript_kit_passes_its_tests_under_vitest(javascript: Run) -> None:
    code, told = javascript("vitest/vitest.mjs", "run", "kit")
    assert (code, re.findall(r"Tests +(\d+) passed \(\1\)", told)) == (0, ["9"]), told


def test_javascript_has_the_names_of_the_python_kit(javascript: Run) -> None:
    code, told = javascript("vitest/vitest.mjs", "run", "names")
    assert (code, re.findall(r"Tests +(\d+) passed \(\1\)", told)) == (0, ["11"]), told


def test_the_javascript_kit_passes_its_tests_under_jest(javascript: Run) -> None:
    code, told = javascript("jest/bin/jest.js", "kit")
    assert (code, "Tests:       2 passed, 2 total" in told) == (0, True), told


def test_typescript_knows_the_operations(javascript: Run) -> None:
    assert javascript("typescript/bin/tsc", "-p", ".") == (0, "")


def test_the_go_kit_has_the_names_of_the_python_kit_and_passes_its_tests(go: Run) -> None:
    code, told = go(".")
    assert code == 0, told


def test_the_go_kit_is_as_gofmt_has_it() -> None:
    assert run([found("gofmt", "Go"), "-l", "."], CLIENTS / "go") == (0, "")


def test_the_java_kit_passes_its_tests(java: Run) -> None:
    code, told = java("purgatorio.KitTest")
    assert (code, "11 tests successful" in told) == (0, True), told


def test_java_has_the_names_of_the_python_kit(java: Run) -> None:
    code, told = java("purgatorio.NamesTest")
    assert (code, "9 tests successful" in told) == (0, True), told


def test_the_java_container_has_the_command_and_the_ports_of_its_cluster(java: Run) -> None:
    """Without a container engine, which is asked for when it is started."""
    code, told = java("purgatorio.ContainerTest")
    assert (code, "1 tests successful" in told) == (0, True), told


@pytest.mark.parametrize("runner", ["vitest", "jest", "go", "go that panics", "go that hangs", "java"])
def test_a_test_that_fails_tells_what_waits_and_why(request: pytest.FixtureRequest, runner: str) -> None:
    kit: Run = request.getfixturevalue({"vitest": "javascript", "jest": "javascript"}.get(runner) or runner.split()[0])
    code, told = {
        "vitest": lambda: kit("vitest/vitest.mjs", "run", "failing"),
        "jest": lambda: kit("jest/bin/jest.js", "--forceExit", "failing"),
        "go": lambda: kit("-run", "TestFailing", ".", FAIL_ON_PURPOSE="1"),
        "go that panics": lambda: kit("-run", "TestFailing", ".", FAIL_ON_PURPOSE="panic"),
        "go that hangs": lambda: kit("-timeout", "5s", "-run", "TestFailing", ".", FAIL_ON_PURPOSE="hang"),
        "java": lambda: kit("purgatorio.FailingCase"),
    }[runner]()
    assert code != 0
    waits, conclusion = re.search(WAITS, told), re.search(CONCLUSION, told, re.MULTILINE)
    assert waits, told
    assert conclusion, told
    assert "last requests:" in told
    order = [conclusion.start(), waits.start(), told.index("Kafka at 127.0.0.1:")]
    assert order == sorted(order), told
    assert runner not in ("vitest", "jest") or told.index("the producer is closed") > order[-1], told


def test_in_java_a_client_that_has_closed_slowly_takes_no_report_from_a_failure(java: Run) -> None:
    code, told = java("purgatorio.ClosingCase")
    assert (code != 0, "1 tests successful" in told, told.count("Kafka at ")) == (True, True, 1), told
    assert "late reads orders-0 from offset 1, the end" in told


def test_the_programs_of_the_page_run(javascript: Run, go: Run, java: Run) -> None:
    code, told = javascript("vitest/vitest.mjs", "run", "orders")
    assert (code, "Tests  1 passed (1)" in told) == (0, True), told
    code, told = go("./page")
    assert code == 0, told
    code, told = java("OrdersTest")
    assert (code, "1 tests successful" in told) == (0, True), told


def test_the_pom_of_the_page_has_the_versions_that_the_java_kit_is_tested_with() -> None:
    (pom,) = re.findall(r"^```xml\n<!-- pom.xml -->\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    named = re.compile(r"<artifactId>(\S+)</artifactId>\s*<version>(\S+)</version>")
    tested = dict(named.findall((CLIENTS / "java" / "pom.xml").read_text()))
    tested["junit-jupiter"] = tested["junit-jupiter-api"]
    versions = dict(named.findall(pom))
    assert versions.pop("orders") == "1"
    assert versions == {name: tested[name] for name in versions}
    assert len(versions) == 5
