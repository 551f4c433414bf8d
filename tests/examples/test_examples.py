"""Each example runs as a user runs it, in a process of its own, and prints what its text says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.projects import LIGHT, PROJECTS

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
HANGS_SECONDS = 150
"""After which a test of a project hangs: longer than librdkafka waits for an answer, which is 60 s."""


def run(*arguments: str) -> list[str]:
    """The lines that ``python …`` prints; it must succeed, and write nothing to the standard error.

    But for what aiokafka says of a topic that its first request creates, as with Kafka.
    """
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    told = re.sub(r"^Topic \w+ not found in cluster metadata\n", "", ran.stderr)
    assert (ran.returncode, told) == (0, ""), ran.stdout + ran.stderr
    return ran.stdout.splitlines()


def test_every_example_is_tested_here() -> None:
    """A new example needs a test."""
    tested = set(re.findall(r"examples/(\w+\.py)", Path(__file__).read_text()))
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested
    assert {path.parent.name for path in EXAMPLES.glob("*/pytest.ini")} == set(PROJECTS)


def test_a_cluster_in_code_serves_a_client() -> None:
    assert run("examples/cluster.py") == ["offset 0: apple", "offset 1: pear", "offset 2: plum"]


def test_a_held_follower_keeps_a_request_waiting() -> None:
    first, waiting, second = run("examples/held_follower.py")
    assert (first, second) == ("offset 0 is acknowledged", "offset 1 is acknowledged")
    assert re.fullmatch(r"acknowledged: False; it waits for: orders-0: .*broker \d is at 1 of 2.*", waiting)


def test_the_tests_with_a_cluster_pass() -> None:
    lines = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "examples/test_orders.py")
    assert re.match(r"4 passed", lines[-1])


@pytest.mark.timeout(600)
def test_the_light_projects_find_their_bugs_and_their_fixes_pass() -> None:
    """In one process, to save the starts of the others; test_projects.py runs each project as a stranger does.

    One of them alone took 110 s beside a load of 15. A test that hangs ends with the stacks of all threads.
    """
    ini = EXAMPLES / "commit_late" / "pytest.ini"
    options = ["-q", "-p", "pytest_purgatorio", "-p", "no:cacheprovider", "-c", str(ini), "--rootdir", str(EXAMPLES)]
    options += ["-o", f"faulthandler_timeout={HANGS_SECONDS}", "-o", "faulthandler_exit_on_timeout=true"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(f"examples/{project}" for project in LIGHT)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    passed = sum(PROJECTS[project] for project in LIGHT)
    told = (ran.stdout.splitlines() or [""])[-1]
    assert told.startswith(f"{passed} passed, {len(LIGHT)} xfailed"), ran.stdout + ran.stderr  # librdkafka's, too


def test_the_purgatory_serves_long_polls() -> None:
    assert run("examples/watch_settings.py") == [
        "color is red (version 1)",
        "size is small (version 1)",
        "color is blue (version 2)",
        "size does not change any more",
        "color does not change any more",
    ]
