"""The door by which `purgatorio top --attach` finds a test's clusters."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from purgatorio.admin.cli.admin_client import AdminClient
from purgatorio.admin.cli.command import CommandRefused
from purgatorio.admin.cli.top.command import _attached
from purgatorio.admin.web import attach
from purgatorio.testing import cluster
from purgatorio.testing.door import Door


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "purgatorio"


def _gone() -> str:
    raise RuntimeError("this cluster was closed")


@pytest.fixture
def door() -> Iterator[Door]:
    found = Door(
        lambda: [("test_a.py:1", lambda: "http://a"), ("test_b.py:2", _gone), ("test_c.py:3", lambda: "http://c")]
    )
    yield found
    found.close()


@pytest.mark.usefixtures("door")
def test_the_clusters_that_are_open_are_told() -> None:
    pid = os.getpid()
    assert attach.running_tests() == [(pid, "http://a", "test_a.py:1"), (pid, "http://c", "test_c.py:3")]


def test_without_the_secret_nothing_is_told(door: Door) -> None:
    assert door.file is not None
    told = json.loads(door.file.read_text())
    door.file.write_text(json.dumps({**told, "secret": "guessed"}))
    assert attach.running_tests() == []


def test_a_silent_visitor_keeps_no_others_out_for_long(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purgatorio.testing.door.KNOCK_SECONDS", 0.01)
    assert door.file is not None
    with socket.create_connection(("127.0.0.1", json.loads(door.file.read_text())["port"])):
        assert len(attach.running_tests()) == 2


def test_a_closed_door_leaves_no_file(door: Door) -> None:
    door.close()
    assert door.file is not None
    assert not door.file.exists()
    assert attach.running_tests() == []


@pytest.mark.usefixtures("door")
def test_top_attaches_to_the_newest_cluster() -> None:
    assert _attached(0) == _attached(os.getpid()) == "http://c"
    with pytest.raises(CommandRefused, match="no test in process 1 that has a cluster"):
        _attached(1)


def test_without_a_running_test_top_says_so() -> None:
    with pytest.raises(CommandRefused, match="no test of this user that has a cluster"):
        _attached(0)


def test_several_tests_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [attach.RunningTest(pid, "http://a", f"test_{pid}.py:1") for pid in (7, 8)]
    monkeypatch.setattr(attach, "running_tests", lambda: found)
    with pytest.raises(CommandRefused, match=r"(?s)choose one.*--attach 7: test_7.py:1.*--attach 8"):
        _attached(0)
    assert _attached(8) == "http://a"


@pytest.mark.slow
def test_the_admin_http_of_a_test_is_started_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purgatorio.testing.door._door", None)
    with cluster(brokers=1) as kafka:
        from purgatorio.testing import door

        assert door.is_found()
        (found,) = attach.running_tests()
        assert found.url == kafka.admin_url
        assert AdminClient(found.url).get("state")["brokers"]
        door._close()
