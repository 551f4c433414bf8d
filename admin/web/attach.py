"""How `purgatorio top` finds the clusters of running tests: a file for each process that has some.

The file ``PID.json`` in a folder of the user's has the port of a door on this machine, and a secret. A program that
sends the secret there gets a line of JSON about each cluster: its admin URL, and where it was opened. The admin HTTP is
started for that, so that a test that is not looked at needs none.
"""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

TIMEOUT_SECONDS: Final = 5.0
"""How long a process has to answer: it may have to import the admin HTTP."""
MAX_PROCESSES: Final = 100
"""Files that are looked at, the newest first."""
MAX_ANSWER_BYTES: Final = 64 * 1024


class RunningTest(NamedTuple):
    """A cluster of a running test.

    Attributes:
        url: that of its admin HTTP.
        where: file and line that opened it.
    """

    pid: int
    url: str
    where: str


def folder() -> Path | None:
    """Return the user's folder for such files, which no other user can read; None if there can be none."""
    if not hasattr(os, "getuid"):
        return None
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(runtime) / "purgatorio" if runtime else Path(f"/tmp/purgatorio-{os.getuid()}")
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError:
        return None
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return path if is_own else None


def running_tests() -> list[RunningTest]:
    """Return the clusters of running tests of this user; files of processes that have ended are removed."""
    path = folder()
    files = [] if path is None else sorted(path.glob("*.json"), key=_modified, reverse=True)
    return [found for each in files[:MAX_PROCESSES] for found in _asked(each)]


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _asked(path: Path) -> Iterator[RunningTest]:
    """Ask a process for its clusters."""
    try:
        pid, told = int(path.stem), json.loads(path.read_text())
        with socket.create_connection(("127.0.0.1", told["port"]), TIMEOUT_SECONDS) as door:
            door.sendall(f"{told['secret']}\n".encode())
            with door.makefile("rb") as answer:
                lines = answer.read(MAX_ANSWER_BYTES).splitlines()
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)  # its process has ended
        return
    except (OSError, ValueError, KeyError, TypeError):
        return
    for line in lines:
        cluster = json.loads(line)
        yield RunningTest(pid, cluster["url"], cluster["where"])


def write(port: int, secret: str) -> Path | None:
    """Write the file of this process, which only the user can read; return its path, or None."""
    path = folder()
    if path is None:
        return None
    file = path / f"{os.getpid()}.json"
    try:
        file.unlink(missing_ok=True)  # of an earlier process
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            json.dump({"port": port, "secret": secret}, opened)
    except OSError:
        return None
    return file
