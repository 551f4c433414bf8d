"""What tests of several parts share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Protocol

import pytest


class PurgatorioProcess:
    """A `purgatorio` command in a process of its own; its log lines go to the standard error.

    Args:
        argv: the command and its flags, without the program's name.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        environ = {key: value for key, value in os.environ.items() if not key.startswith("PURGATORIO_")}
        command = [sys.executable, "-m", "purgatorio", *argv]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)

    def greeting(self) -> str:
        """What is printed up to the line that says how to stop it; by then clients are answered."""
        assert self.process.stdout is not None
        lines: list[str] = []
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith("Ctrl-C"):
                return "".join(lines)
        code, errors = self.end()
        raise AssertionError(f"it ended with exit code {code}: {errors}")

    def end(self) -> tuple[int, str]:
        """Wait for its end: the exit code and the standard error."""
        _, errors = self.process.communicate()
        return self.process.returncode, errors

    def close(self) -> None:
        """Kill it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class StartPurgatorio(Protocol):
    """Starts a command; it does not outlive the test."""

    def __call__(self, *argv: str) -> PurgatorioProcess:
        """For example ``start("cluster", "--port", "0", "--admin-port", "0")``."""
        ...


@pytest.fixture
def start_purgatorio() -> Iterator[StartPurgatorio]:
    """Starts `purgatorio` processes, and ends them with the test."""
    started: list[PurgatorioProcess] = []

    def start(*argv: str) -> PurgatorioProcess:
        started.append(PurgatorioProcess(argv))
        return started[-1]

    yield start
    for process in started:
        process.close()
