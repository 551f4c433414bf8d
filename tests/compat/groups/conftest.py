"""Clusters for groups, and how each client's member is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.compat.conftest import RunningCluster, running_cluster
from tests.compat.groups.harness import Members

PROGRAMS = Path(__file__).parent / "members"
JAVA_POM = Path(__file__).parents[1] / "java" / "pom.xml"
SESSION_MS: Final = 1_500
"""A killed member is missed for this long; Kafka lets no member ask for less than 6 s."""
INSTALL_TIMEOUT_SECONDS: Final = 300

Start = Callable[..., Members]


def _settings() -> dict[str, object]:
    return {"group_min_session_timeout_ms": SESSION_MS}


@pytest.fixture(scope="session")
def groups_cluster() -> Iterator[RunningCluster]:
    """A cluster that allows short sessions."""
    with running_cluster(**_settings()) as running:
        yield running


@pytest.fixture
def own_cluster() -> Iterator[RunningCluster]:
    """A cluster of its own for a test that kills brokers."""
    with running_cluster(**_settings()) as running:
        yield running


@pytest.fixture
def members_of(topic: str) -> Iterator[Start]:
    """Makes the members of a group in a cluster; they do not outlive the test."""
    with ExitStack() as stack:

        def make(cluster: RunningCluster, session_ms: int = SESSION_MS) -> Members:
            members = Members(cluster.bootstrap, topic, session_ms)
            stack.callback(members.close)
            return members

        yield make


class Programs:
    """The command that starts a member, by the client's name; programs are installed and compiled once a session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready: dict[str, list[str]] = {}

    def __getitem__(self, client: str) -> list[str]:
        if client not in self._ready:
            make = {"kafkajs": self._node, "java": self._java, "franz-go": self._go, "sarama": self._go}
            self._ready[client] = make.get(client, self._python)(client)
        return self._ready[client]

    def _python(self, client: str) -> list[str]:
        return [sys.executable, str(PROGRAMS / f"{client.replace('-', '_')}_member.py")]

    def _node(self, client: str) -> list[str]:
        node, npm = _found("node", "Node.js"), _found("npm", "npm")
        shutil.copy(PROGRAMS / "package.json", self._folder)
        run_install([npm, "install", "--no-audit", "--no-fund", "--silent"], self._folder)
        shutil.copy(PROGRAMS / "kafkajs_member.cjs", self._folder)
        return [node, str(self._folder / "kafkajs_member.cjs")]

    def _go(self, client: str) -> list[str]:
        go = _found("go", "Go")
        binary = self._folder / "members"
        if not binary.exists():
            run_install([go, "build", "-o", str(binary), "."], PROGRAMS / "go")
        return [str(binary), client]

    def _java(self, client: str) -> list[str]:
        java, javac, maven = _found("java", "Java"), _found("javac", "a JDK"), _found("mvn", "Maven")
        shutil.copy(JAVA_POM, self._folder)
        library = self._folder / "lib"
        run_install([maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={library}"], self._folder)
        path = f"{library}/*:{self._folder}"
        run_install([javac, "-cp", path, "-d", str(self._folder), str(PROGRAMS / "Member.java")], self._folder)
        return [java, "-cp", path, "-XX:TieredStopAtLevel=1", "Member"]


def _found(program: str, name: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def run_install(command: list[str], folder: Path) -> None:
    """Run a command that needs a package registry."""
    ran = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_SECONDS, check=False
    )
    if ran.returncode and not os.environ.get("CI"):
        pytest.skip(f"{Path(command[0]).name} cannot bring what the client needs: {ran.stdout}{ran.stderr}"[:500])
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The commands that start members."""
    return Programs(tmp_path_factory.mktemp("members"))
