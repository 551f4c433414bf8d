"""`purgatorio cluster --registry`: a schema registry beside the cluster. A small program stands in for Karapace."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from purgatorio.registry.kinds import HOME_VARIABLE
from tests import stand_in_registry

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]

CLUSTER = (sys.executable, "-m", "purgatorio", "cluster", "--brokers", "1", "--port", "0", "--log-level", "error")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    return tmp_path


def refused(*options: str) -> tuple[int, str]:
    ran = subprocess.run([*CLUSTER, "--admin-port", "0", *options], capture_output=True, text=True, check=False)
    assert ran.stdout == ""
    return ran.returncode, ran.stderr


def asked(url: str, body: bytes | None = None) -> Any:
    with urlopen(Request(url, body, {"Content-Type": "application/json"})) as answer:
        return json.loads(answer.read() or b"null")


def test_it_is_told_begins_anew_with_the_cluster_and_ends_with_it(home: Path) -> None:
    stand_in_registry.install(home)
    command = [*CLUSTER, "--print-json", "--with-parent", "--registry"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owned:
        assert owned.stdout is not None
        told = json.loads(owned.stdout.readline())
        url = told["schema_registry_url"]
        assert asked(f"{url}/settings")["KARAPACE_BOOTSTRAP_URI"] == told["bootstrap"]
        asked(f"{url}/subjects/orders-value/versions", b"{}")
        assert asked(f"{url}/subjects") == ["orders-value"]
        assert asked(f"{told['admin_url']}/api/v1/reset", b"{}") == {"state": "reset"}
        assert asked(f"{url}/subjects") == []
        owned.communicate()
    assert owned.returncode == 0
    with pytest.raises(OSError, match="refused"):
        asked(f"{url}/subjects")


def test_a_second_registry_on_the_port_is_refused_in_a_sentence(home: Path) -> None:
    stand_in_registry.install(home)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, told = refused("--registry", "--registry-port", str(port))
    assert (code, told) == (
        2,
        f"purgatorio: the schema registry cannot listen on 127.0.0.1:{port}: Address already in use\n",
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--registry",), "no schema registry is installed in {home}: purgatorio registry install"),
        (("--registry", "confluent"), "there is no schema registry 'confluent', only karapace and apicurio"),
        (("--registry", "--processes"), "--registry needs all brokers in one process: leave --processes out"),
    ],
)
def test_what_cannot_be_is_said(home: Path, options: tuple[str, ...], sentence: str) -> None:
    assert refused(*options) == (2, f"purgatorio: {sentence.format(home=home)}\n")


def test_a_cluster_without_a_plain_listener_is_refused(home: Path) -> None:
    stand_in_registry.install(home)
    sasl = ["listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=PLAIN", "sasl.users=alice=alice-secret"]
    code, told = refused("--registry", *(f"--set={each}" for each in sasl))
    assert code == 2
    assert "--registry needs a listener without TLS and SASL" in told
