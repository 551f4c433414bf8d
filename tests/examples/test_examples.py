"""Each example runs as a user runs it, in a process of its own, and prints what its text says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PROJECTS = {"commit_late": "1 passed, 1 xfailed", "delivery_reports": "2 passed, 1 xfailed"}


def run(*arguments: str) -> list[str]:
    """The lines that ``python …`` prints; it must succeed, and write nothing to the standard error."""
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr
    return ran.stdout.splitlines()


def test_every_example_is_tested_here() -> None:
    """A new example needs a test."""
    tested = set(re.findall(r"examples/(\w+\.py)", Path(__file__).read_text()))
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested
    projects = {path.parent.name for path in EXAMPLES.glob("*/pytest.ini")}
    assert projects == set(PROJECTS)


def test_a_cluster_in_code_serves_a_client() -> None:
    assert run("examples/cluster.py") == ["offset 0: apple", "offset 1: pear", "offset 2: plum"]


def test_a_held_follower_keeps_a_request_waiting() -> None:
    first, waiting, second = run("examples/held_follower.py")
    assert (first, second) == ("offset 0 is acknowledged", "offset 1 is acknowledged")
    assert re.fullmatch(r"acknowledged: False; it waits for: orders-0: .*broker \d is at 1 of 2.*", waiting)


def test_the_tests_with_a_cluster_pass() -> None:
    lines = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "examples/test_orders.py")
    assert re.match(r"4 passed", lines[-1])


@pytest.mark.parametrize("project", PROJECTS)
def test_a_project_finds_its_bug_and_its_fix_passes(project: str) -> None:
    """The test with the bug is expected to fail; one that passes is an error."""
    options = ["-q", "-p", "pytest_purgatorio", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"examples/{project}"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ran.stdout.splitlines()[-1].startswith(PROJECTS[project]), ran.stdout  # librdkafka writes to stderr


def test_the_purgatory_serves_long_polls() -> None:
    assert run("examples/watch_settings.py") == [
        "color is red (version 1)",
        "size is small (version 1)",
        "color is blue (version 2)",
        "size does not change any more",
        "color does not change any more",
    ]
