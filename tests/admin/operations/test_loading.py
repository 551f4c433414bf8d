"""What operations import when they are done is imported before, outside of the brokers' event loop."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from purgatorio.admin.operations import loading, table

FILES = list(dict.fromkeys(operation.__module__ for operation in table.OPERATIONS))


def imported_in_functions(module: ModuleType) -> set[str]:
    """The modules of ours that a file's functions import, by its text."""
    assert module.__file__ is not None
    functions = (
        each
        for each in ast.walk(ast.parse(Path(module.__file__).read_text()))
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    found: set[str] = set()
    for each in (inner for function in functions for inner in ast.walk(function)):
        if isinstance(each, ast.ImportFrom):
            found.add(each.module or "")
        elif isinstance(each, ast.Import):
            found.update(alias.name for alias in each.names)
    return {name for name in found if name.startswith("purgatorio.")}


@pytest.mark.parametrize("file", FILES)
def test_all_imports_in_functions_are_found(file: str) -> None:
    assert set(loading.imported_late(file)) == imported_in_functions(sys.modules[file])


HOLD = """
import asyncio, json, sys
from purgatorio import Cluster, ClusterConfig
from purgatorio.admin.operations import loading
from purgatorio.admin.operations.brokers import ChangeFollower
from purgatorio.admin.operations.control.cluster_control import ClusterControl
from purgatorio.admin.operations.operator import Operator

async def main():
    async with Cluster(ClusterConfig(port=0), admin=False) as cluster:
        hold = ChangeFollower(3, held=True)
        loading.load([type(hold)])
        before = set(sys.modules)
        await hold.run(Operator(cluster, ClusterControl(cluster)))
        print(json.dumps(sorted(set(sys.modules) - before)))

asyncio.run(main())
"""


@pytest.mark.process
@pytest.mark.usefixtures("unmeasured")
def test_the_first_hold_of_a_follower_imports_nothing_in_the_loop() -> None:
    """It imported six modules, which took 33 to 40 ms on a busy machine."""
    done = subprocess.run([sys.executable, "-c", HOLD], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
