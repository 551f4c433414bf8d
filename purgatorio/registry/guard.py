"""Runs a command that ends with the process that started the guard, however that one ends.

The owner holds the other end of the guard's standard input. When that closes, which it does if the owner is killed too,
the command is killed: what it knows is in the cluster, which ends with the owner.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Final

_READ_BYTES: Final = 4096


def run(command: Sequence[str]) -> int:
    """Run a command until it or the standard input ends; return its exit code."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def wait_for_owner() -> None:
        with contextlib.suppress(OSError):
            while os.read(sys.stdin.fileno(), _READ_BYTES):
                pass
        child.kill()

    threading.Thread(target=wait_for_owner, name="owner", daemon=True).start()
    return child.wait()


def guarded(command: Sequence[str]) -> list[str]:
    """Return the command that runs another one under a guard."""
    # The one-file executable is its own interpreter, and takes its commands only.
    own = [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-m", "purgatorio"]
    return [*own, "registry", "guard", "--", *command]
