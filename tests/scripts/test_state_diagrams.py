"""The page of states is the one that the tables make."""

from __future__ import annotations

import importlib.util
from enum import Enum
from pathlib import Path
from types import ModuleType

import pytest

from purgatorio.broker.group.classic.member import GroupState

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "state_diagrams.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("state_diagrams", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_tables(script: ModuleType) -> None:
    """After a change: `.venv/bin/python scripts/state_diagrams.py --write`."""
    assert script.PAGE.read_text(encoding="utf-8") == script.page()


def test_a_step_that_a_table_gains_is_drawn(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    classic = script.DIAGRAMS[1]
    steps: dict[Enum, frozenset[Enum]] = {**classic.transitions, GroupState.DEAD: frozenset({GroupState.EMPTY})}
    monkeypatch.setattr(script, "DIAGRAMS", (classic._replace(transitions=steps),))
    drawn = script.page()
    assert "    Dead --> Empty\n" in drawn
    assert "    Dead --> [*]\n" not in drawn
    assert "* PreparingRebalance: The members shall join again;" in drawn


def test_the_page_is_written_or_printed(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "PAGE", tmp_path / "states.md")
    assert script.main(["--write"]) == script.main([]) == 0
    assert script.PAGE.read_text(encoding="utf-8") == capsys.readouterr().out
    assert script.main(["--help"]) == 2
