"""A new operation without a test, a fragment or its generated files is noticed before the commit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from purgatorio.admin.operations.table import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import new_operations  # noqa: E402 - a script, not a module of the package

pytestmark = pytest.mark.process


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A repository with one commit on main, whose operations are those of this one but for one."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    new = OPERATIONS[0]
    for folder in (new_operations.DECLARED, new_operations.FRAGMENTS, "tests"):
        (tmp_path / folder).mkdir(parents=True)
    classes = "".join(f"class {kind.__name__}(Operation):\n" for kind in OPERATIONS[1:])
    (tmp_path / new_operations.DECLARED / "all.py").write_text(classes)

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", tmp_path, *words], check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "begin")
    assert new_operations.missing(tmp_path) == []
    with (tmp_path / new_operations.DECLARED / "all.py").open("a") as file:
        file.write(f"class {new.__name__}(Operation):\n")
    return tmp_path, new.__name__


def test_a_new_operation_needs_a_test_and_a_fragment(clone: tuple[Path, str]) -> None:
    root, name = clone
    first, second = new_operations.missing(root)
    assert first.startswith(f"{name} has no test")
    assert second.startswith(f"{name} is new, and nothing in docs/changes/ says so")
    (root / "tests" / "test_it.py").write_text(f"from x import {name}\n")
    (root / new_operations.FRAGMENTS / "it.added.md").write_text("It is there.\n")
    assert new_operations.missing(root) == []


def test_each_operation_that_there_is_has_a_test() -> None:
    tests = "\n".join(file.read_text("utf-8") for file in sorted((ROOT / "tests").rglob("*.py")))
    assert [kind.__name__ for kind in OPERATIONS if not new_operations.has_test(kind, tests)] == []


def test_without_git_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert new_operations.missing(tmp_path) == []
