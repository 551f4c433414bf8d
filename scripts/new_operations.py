"""Checks that a new operation has what belongs to it: a test, a fragment of the changelog, and the files made of it.

.venv/bin/python scripts/new_operations.py    ./scripts/test runs it

An operation is new if its class is not in the commit at which this branch left main; on main, not in the last commit.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import client_operations
from purgatorio.admin.operations.declare import Operation
from purgatorio.admin.operations.table import OPERATIONS

ROOT = Path(__file__).resolve().parents[1]
FRAGMENTS = "docs/changes"
DECLARED = "admin/operations"
_CLASS = re.compile(r"^class (\w+)\(", re.MULTILINE)


def git(root: Path, *words: str) -> str | None:
    """Return what git prints; None if it fails, or is not there."""
    try:
        return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def base_of(root: Path) -> str | None:
    """Return the commit at which this branch left main, or the last one on main itself; None without git."""
    for main in ("origin/main", "main"):
        if base := git(root, "merge-base", "HEAD", main):
            return base.strip()
    return None if git(root, "rev-parse", "HEAD") is None else "HEAD"


def new_classes(root: Path, base: str) -> set[str]:
    """Return the names of the classes that the files of operations have now, and had not at the base."""
    before = git(root, "grep", "-hE", r"^class \w+\(", base, "--", f"{DECLARED}/*.py") or ""
    now = "".join(file.read_text(encoding="utf-8") for file in sorted((root / DECLARED).glob("*.py")))
    return set(_CLASS.findall(now)) - set(_CLASS.findall(before))


def has_fragment(root: Path, base: str) -> bool:
    """Return whether a fragment was added or changed since the base, committed or not."""
    changed = git(root, "diff", "--name-only", base, "--", FRAGMENTS) or ""
    untracked = git(root, "ls-files", "--others", "--exclude-standard", "--", FRAGMENTS) or ""
    return any((root / name).exists() for name in (changed + untracked).splitlines())


def names_of(kind: type[Operation]) -> set[str]:
    """Return the words by which a test may name an operation: its class, its command, the end of its path."""
    fixed = [part for part in kind.path.split("/") if part and "{" not in part]
    return {kind.__name__, *([kind.command] if kind.command else []), *fixed[-1:]}


def has_test(kind: type[Operation], tests: str) -> bool:
    """Return whether the tests name an operation."""
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", tests) for name in names_of(kind))


def missing(root: Path) -> list[str]:
    """Return, in a sentence each, what new operations are without."""
    base = base_of(root)
    new = new_classes(root, base) if base is not None else set()
    kinds = [kind for kind in OPERATIONS if kind.__name__ in new]
    if base is None or not kinds:
        return []
    tests = "\n".join(file.read_text(encoding="utf-8") for file in sorted((root / "tests").rglob("*.py")))
    untested = [kind for kind in kinds if not has_test(kind, tests)]
    found = [f"{kind.__name__} has no test: none has {' or '.join(sorted(names_of(kind)))}" for kind in untested]
    if not has_fragment(root, base):
        found.append(f"{kinds[0].__name__} is new, and nothing in {FRAGMENTS}/ says so: see its README.md")
    return found


def main() -> int:
    """Print what is missing; return the exit code."""
    found = missing(ROOT)
    for sentence in found:
        print(sentence)
    return client_operations.main([]) or int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
