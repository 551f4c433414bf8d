"""Finding the clusters of running tests by their files."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from purgatorio.admin.web import attach


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "purgatorio"


def test_the_file_is_the_users_alone() -> None:
    file = attach.write(1234, "secret")
    assert file is not None
    assert (file.name, file.stat().st_mode & 0o777) == (f"{os.getpid()}.json", 0o600)
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert json.loads(file.read_text()) == {"port": 1234, "secret": "secret"}


def test_a_folder_that_others_may_change_is_not_used(runtime: Path) -> None:
    runtime.mkdir(mode=0o777)
    runtime.chmod(0o777)
    assert attach.folder() is None
    assert attach.write(1234, "secret") is None
    assert attach.running_tests() == []


def test_a_link_in_place_of_the_folder_is_not_used(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    runtime.symlink_to(tmp_path / "elsewhere")
    assert attach.folder() is None


def test_the_file_of_a_process_that_has_ended_is_removed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = attach.write(port, "secret")
    assert file is not None
    assert attach.running_tests() == []
    assert not file.exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"port": "x", "secret": 1}', '{"port": 1e9, "secret": ""}'])
def test_a_file_that_is_none_is_passed_over(runtime: Path, text: str) -> None:
    runtime.mkdir(mode=0o700)
    (runtime / "77.json").write_text(text)
    assert attach.running_tests() == []
