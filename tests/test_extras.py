"""The command that a message names installs an extra as the product itself was installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from purgatorio import extras


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Sets where the distribution comes from; the working folder is a clone with its environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))

    class Distribution:
        said: str | None = None

        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return self.said

    installed = Distribution()
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: installed)

    def set_origin(said: dict[str, Any] | None) -> None:
        installed.said = None if said is None else json.dumps(said)

    return set_origin


def test_an_editable_installation_stays_editable(origin: Any, tmp_path: Path) -> None:
    origin({"url": tmp_path.as_uri(), "dir_info": {"editable": True}})
    assert extras.install("top") == "./.venv/bin/python -m pip install -e '.[top]'"


def test_a_wheel_or_a_folder_is_installed_from_again(origin: Any, tmp_path: Path) -> None:
    origin({"url": (tmp_path / "dist" / "purgatorio-1.whl").as_uri(), "archive_info": {}})
    assert extras.install("top") == "./.venv/bin/python -m pip install './dist/purgatorio-1.whl[top]'"
    origin({"url": "file:///far/a%20clone", "dir_info": {}})
    assert extras.install("otel") == "./.venv/bin/python -m pip install '/far/a clone[otel]'"


def test_others_come_by_their_name_or_url(origin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    origin(None)
    assert extras.install("top") == "./.venv/bin/python -m pip install 'purgatorio[top]'"
    origin({"url": "https://example.org/p.git", "vcs_info": {}})
    assert extras.install("top").endswith("'purgatorio[top] @ https://example.org/p.git'")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert extras.install("top") == "this executable is made without [top]: install from a clone or a wheel"
