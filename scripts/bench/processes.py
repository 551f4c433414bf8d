"""Servers to measure: each runs in a process of its own on loopback, and is ended by its process id."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ECHO = """
import asyncio

class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)

async def main():
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

try:
    import uvloop
    factory = uvloop.new_event_loop
except ImportError:
    factory = None
with asyncio.Runner(loop_factory=factory) as runner:
    runner.run(main())
"""

WITHOUT_UVLOOP = """
import sys

sys.modules["uvloop"] = None
from purgatorio.broker.cli.main import main

sys.exit(main())
"""


@dataclass(frozen=True)
class Brokers:
    """A running cluster.

    Attributes:
        pids: its processes: one for a cluster of ours, one a broker for Apache Kafka.
        addresses: host and port of each broker's first listener.
        admin_url: the admin HTTP; empty if it has none.
        start_seconds: from the start of the process until it accepts.
        listeners: of each broker, host and port by the listener's name, if it has not just the usual one.
    """

    pids: tuple[int, ...]
    addresses: list[tuple[str, int]]
    admin_url: str
    start_seconds: float
    listeners: list[dict[str, tuple[str, int]]] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        """The addresses for a client's bootstrap.servers."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    @property
    def resident_mb(self) -> float:
        """Resident memory of its processes; not a number if the system does not report it."""
        return sum(map(_resident_mb, self.pids))

    @property
    def cpu_seconds(self) -> float:
        """CPU time that its processes have used; not a number if the system does not report it."""
        return sum(map(_cpu_seconds, self.pids))


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return float("nan")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
    return int(found.group(1)) / 1000 if found else float("nan")


def _cpu_seconds(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return float("nan")
    fields = stat.read_text().rpartition(")")[2].split()  # the name before may contain spaces
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def allow_open_files(count: int) -> None:
    """Raise this process's limit of open files as far as the system lets it; the broker raises its own."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(count, 1024)), hard))


@contextlib.contextmanager
def _process(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=10)
        assert process.stdout is not None
        process.stdout.close()


@contextlib.contextmanager
def brokers(count: int = 3, *, loop: str = "", **settings: object) -> Iterator[Brokers]:
    """`purgatorio cluster` on free ports, with these settings; with loop="asyncio" without uvloop."""
    started = time.perf_counter()
    arguments = ["cluster", "--brokers", str(count), "--port", "0", "--admin-port", "0"]
    arguments += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = ("-c", WITHOUT_UVLOOP) if loop == "asyncio" else ("-m", "purgatorio")
    with _process(*command, *arguments) as process:
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if "page" in line:
                break
        addresses = [(h, int(p)) for h, p in re.findall(r"broker \d+ +(?:\w+://)?([^\s/]+):(\d+)", printed)]
        listeners = [
            {name: (host, int(port)) for name, host, port in re.findall(r"(\w+)://([^\s/]+):(\d+)", line)}
            for line in re.findall(r"broker .*", printed)
        ]
        admin_url = re.search(r"page +(\S+?)/?\s", printed)
        assert admin_url is not None, printed
        yield Brokers((process.pid,), addresses, admin_url[1], time.perf_counter() - started, listeners)


@contextlib.contextmanager
def echo() -> Iterator[tuple[str, int]]:
    """A bare echo server: the speed of the event loop without work on the bytes."""
    with _process("-c", ECHO) as process:
        assert process.stdout is not None
        yield "127.0.0.1", int(process.stdout.readline())
