"""The command between two steps of an upgrade on hosts says "go on" when it is safe, and in no other case."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl on this machine"),
]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "hosts.md"


class _Broker(BaseHTTPRequestHandler):
    """The page of a broker: three brokers have so many under-replicated partitions."""

    address = ""
    is_ready = True
    token = "secret"
    under_replicated: tuple[int, ...] = (0, 0, 0)
    offline = 0

    def do_GET(self) -> None:
        if self.path == "/readyz":
            self._answer(200 if self.is_ready else 503, "{}")
        elif self.headers["authorization"] != f"Bearer {self.token}":
            self._answer(401, "")
        else:
            name = "kafka_server_replicamanager_underreplicatedpartitions"
            rows = [f'{name}{{broker="{i}"}} {count}.0' for i, count in enumerate(self.under_replicated, 1)]
            rows += [f"# HELP {name} Partitions.", f"# TYPE {name} gauge"]
            rows += [f'kafka_controller_kafkacontroller_offlinepartitionscount{{broker="1"}} {self.offline}.0', ""]
            self._answer(200, "\n".join(rows))

    def _answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def broker() -> Iterator[type[_Broker]]:
    """A broker that listens at its `address`, and whose answers a test changes."""

    class Broker(_Broker):
        """Each test has its own."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Broker) as server:
        Broker.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Broker
        server.shutdown()
        thread.join()


def goes_on(broker: type[_Broker], token: str = "secret") -> bool:
    """Whether the page's command says that the next broker may be replaced; its status and its words agree."""
    section = PAGE.read_text().split("## From one version to the next")[1]
    found = re.search(r"```console\n +\$ (.*?)\n +go on\n", section, re.DOTALL)
    assert found is not None
    command = found[1].replace("10.0.0.1{1,2,3}:9644", broker.address).replace("10.0.0.11:9644", broker.address)
    env = {"PATH": "/usr/bin:/bin", "TOKEN": token}
    done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == ("go on\n" if done.returncode == 0 else "")
    return done.returncode == 0


def test_it_goes_on_when_all_brokers_are_ready_and_all_replicas_in_sync(broker: type[_Broker]) -> None:
    assert goes_on(broker)


def test_it_waits_for_replicas_leaders_and_leases(broker: type[_Broker]) -> None:
    broker.under_replicated = (0, 10, 0)
    assert not goes_on(broker)
    broker.under_replicated = (0, 0, 0)
    broker.offline = 1
    assert not goes_on(broker)
    broker.offline = 0
    broker.is_ready = False
    assert not goes_on(broker)


def test_it_waits_without_the_token_or_without_an_answer_of_each_broker(broker: type[_Broker]) -> None:
    assert not goes_on(broker, token="")
    broker.under_replicated = (0, 0)
    assert not goes_on(broker)
    broker.address = "127.0.0.1:1"  # where none listens
    assert not goes_on(broker)
