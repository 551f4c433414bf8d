"""What mypyc would compile wrongly is found before it does."""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path

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


def test_no_listed_module_suspends_there() -> None:
    sources = compiling.listed_sources(ROOT)
    assert "purgatorio/broker/purgatory/timing_wheel.py" in sources
    for source in sources:
        assert compiling.suspensions_while_handling((ROOT / source).read_text()) == [], source
