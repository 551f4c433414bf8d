"""What mypyc would compile wrongly is found before it does."""

from __future__ import annotations

import contextlib
import importlib.util
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("compiling", ROOT / "scripts" / "compiling.py")
assert _spec is not None
assert _spec.loader is not None
compiling = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(compiling)


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("try:\n  yield 1\nexcept KeyError:\n  yield 2\n", [5]),
        ("try:\n  pass\nfinally:\n  yield from ()\n", [5]),
        ("try:\n  yield 1\nexcept KeyError:\n  pass\nelse:\n  yield 2\n", []),
    ],
)
def test_a_suspension_inside_except_or_finally_is_found(body: str, lines: list[int]) -> None:
    assert compiling.suspensions_while_handling("def f():\n" + textwrap.indent(body, "  ")) == lines


def test_no_marked_module_suspends_there() -> None:
    sources = compiling.marked_sources(ROOT)
    assert "purgatorio/purgatory/timing_wheel.py" in sources
    for source in sources:
        assert compiling.suspensions_while_handling((ROOT / source).read_text()) == [], source


def test_a_module_is_compiled_if_a_line_of_its_own_says_so(tmp_path: Path) -> None:
    for name, text in {
        "broker/log/log.py": f'"""A log."""\n\n{compiling.MARK}\n',
        "broker/log/errors.py": '"""Errors."""\n',
        "protocol/api.py": f'"""Not by mention of {compiling.MARK}."""\n',
        "simulation/run.py": f"{compiling.MARK}\n",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert compiling.marked_sources(tmp_path) == ["purgatorio/broker/log/log.py"]


def test_the_extension_modules_lie_beside_their_sources_in_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python takes them only there."""
    names = ("purgatorio/broker/log/log.so", "purgatorio__mypyc.so")

    @contextlib.contextmanager
    def compiled(root: Path) -> Iterator[list[Path]]:
        modules = [Path(compiling.MODULES, name) for name in names]
        for module in modules:
            module.parent.mkdir(parents=True, exist_ok=True)
            module.touch()
        yield modules

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compiling, "compiled", compiled)
    hook = compiling.MypycHook(str(tmp_path), {}, None, None, str(tmp_path), "wheel")
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize("standard", data)
    assert tuple(data["force_include"].values()) == names
    assert all(Path(file).is_file() for file in data["force_include"])
    hook.finalize("standard", data, "")
