"""A schema registry as a process: its start, its end with its owner's, and what it says when it fails."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from purgatorio.registry import RegistryTarget, RegistryUnavailable, SchemaRegistry, free_port
from purgatorio.registry.kinds import HOME_VARIABLE, Karapace
from tests import stand_in_registry

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]

OWNER = """
import sys
from purgatorio.registry import SchemaRegistry, RegistryTarget
from purgatorio.registry.kinds import chosen
registry = SchemaRegistry(chosen(None), RegistryTarget("127.0.0.1:9092", 1, "127.0.0.1", int(sys.argv[1]), {}))
registry.start()
print("started", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    return tmp_path


def target(**login: str) -> RegistryTarget:
    named = {name.replace("_", "."): value for name, value in login.items()}
    return RegistryTarget("127.0.0.1:9092", 2, "127.0.0.1", free_port("127.0.0.1"), named)


def get(registry: SchemaRegistry, path: str) -> Any:
    with urlopen(f"{registry.url}{path}") as answer:
        return json.load(answer)


@pytest.fixture
def started(home: Path) -> Iterator[SchemaRegistry]:
    stand_in_registry.install(home)
    registry = SchemaRegistry(
        Karapace(), target(security_protocol="SASL_PLAINTEXT", sasl_username="alice", ssl_ca_location="ca.pem")
    )
    registry.start()
    yield registry
    registry.stop()


def test_it_is_told_the_cluster_and_how_to_log_in(started: SchemaRegistry) -> None:
    settings = get(started, "/settings")
    told = {
        name: settings[f"KARAPACE_{name}"] for name in ("BOOTSTRAP_URI", "REPLICATION_FACTOR", "SASL_PLAIN_USERNAME")
    }
    assert told == {"BOOTSTRAP_URI": "127.0.0.1:9092", "REPLICATION_FACTOR": "2", "SASL_PLAIN_USERNAME": "alice"}
    assert (settings["KARAPACE_SECURITY_PROTOCOL"], settings["KARAPACE_SSL_CAFILE"]) == ("SASL_PLAINTEXT", "ca.pem")
    assert started.client_config() == {"url": started.url}


def test_a_restart_keeps_the_address_and_forgets_the_schemas(started: SchemaRegistry) -> None:
    url = started.url
    with urlopen(Request(f"{url}/subjects/orders-value/versions", b"{}")):
        pass
    assert get(started, "/subjects") == ["orders-value"]
    started.restart()
    assert (started.url, get(started, "/subjects")) == (url, [])


def test_nothing_is_left_when_it_is_stopped(started: SchemaRegistry) -> None:
    started.stop()
    started.stop()
    with pytest.raises(URLError):
        get(started, "/subjects")
    assert "registry" not in [each.name for each in threading.enumerate()]


def test_it_ends_when_its_owner_is_killed(home: Path) -> None:
    stand_in_registry.install(home)
    port = free_port("127.0.0.1")
    command = [sys.executable, "-c", OWNER, str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        owner.kill()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.02)
    pytest.fail("the registry has outlived its owner")


def test_a_port_in_use_is_named(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        registry = SchemaRegistry(Karapace(), RegistryTarget("127.0.0.1:9092", 1, "127.0.0.1", port, {}))
        with pytest.raises(RegistryUnavailable, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            registry.start()


def test_its_last_words_are_told_if_it_does_not_start(home: Path) -> None:
    stand_in_registry.install(home, says="no such broker")
    with pytest.raises(RegistryUnavailable, match="did not start: no such broker"):
        SchemaRegistry(Karapace(), target()).start()


def test_one_that_never_gets_ready_is_given_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Karapace, "patience_seconds", 0.1)
    stand_in_registry.install(home, ready=False)
    with pytest.raises(RegistryUnavailable, match="was not ready after 0 s"):
        SchemaRegistry(Karapace(), target()).start()


def test_an_end_that_nothing_asked_for_is_told(home: Path) -> None:
    stand_in_registry.install(home)
    told: list[str] = []
    ended = threading.Event()

    def on_end(said: str) -> None:
        told.append(said)
        ended.set()

    registry = SchemaRegistry(Karapace(), target(), on_end)
    registry.start()
    subprocess.run(["kill", "-9", str(get(registry, "/pid"))], check=True)
    assert ended.wait(20)
    registry.stop()
    assert told == ["the schema registry has ended"]
