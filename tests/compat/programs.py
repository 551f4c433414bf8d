"""Programs with real clients in other languages: how each is installed, compiled and started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

JAVA_POM = Path(__file__).parent / "java" / "pom.xml"
GO = Path(__file__).parent / "go"
INSTALL_TIMEOUT_SECONDS: Final = 300


class Programs:
    """The command that starts a program, by the client's name; each is installed and compiled once.

    Args:
        sources: the folder with the programs: `CLIENT_ROLE.py`, `kafkajs_ROLE.cjs` and `Role.java`; those in Go
            are in `go/ROLE`.
        role: what the programs are.
        folder: where they are installed and compiled.
        pom: the artifacts that the Java program needs.
    """

    def __init__(self, sources: Path, role: str, folder: Path, pom: Path = JAVA_POM) -> None:
        self._sources = sources
        self._role = role
        self._folder = folder
        self._pom = pom
        self._ready: dict[str, list[str]] = {}

    def __getitem__(self, client: str) -> list[str]:
        if client not in self._ready:
            make = {"kafkajs": self._node, "java": self._java, "franz-go": self._go, "sarama": self._go}
            self._ready[client] = make.get(client, self._python)(client)
        return self._ready[client]

    def _python(self, client: str) -> list[str]:
        return [sys.executable, str(self._sources / f"{client.replace('-', '_')}_{self._role}.py")]

    def _node(self, client: str) -> list[str]:
        node, npm = found("node", "Node.js"), found("npm", "npm")
        program = f"kafkajs_{self._role}.cjs"
        shutil.copy(self._sources / "package.json", self._folder)
        run_install([npm, "install", "--no-audit", "--no-fund", "--silent"], self._folder)
        shutil.copy(self._sources / program, self._folder)
        return [node, str(self._folder / program)]

    def _go(self, client: str) -> list[str]:
        go = found("go", "Go")
        binary = self._folder / "go-program"
        if not binary.exists():
            run_install([go, "build", "-o", str(binary), f"./{self._role}"], GO)
        return [str(binary), client]

    def _java(self, client: str) -> list[str]:
        java, javac, maven = found("java", "Java"), found("javac", "a JDK"), found("mvn", "Maven")
        shutil.copy(self._pom, self._folder / "pom.xml")
        library = self._folder / "lib"
        run_install([maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={library}"], self._folder)
        path, name = f"{library}/*:{self._folder}", self._role[0].upper() + self._role[1:]
        run_install([javac, "-cp", path, "-d", str(self._folder), str(self._sources / f"{name}.java")], self._folder)
        return [java, "-cp", path, "-XX:TieredStopAtLevel=1", name]


def found(program: str, name: str) -> str:
    """The path of a program; without it the test is skipped."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def run_install(
    command: list[str],
    folder: Path,
    environ: Mapping[str, str] | None = None,
    timeout_seconds: float = INSTALL_TIMEOUT_SECONDS,
) -> None:
    """Run a command that needs a package registry; the test is skipped if it fails, but fails itself in CI.

    After its time it is killed with all that it has started, such as compilers.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            told, _ = process.communicate(timeout=timeout_seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode and not os.environ.get("CI"):
        pytest.skip(f"{Path(command[0]).name} cannot bring what the client needs: {told}"[:500])
    assert process.returncode == 0, told
