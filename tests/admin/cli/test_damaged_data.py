"""A folder of --data that cannot be begun with: one line, exit code 2, and no port was opened."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from purgatorio.admin.cli import main as cli
from purgatorio.admin.operations.control.data_folder import MANIFEST, DataFolder
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.admin.operations.control.saved import snapshot

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]

MEMORY_BYTES = 2 * 1024 * 1024 * 1024
"""The address space of a process that reads a folder: interpreter, libraries and all."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with the small snapshot, which needs brokers 1 and 2."""
    path = tmp_path / "data"
    with closing(DataFolder(path)) as folder:
        folder.write(snapshot())
    return path


@pytest.fixture
def port() -> Iterator[str]:
    """A port that is taken: a cluster that got as far as to open it would say so."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield str(server.getsockname()[1])


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Run a cluster as a process with little memory."""
    return subprocess.run(
        [sys.executable, "-m", "purgatorio", "cluster", *options],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
        capture_output=True,
        text=True,
        check=False,
    )


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Edit the manifest, as one would by hand."""
    manifest = json.loads((path / MANIFEST).read_text())
    change(manifest)
    del manifest["crc32"]
    (path / MANIFEST).write_text(json.dumps(manifest))


def _wrong_batch(path: Path) -> None:
    batch = build_batch([Record(1, 5, b"k", b"v")], base_offset=1)
    (path / "snapshot-1" / "1.log").write_bytes(batch * 2)


def _pipe(path: Path) -> None:
    (path / MANIFEST).unlink()
    os.mkfifo(path / MANIFEST)


def _device(path: Path) -> None:
    (path / MANIFEST).unlink()
    (path / MANIFEST).symlink_to("/dev/zero")


def _sparse(name: str) -> Callable[[Path], None]:
    def extend(path: Path) -> None:
        with (path / name).open("wb") as file:
            file.truncate(10_000_000_000)

    return extend


def _sparse_as_told(path: Path) -> None:
    """A log without end, and a manifest that agrees."""
    size_bytes = 1_500_000_000
    with (path / "snapshot-1" / "1.log").open("wb") as file:
        file.truncate(size_bytes)
    edit(path, lambda manifest: manifest["logs"][1].update(size_bytes=size_bytes))


def _deep(path: Path) -> None:
    (path / MANIFEST).write_text("[" * 1_000_000)


def _log_of_another_topic(manifest: Any) -> None:
    manifest["logs"][0]["topic"] = "others"


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "log-of-another-topic": (
        lambda path: edit(path, _log_of_another_topic),
        f"/{MANIFEST} is damaged: it has a log of 'others'-0, which its topics lack",
    ),
    "end-offset": (
        lambda path: edit(path, lambda manifest: manifest["logs"][0].update(end_offset=1 << 70)),
        "the end offset of bills-0 is a whole number from 0 to 9223372036854775807, not 1180591620717411303424",
    ),
    "topic-config": (
        lambda path: edit(path, lambda manifest: manifest["metadata"]["topics/bills"].update(configs={"x": "1"})),
        f"/{MANIFEST} is damaged: topic bills has a config that cannot be: x: there is no such topic config",
    ),
    "wrong-batch": (
        _wrong_batch,
        "/snapshot-1/1.log is damaged: at byte 0: a batch from 1 to 1 does not continue at 3",
    ),
    "deep": (_deep, f"/{MANIFEST} is damaged: its values are nested too deeply"),
    "pipe": (_pipe, f"/{MANIFEST} is a pipe, not a file"),
    "device": (_device, f"/{MANIFEST} is a link, not a file"),
    "sparse-manifest": (_sparse(MANIFEST), f"/{MANIFEST} is damaged: it has more than 67108864 bytes"),
    "sparse-log-as-told": (_sparse_as_told, "/snapshot-1/1.log is damaged: there is no batch at byte 0"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_refused_before_a_port_is_opened(
    data: Path, port: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    do, why = DAMAGES[damage]
    do(data)
    assert cli.main(["cluster", "--port", port, "--data", str(data)]) == 2
    out, errors = capsys.readouterr()
    assert (out, errors.count("\n")) == ("", 1)
    assert errors.startswith(f"purgatorio: {data}/")
    assert why in errors


def test_other_brokers_are_refused_before_a_port_is_opened(data: Path, port: str) -> None:
    done = run("--port", port, "--data", str(data), "--brokers", "1")
    why = "the snapshot needs broker 2, which this cluster does not have"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"purgatorio: {why}\n")


def test_a_pipe_to_import_is_refused(tmp_path: Path, port: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "orders.jsonl")
    assert cli.main(["cluster", "--port", port, "--import", str(tmp_path)]) == 2
    assert capsys.readouterr() == ("", f"purgatorio: {tmp_path / 'orders.jsonl'} is a pipe, not a file\n")


@pytest.mark.parametrize("damage", ["device", "sparse-manifest", "sparse-log-as-told", "deep"])
def test_a_damaged_folder_takes_little_memory(data: Path, damage: str) -> None:
    """The process has less memory than it would need for the file, and says what it says with more."""
    do, why = DAMAGES[damage]
    do(data)
    done = run("--port", "0", "--data", str(data))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert why in done.stderr
