"""`PurgatorioContainer`, as far as it goes without a container engine: its command, ports, and what it waits for."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import types
from typing import Any, ClassVar

import pytest

from purgatorio.testing.container import PurgatorioContainer, free_ports

has_testcontainers = importlib.util.find_spec("testcontainers") is not None


def test_without_testcontainers_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "testcontainers.core.container", None)
    monkeypatch.setitem(sys.modules, "testcontainers", None)
    with pytest.raises(ImportError, match=r"pip install .*\[testcontainers\]"):
        PurgatorioContainer().start()


class Recorded:
    """What a container was told."""

    def __init__(self, *given: Any) -> None:
        self.told: list[Any] = list(given)
        self.made.append(self)

    made: ClassVar[list[Recorded]] = []

    def __getattr__(self, name: str) -> Any:
        def tell(*given: Any) -> Recorded:
            self.told.append((name, *given))
            return self

        return tell


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    """What containers and their waits are told, in the order in which they are made."""
    Recorded.made.clear()
    fake = types.ModuleType("testcontainers")
    vars(fake).update(DockerContainer=Recorded, HttpWaitStrategy=Recorded)
    for name in ("testcontainers", "testcontainers.core", "testcontainers.core.container"):
        monkeypatch.setitem(sys.modules, name, fake)
    monkeypatch.setitem(sys.modules, "testcontainers.core.wait_strategies", fake)
    return Recorded.made


def test_its_ports_are_the_same_inside_and_outside(recorded: list[Recorded]) -> None:
    kafka = PurgatorioContainer("image", "--seed-topic", "orders:6", brokers=2)
    ports = [int(address.rpartition(":")[2]) for address in kafka.bootstrap.split(",")]
    admin_port = int(kafka.admin_url.rpartition(":")[2])
    assert [*ports, admin_port] == list(range(ports[0], ports[0] + 3))
    with kafka:
        container, waits = recorded
    bound = [each[1:] for each in container.told if each[0] == "with_bind_ports"]
    assert bound == [(port, port) for port in (*ports, admin_port)]
    assert container.told[:2] == ["image", ("with_command", kafka.command)]
    assert [each[0] for each in container.told[-3:]] == ["waiting_for", "start", "stop"]
    assert waits.told[:3] == [admin_port, "/readyz", ("for_status_code", 200)]


@pytest.mark.process
def test_its_command_is_a_cluster_at_the_addresses_that_it_tells() -> None:
    """The command runs here as it would in the container."""
    kafka = PurgatorioContainer("image", "--print-json", "--with-parent", "--log-level", "error", brokers=2)
    command = [sys.executable, "-m", *kafka.command]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as running:
        assert running.stdout is not None
        ready = running.stdout.readline()
        _, errors = running.communicate(timeout=50)  # its standard input ends, and so does it
    assert f'"bootstrap": "{kafka.bootstrap}"' in ready, errors
    assert running.returncode == 0, errors


@pytest.mark.skipif(not has_testcontainers, reason="testcontainers is not installed")
def test_testcontainers_knows_what_it_is_told() -> None:
    """By its names: without a container engine none of its containers can be made."""
    container = importlib.import_module("testcontainers.core.container").DockerContainer
    assert {"with_command", "with_bind_ports", "waiting_for", "start", "stop"} <= set(dir(container))
    wait = importlib.import_module("testcontainers.core.wait_strategies").HttpWaitStrategy(9644, "/readyz")
    wait.for_status_code(200).with_startup_timeout(60)


def test_ports_in_a_row_are_free() -> None:
    assert free_ports(4) + 4 < 2**16
