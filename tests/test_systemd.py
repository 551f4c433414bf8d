"""deploy/systemd: systemd takes the unit, its command line is one of `purgatorio`, and started means started."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from purgatorio.admin.cli import main as cli

FOLDER = Path(__file__).resolve().parent.parent / "deploy" / "systemd"
UNIT = FOLDER / "purgatorio.service"
ANALYZE = shutil.which("systemd-analyze")


def setting(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


@pytest.mark.process
@pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze on this machine")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    assert ANALYZE is not None
    (program, *_) = shlex.split(*setting("ExecStart"))
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace(program, sys.executable))
    done = subprocess.run([ANALYZE, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert UNIT.name not in done.stdout + done.stderr, "not even a warning"


def test_its_command_line_is_a_broker_of_a_host_with_the_settings_of_the_file(tmp_path: Path) -> None:
    credentials = dict(each.split(":") for each in setting("LoadCredential"))
    for name in credentials:
        shutil.copy(FOLDER / "broker.properties", tmp_path / name)
    _, *words = shlex.split(setting("ExecStart")[0].replace("%d", str(tmp_path)))
    config = cli._load_config(cli.build_parser().parse_args(words))
    assert config is not None
    assert (config.store, config.broker.broker_id) == ("etcd://10.0.0.1,10.0.0.2,10.0.0.3", 1)
    assert config.cluster_secret_file == str(tmp_path / "cluster.secret")
    assert {*credentials.values()} == {f"/etc/purgatorio/{name}" for name in credentials}
    assert int(setting("TimeoutStopSec")[0]) * 1000 > 2 * config.broker.shutdown_grace_ms


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """What systemd listens on while a unit with Type=notify starts."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listening


@pytest.mark.process
@pytest.mark.timeout(40)
@pytest.mark.parametrize("words", ["serve", "cluster --processes"])
def test_a_broker_reports_that_it_has_started(
    words: str, manager: socket.socket, start_purgatorio: Callable[..., Any]
) -> None:
    process = start_purgatorio(*words.split(), "--port", "0", "--admin-port", "0")
    assert manager.recv(100) == b"READY=1"
    page = re.search(r"page +(http\S+)", process.greeting())
    assert page is not None
    with urllib.request.urlopen(f"{page[1]}readyz") as answer:
        assert answer.status == 200
