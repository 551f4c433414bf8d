"""The pages about the house agree with the code: its rooms, what a broker keeps, and every name that they mention."""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "house.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_rooms_has_their_heads(script: ModuleType) -> None:
    """After a change: `.venv/bin/python scripts/house.py --write`."""
    assert script.ROOMS_PAGE.read_text(encoding="utf-8") == script.rooms()


def test_the_drawing_is_of_the_code(script: ModuleType) -> None:
    page = script.HOW_PAGE.read_text(encoding="utf-8")
    assert page == script.how_it_works(page)


@pytest.mark.parametrize(
    ("owner", "attribute", "held", "problem"),
    [
        (
            "broker/log/log.py:Log",
            "pages",
            "broker/log/segment.py:Segment",
            "broker/log/log.py:Log has no attribute pages",
        ),
        ("broker/log/log.py:Log", "epochs", "broker/log/epochs.py:Epochs", "broker/log/epochs.py has no class Epochs"),
    ],
)
def test_a_name_that_is_gone_is_noticed(
    script: ModuleType, owner: str, attribute: str, held: str, problem: str
) -> None:
    with pytest.raises(LookupError, match=f"^{re.escape(problem)}$"):
        script.drawing((script.Holds(owner, attribute, held),))


@pytest.mark.parametrize("room", ["broker", "purgatory", "admin"])
def test_few_rooms_have_a_head_of_one_line(room: str) -> None:
    """The head says where to begin and what the room keeps."""
    files = [ROOT / room / "__init__.py", *(ROOT / room).rglob("*/__init__.py")]
    heads = {file.parent.name: ast.get_docstring(ast.parse(file.read_text())) or "" for file in files}
    assert len([name for name, head in heads.items() if "\n" not in head]) <= 5


def absent(room: Path, head: str) -> list[str]:
    """The files that the head of a room names, and that are neither in the room nor at that path."""
    named = re.findall(r"`([\w/]+\.(?:py|md))`", head)
    return [name for name in named if not (room / name).exists() and not (ROOT / name).exists()]


def test_the_files_that_a_head_names_are_in_its_room(script: ModuleType) -> None:
    files = [file for folder in script.FOLDERS for file in (ROOT / folder).rglob("__init__.py")]
    heads = {file.parent: ast.get_docstring(ast.parse(file.read_text())) or "" for file in files}
    assert {room.as_posix(): gone for room, head in heads.items() if (gone := absent(room, head))} == {}


def test_a_file_that_went_to_another_room_is_noticed() -> None:
    room = ROOT / "broker" / "replica"
    assert absent(room, "Begin with `partition.py`, then `writes.py` and `broker/log/log.py`.") == ["writes.py"]


@cache
def classes() -> dict[str, set[str]]:
    """The names of each class's methods and attributes, those of all classes of a name together."""
    found: dict[str, set[str]] = {}
    for folder in ("purgatory", "protocol", "broker", "admin", "testing", "simulation"):
        for file in (ROOT / folder).rglob("*.py"):
            for each in ast.walk(ast.parse(file.read_text())):
                if isinstance(each, ast.ClassDef):
                    names = found.setdefault(each.name, set())
                    names.update(
                        inner.name for inner in each.body if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
                    )
                    names.update(base.id for base in each.bases if isinstance(base, ast.Name))
    return found


def missing(text: str) -> list[str]:
    """The classes, and methods of classes, in a text that no file has."""
    gone = []
    for name, method in re.findall(r"`([A-Z][a-z]+[A-Za-z]*)(?:\.(\w+))?`", text):
        known = classes().get(name)
        bases = set() if known is None else {inner for base in known for inner in classes().get(base, ())}
        if known is None or (method and method not in known | bases):
            gone.append(f"{name}.{method}" if method else name)
    return gone


def test_every_class_and_method_of_how_it_works_is_there() -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    assert len(re.findall(r"`[A-Z]\w+\.\w+`", page)) > 25
    assert missing(page.replace("`PurgatorySize`", "").replace("`NumDelayedOperations`", "")) == []


def test_a_class_or_method_that_is_gone_is_noticed() -> None:
    assert missing("`Partition.advance` moves what `Watermark` and `Partition.check_leader` read") == [
        "Partition.advance",
        "Watermark",
    ]
