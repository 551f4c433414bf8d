"""The table of APIs in docs/apis.md is the one that brokers answer by."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "api_table.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("api_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_apis_that_are_registered(script: ModuleType) -> None:
    """After a change: `.venv/bin/python scripts/api_table.py --write`."""
    assert script.in_page(script.PAGE.read_text(encoding="utf-8")) == script.table()


def test_the_table_is_written_between_the_markers(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "apis.md"
    page.write_text("before\n<!-- apis: begin -->\nold\n<!-- apis: end -->\nafter\n", encoding="utf-8")
    monkeypatch.setattr(script, "PAGE", page)
    assert script.main(["--write"]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- apis: begin -->\n| API | versions |")
    assert text.endswith("|\n<!-- apis: end -->\nafter\n")
    assert "| Produce | 3–13 |" in text


def test_anything_else_is_answered_with_how_it_is_used(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--help"]) == 2
    assert "--write" in capsys.readouterr().err
