"""No file needs another one that needs it, however far around: each can be read after those that it imports."""

from __future__ import annotations

import ast
import graphlib
import importlib.util
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("purgatory", "protocol", "broker", "admin", "simulation", "testing", "purgatorio/client")


def module_name(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return f"purgatorio.{name.removeprefix('purgatorio.')}".removesuffix(".__init__")


def imported(name: str, source: str, known: Iterable[str]) -> set[str]:
    """The modules that a file imports, also within functions and for types alone."""
    package = name if any(each.startswith(f"{name}.") for each in known) else name.rpartition(".")[0]
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            origin = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            modules = {f"{origin}.{alias.name}" for alias in node.names}
            names |= {each if each in known else origin for each in modules}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names.intersection(known)


def circle(sources: dict[str, str]) -> list[str]:
    """The modules of a circle, or none."""
    needs = {name: imported(name, source, sources) - {name} for name, source in sources.items()}
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_circle_of_files() -> None:
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    assert len(paths) > 500
    assert not circle({module_name(path): path.read_text() for path in paths})


def test_a_circle_is_seen_also_through_types_and_functions() -> None:
    sources = {
        "a.one": "from a import two",
        "a.two": "if TYPE_CHECKING:\n    from .three import Three",
        "a.three": "def late() -> None:\n    from a.one import first",
    }
    assert set(circle(sources)) == set(sources)
    assert not circle({**sources, "a.three": "import json"})
