"""The first cluster of a process: which modules it loads. A test run waits for each of them."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import pytest

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("unmeasured")]

LOADED = """
import asyncio, json, sys
before = set(sys.modules)
from purgatorio.testing import cluster
with cluster():
    print(json.dumps([name for name in sys.modules if name not in before]))
"""
"""A test process with pytest-asyncio or anyio has loaded asyncio before."""

PACKAGES = {"fastcrc", "purgatorio", "uvloop"}
STANDARD = {
    "bisect",
    "concurrent",
    "copy",
    "dataclasses",
    "difflib",
    "fnmatch",
    "gc",
    "glob",
    "hashlib",
    "hmac",
    "importlib",
    "ipaddress",
    "json",
    "mmap",
    "ntpath",
    "pathlib",
    "queue",
    "random",
    "resource",
    "secrets",
    "shlex",
    "termios",
    "threading",
    "urllib",
    "urllib.parse",
    "zlib",
}
"""What asyncio does not load, and takes no more than a millisecond each. HTTP, the e-mail that comes with it, templates
and archives are not among these."""
PARTS = {
    "broker.delays": {"finished", "recorder", "span_maker", "tracing"},
    "broker.metrics": {"counters", "loop_lag"},
    "admin.web": {"attach", "server"},
}
"""Rooms of which a cluster loads these modules only: the rest is for what is asked for later."""
NEVER = (
    "admin.cli",
    "admin.learn",
    "pipeline",
    "schemas",
    "simulation",
    "testing.over_http",
    "testing.simulate",
)


@cache
def loaded() -> list[str]:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    names: list[str] = json.loads(done.stdout)
    return names


def within(names: list[str], room: str) -> list[str]:
    return [name.removeprefix(f"{room}.") for name in names if name.startswith(f"{room}.")]


def test_no_module_of_others_sneaks_in() -> None:
    """Pydantic alone took 75 ms, HTTP 10 ms. Whoever needs a module imports it in the function that needs it."""
    public = [name for name in loaded() if not name.startswith(("_", "cython_runtime")) and "._" not in name]
    tops = {name if name.startswith("urllib.") else name.partition(".")[0] for name in public}
    assert tops - PACKAGES - STANDARD == set()


def test_a_cluster_loads_no_part_of_the_product_that_nothing_has_asked_for() -> None:
    own = within(loaded(), "purgatorio")
    assert [name for name in own if name.startswith(NEVER)] == []
    for room, modules in PARTS.items():
        assert set(within(own, room)) <= modules, room
