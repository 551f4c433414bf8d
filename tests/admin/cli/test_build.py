"""Which build runs, as the command says it."""

from __future__ import annotations

from pathlib import Path

import pytest

import purgatorio
from purgatorio.admin.cli.build import build
from tests.compiled import COMPILED


def test_the_build_is_the_one_that_runs() -> None:
    assert build() == ("compiled" if COMPILED else "interpreted")


@pytest.mark.parametrize(
    ("file", "told"),
    [("timer.py", "interpreted"), ("timer.cpython-311-x86_64-linux-gnu.so", "compiled"), ("timer.pyd", "compiled")],
)
def test_extension_modules_beside_the_source_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, told: str
) -> None:
    folder = tmp_path / "purgatory"
    folder.mkdir(parents=True)
    (folder / file).touch()
    monkeypatch.setattr(purgatorio, "__path__", [str(tmp_path / "elsewhere"), str(tmp_path)])
    assert build() == told
