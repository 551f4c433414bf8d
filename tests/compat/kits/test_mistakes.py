"""Common mistakes in the tests of other languages: the first line of each report names the cause and the way out."""

from __future__ import annotations

import re

import pytest

from tests.compat.kits.conftest import RUN_TIMEOUT_SECONDS, Run
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS

pytestmark = pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + RUN_TIMEOUT_SECONDS)

LATE = (
    r"late reads \w+-0 from offset 1, the end: it asked for the end, after the record \(auto\.offset\.reset="
    r"latest, or a seek to the end\); to read that, set earliest, or start it before"
)
MISSPELT = r"sh\w+ asks for topic \w+, which does not exist; did you mean \w+s\? Correct the name, or create the topic"
SECOND = (
    r"two own(s|ed) no partition: (\w+) has one, which one own\1; for it to read, give \2 more partitions, "
    r"or two another group\.id"
)
USED = (
    r"billing goes on at its committed offset 1, the end of \w+-0: it has read what is before; reset its offsets, or "
    r"take another group\.id, to read that again"
)
FIRST_LINES = {
    "vitest": (LATE, MISSPELT, SECOND),
    "jest": (LATE, MISSPELT, SECOND),
    "go": (LATE, MISSPELT, SECOND, USED),
    "java": (LATE, MISSPELT, SECOND, USED),
}
"""In JavaScript hooks close the clients, after the report; in Go and Java they are closed before it."""


@pytest.mark.parametrize("runner", ["vitest", "jest", "go", "java"])
def test_the_first_line_of_a_report_names_the_mistake(request: pytest.FixtureRequest, runner: str) -> None:
    kit: Run = request.getfixturevalue(runner if runner in ("go", "java") else "javascript")
    code, told = {
        "vitest": lambda: kit("vitest/vitest.mjs", "run", "mistakes"),
        "jest": lambda: kit("jest/bin/jest.js", "--forceExit", "mistakes"),
        "go": lambda: kit("-run", "TestMistakes", ".", FAIL_ON_PURPOSE="1"),
        "java": lambda: kit("purgatorio.MistakesCase"),
    }[runner]()
    assert code != 0
    found = [re.search(rf"^[ .\w:/]*{line}\n", told, re.MULTILINE) for line in FIRST_LINES[runner]]
    assert all(found), told
