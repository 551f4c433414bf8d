"""`purgatorio serve --store etcd://…`: brokers of several hosts, here processes of one, make one cluster."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("etcd") is None, reason="there is no etcd on this machine"),
]
DEADLINE_SECONDS = 30
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 200}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def until(condition: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@dataclass
class Hosts:
    """An etcd, and brokers on it."""

    path: Path
    store: str
    brokers: dict[int, subprocess.Popen[str]] = field(default_factory=dict)
    said: dict[int, str] = field(default_factory=dict)

    def command(self, broker_id: int, *flags: str) -> list[str]:
        settings = ["--store", self.store, "--set", f"cluster.secret.file={self.path / 'secret'}"]
        ports = ["--port", "0", "--admin-port", "0", "--set", "min.insync.replicas=2"]
        return [sys.executable, "-m", "purgatorio", "serve", "--broker-id", str(broker_id), *ports, *settings, *flags]

    def start(self, broker_id: int, *flags: str) -> None:
        with (self.path / f"{broker_id}.log").open("w") as log:
            process = subprocess.Popen(self.command(broker_id, *flags), stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        self.brokers[broker_id] = process
        self.said[broker_id] = "".join(iter(process.stdout.readline, "Ctrl-C stops it.\n"))
        assert "Purgatorio is running" in self.said[broker_id], (self.path / f"{broker_id}.log").read_text()

    def refused(self, broker_id: int, *flags: str) -> tuple[int, str]:
        """Start a broker that must not run; returns its exit status and what it says."""
        command = self.command(broker_id, *flags)
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
        return done.returncode, done.stderr.splitlines()[-1]

    @property
    def bootstrap(self) -> str:
        return ",".join(re.findall(r"clients +(\S+)", "".join(self.said.values())))

    def page(self, broker_id: int) -> str:
        return re.findall(r"page +(http://\S+)/", self.said[broker_id])[0]

    def get(self, broker_id: int, path: str) -> Any:
        with urllib.request.urlopen(self.page(broker_id) + path) as answer:
            text = answer.read().decode()
        return json.loads(text) if path.startswith("/api") else text

    def rows(self, broker_id: int) -> dict[int, Any]:
        """Return the brokers, as the page of one of them shows them."""
        return {row["id"]: row for row in self.get(broker_id, "/api/v1/brokers")["brokers"]}

    def run(self, words: str, broker_id: int) -> str:
        """Run a command of purgatorio against one broker's page."""
        command = [sys.executable, "-m", "purgatorio", *words.split(), "--admin", self.page(broker_id)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
        return done.stdout + done.stderr

    def create(self, topic: str) -> int:
        """Create a topic of one partition with three replicas; returns its leader."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(DEADLINE_SECONDS)
        leaders: list[int] = []

        def has_leader() -> bool:
            partitions = admin.list_topics(topic, timeout=DEADLINE_SECONDS).topics[topic].partitions
            leaders[:] = [each.leader for each in partitions.values() if each.leader > 0]
            return bool(leaders)

        until(has_leader)
        return leaders[0]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = ["etcd", "--data-dir", str(tmp_path / "etcd"), "--log-level", "error", "--unsafe-no-fsync"]
    command += ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
    command += ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
    (tmp_path / "secret").write_text("0123456789abcdef0123456789abcdef\n")
    hosts = Hosts(tmp_path, client.replace("http:", "etcd:"))
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as etcd:
        try:
            for broker_id in (1, 2, 3):
                hosts.start(broker_id)
            until(lambda: all(len(hosts.rows(each)) == 3 for each in hosts.brokers))
            yield hosts
        finally:
            for process in hosts.brokers.values():
                process.send_signal(signal.SIGCONT)
                process.terminate()
            codes = [process.wait(DEADLINE_SECONDS) for process in hosts.brokers.values()]
            for process in hosts.brokers.values():
                assert process.stdout is not None
                process.stdout.close()
            etcd.kill()
    assert set(codes) <= {0, -signal.SIGKILL}


@pytest.mark.smoke
def test_no_acknowledged_record_is_lost_when_a_host_is_gone(hosts: Hosts) -> None:
    leader = hosts.create("orders")
    acknowledged: list[bytes] = []

    def told(error: object, message: Any) -> None:
        assert error is None
        acknowledged.append(message.value())

    producer = Producer({"bootstrap.servers": hosts.bootstrap, "acks": "all", "enable.idempotence": True, **QUIET})
    for number in range(200):
        producer.produce("orders", b"%d" % number, on_delivery=told)
        producer.poll(0)
        if number == 100:
            until(lambda: producer.poll(0.01) or len(acknowledged) > 20)
            hosts.brokers[leader].kill()
    assert producer.flush(DEADLINE_SECONDS) == 0
    consumer = Consumer(
        {"bootstrap.servers": hosts.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", **QUIET}
    )
    consumer.subscribe(["orders"])
    found: list[bytes] = []

    def read() -> bool:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            found.append(message.value() or b"")
        return len(found) == 200

    until(read)
    consumer.close()
    assert found == acknowledged == [b"%d" % number for number in range(200)]


def test_every_broker_shows_what_waits_at_all_of_them(hosts: Hosts) -> None:
    leader = hosts.create("orders")
    follower = leader % 3 + 1
    other = follower % 3 + 1
    assert "sends no fetch" in hosts.run(f"broker hold-follower {follower}", other)
    producer = Producer({"bootstrap.servers": hosts.bootstrap, "acks": "all", **QUIET})
    producer.produce("orders", b"held")
    producer.poll(0)
    for asked in hosts.brokers:
        until(lambda asked=asked: f"orders-0: broker {follower} is at 0 of 1" in hosts.run("parked list", asked))
    sizes = dict(
        re.findall(r'purgatorysize\{broker="(\d)",delayedOperation="Produce"} (\S+)', hosts.get(other, "/metrics"))
    )
    assert sizes == {str(each): "1.0" if each == leader else "0.0" for each in hosts.brokers}
    targets = hosts.get(other, "/api/v1/targets")
    assert [target["labels"]["broker_id"] for target in targets] == ["1", "2", "3"]
    hosts.run(f"broker release {follower}", leader)
    assert producer.flush(DEADLINE_SECONDS) == 0


def test_a_broker_that_does_not_answer_is_marked_and_controls_of_processes_are_refused(hosts: Hosts) -> None:
    assert "start, stop (SIGTERM), kill (SIGKILL) and pause (SIGSTOP) each of them on its own host" in hosts.run(
        "broker kill 2", 1
    )
    os.kill(hosts.brokers[2].pid, signal.SIGSTOP)
    until(lambda: hosts.rows(1)[2]["process"]["trouble"])
    assert re.fullmatch(r"has not answered for \d+ s|holds no lease", hosts.rows(1)[2]["process"]["trouble"])
    until(lambda: hosts.rows(1)[2]["state"] == "stopped")
    os.kill(hosts.brokers[2].pid, signal.SIGCONT)
    until(lambda: all(row["state"] == "running" and not row["process"]["trouble"] for row in hosts.rows(1).values()))


def test_what_cannot_be_a_broker_of_the_cluster_says_why_in_a_line(hosts: Hosts, tmp_path: Path) -> None:
    taken = re.findall(r"clients +(\S+)", hosts.said[1])[0]
    assert hosts.refused(1) == (1, f"purgatorio: broker id 1 is in use by the broker at {taken}")
    (tmp_path / "other").write_text("another secret, which is long enough")
    code, line = hosts.refused(4, "--set", f"cluster.secret.file={tmp_path / 'other'}")
    assert code == 1
    assert line.startswith("purgatorio: the cluster under purgatorio/ has another secret: give this broker the")
    code, line = hosts.refused(4, "--store", "etcd://127.0.0.1:1")
    assert code == 1
    assert line.startswith(
        "purgatorio: no etcd answers: http://127.0.0.1:1: All connection attempts failed; does it run"
    )
