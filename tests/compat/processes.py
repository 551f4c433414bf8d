"""`purgatorio cluster --processes`, as a user starts it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.hosts import DEADLINE_SECONDS, until


@dataclass
class Processes:
    """A running cluster.

    Attributes:
        supervisor: the process that was started.
        addresses: those of the brokers, by id.
        pids: the brokers' processes, by id.
        admin_url: that of the supervisor.
    """

    supervisor: subprocess.Popen[str]
    addresses: dict[int, str]
    pids: dict[int, int]

    admin_url: str

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses.values())

    def command(self, words: str) -> str:
        """Run a command of purgatorio against the cluster; returns what it prints."""
        command = [sys.executable, "-m", "purgatorio", *words.split(), "--admin", self.admin_url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
        return done.stdout + done.stderr

    def state_of(self, broker: int) -> str:
        """Return how ``broker list`` shows a broker."""
        return next(line for line in self.command("broker list").splitlines() if line.startswith(f"{broker} "))


@contextmanager
def running(*flags: str) -> Iterator[Processes]:
    command = [sys.executable, "-m", "purgatorio", "cluster", "--processes", "--port", "0", "--admin-port", "0", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = "".join(iter(process.stdout.readline, "Ctrl-C stops all of it.\n"))
        brokers = re.findall(r"broker (\d+) +(\S+:\d+) +process (\d+)", said)
        assert len(brokers) == 3, said
        cluster = Processes(
            process,
            {int(broker_id): address for broker_id, address, _ in brokers},
            {int(broker_id): int(pid) for broker_id, _, pid in brokers},
            re.findall(r"page +(http://\S+)/", said)[0],
        )
        try:
            yield cluster
        finally:
            process.terminate()
            assert process.wait(DEADLINE_SECONDS) in (0, -signal.SIGKILL)
            until(lambda: not any(map(is_there, cluster.pids.values())))


def is_there(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def leader_of(cluster: Processes, topic: str) -> int:
    """Create a topic of one partition with three replicas; returns its leader."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    configs = {"min.insync.replicas": "2"}
    admin.create_topics([NewTopic(topic, 1, 3, config=configs)])[topic].result(DEADLINE_SECONDS)
    leaders: list[int] = []

    def has_leader() -> bool:
        partitions = admin.list_topics(topic, timeout=DEADLINE_SECONDS).topics[topic].partitions
        leaders[:] = [each.leader for each in partitions.values() if each.leader > 0]
        return bool(leaders)

    until(has_leader)
    return leaders[0]
