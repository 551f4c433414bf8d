"""The page and the pipeline's report have the table of kinds as it is."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kinds", ROOT / "scripts" / "kinds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_have_the_table(script: ModuleType) -> None:
    """After a change: `.venv/bin/python scripts/kinds.py --write`."""
    assert {file: (ROOT / file).read_text(encoding="utf-8") for file in script.PLACES} == {
        file: script.written(file) for file in script.PLACES
    }


def test_a_file_without_a_place_for_the_table_is_refused(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(script.PLACES, "README.md", script.plots)
    with pytest.raises(ValueError, match=r"README\.md has no lines with"):
        script.written("README.md")
