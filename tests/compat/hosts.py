"""Brokers of several hosts on one etcd, here processes of this machine."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from tests.endpoints import free_port

DEADLINE_SECONDS = 30
TOKEN = "what the pages ask for, if a test sets it"
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 200}


def until(condition: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def in_tree(tree: Path | None) -> dict[str, Any]:
    """Return how a process is started that runs the source in a tree, unmeasured; None: in this one."""
    if tree is None:
        return {}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    return {"cwd": tree, "env": {**kept, "PYTHONPATH": str(tree)}}


@dataclass
class Hosts:
    """An etcd, and brokers on it.

    Attributes:
        known_by: returns the flags by which a broker is known to the others.
        trees: the source trees of brokers of another version than this one.
    """

    path: Path
    store: str
    known_by: Callable[[int], list[str]]
    trees: dict[int, Path] = field(default_factory=dict)
    brokers: dict[int, subprocess.Popen[str]] = field(default_factory=dict)
    said: dict[int, str] = field(default_factory=dict)

    def command(self, broker_id: int, *flags: str) -> list[str]:
        ports = ["--port", "0", "--admin-port", "0", "--set", "min.insync.replicas=2"]
        known = self.known_by(broker_id)
        return [
            *(sys.executable, "-m", "purgatorio", "serve", "--broker-id", str(broker_id), "--store", self.store),
            *(*ports, *known, *flags),
        ]

    def start(self, broker_id: int, *flags: str) -> None:
        with (self.path / f"{broker_id}.log").open("w") as log:
            process = subprocess.Popen(
                self.command(broker_id, *flags),
                **in_tree(self.trees.get(broker_id)),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert process.stdout is not None
        self.brokers[broker_id] = process
        lines = itertools.takewhile(lambda line: line != "Ctrl-C stops it.\n", process.stdout)
        self.said[broker_id] = "".join(lines)
        assert "Purgatorio is running" in self.said[broker_id], (self.path / f"{broker_id}.log").read_text()

    def stop(self, broker_id: int) -> int:
        """Stop a broker in good order; returns its exit status."""
        process = self.brokers[broker_id]
        process.terminate()
        code = process.wait(DEADLINE_SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        return code

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
        request = urllib.request.Request(self.page(broker_id) + path, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request) as answer:
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


@contextmanager
def running(
    path: Path, known_by: Callable[[int], list[str]], trees: Mapping[int, Path] | None = None
) -> Iterator[Hosts]:
    """Three brokers that see each other, on an etcd of their own."""
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = ["etcd", "--data-dir", str(path / "etcd"), "--log-level", "error", "--unsafe-no-fsync"]
    command += ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
    command += ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
    hosts = Hosts(path, client.replace("http:", "etcd:"), known_by, dict(trees or {}))
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
