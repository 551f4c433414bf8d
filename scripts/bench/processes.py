"""Servers to measure: each runs in a process of its own on loopback, and is ended by its process id."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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

NULL = subprocess.DEVNULL
WITHOUT_UVLOOP = """
import sys

sys.modules["uvloop"] = None
from purgatorio.admin.cli.main import main

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
        etcd_url: where etcd listens, if the brokers' metadata is there.
    """

    pids: tuple[int, ...]
    addresses: list[tuple[str, int]]
    admin_url: str
    start_seconds: float
    listeners: list[dict[str, tuple[str, int]]] = field(default_factory=list)
    etcd_url: str = ""

    @property
    def bootstrap(self) -> str:
        """The addresses for a client's bootstrap.servers."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    @property
    def resident_mb(self) -> float:
        """Resident memory of its processes; not a number if the system does not report it."""
        return sum(map(_resident_mb, self.pids))

    @property
    def memory_mb(self) -> float:
        """Memory of its processes, and of those that they started; what they share is counted once."""
        return sum(map(_proportional_mb, {*self.pids, *(child for pid in self.pids for child in _children(pid))}))

    @property
    def cpu_seconds(self) -> float:
        """CPU time that its processes have used; not a number if the system does not report it."""
        return sum(map(_cpu_seconds, self.pids))

    @property
    def run_seconds(self) -> float:
        """The same to the nanosecond, of their threads that run."""
        return sum(map(_run_seconds, self.pids))


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return float("nan")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
    return int(found.group(1)) / 1000 if found else float("nan")


def _proportional_mb(pid: int) -> float:
    rollup = Path(f"/proc/{pid}/smaps_rollup")
    if not rollup.exists():
        return float("nan")
    found = re.search(r"^Pss:\s+(\d+) kB", rollup.read_text(), re.MULTILINE)
    return int(found.group(1)) / 1000 if found else float("nan")


def _children(pid: int) -> list[int]:
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def _cpu_seconds(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return float("nan")
    fields = stat.read_text().rpartition(")")[2].split()  # the name before may contain spaces
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def _run_seconds(pid: int) -> float:
    told = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(each.split()[0]) for each in told) / 1e9 if told else float("nan")


def allow_open_files(count: int) -> None:
    """Raise this process's limit of open files as far as the system lets it; the broker raises its own."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(count, 1024)), hard))


@contextlib.contextmanager
def _process(*command: str, prefix: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([*prefix, sys.executable, *command], stdout=subprocess.PIPE, stderr=NULL, text=True)
    with _ended(process):
        yield process


@contextlib.contextmanager
def _ended(process: subprocess.Popen[Any]) -> Iterator[None]:
    """End a process after the block."""
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=10)
        if process.stdout is not None:
            process.stdout.close()


@contextlib.contextmanager
def brokers(
    count: int = 3, *, loop: str = "", processes: bool = False, prefix: Sequence[str] = (), **settings: object
) -> Iterator[Brokers]:
    """`purgatorio cluster` on free ports, with these settings; with loop="asyncio" without uvloop.

    With `processes`, each broker is one; their supervisor's process is the first. A `prefix` is a command that becomes
    the one that follows it.
    """
    started = time.perf_counter()
    arguments = ["cluster", "--brokers", str(count), "--port", "0", "--admin-port", "0"]
    arguments += ["--processes"] if processes else []
    arguments += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = ("-c", WITHOUT_UVLOOP) if loop == "asyncio" else ("-m", "purgatorio")
    with _process(*command, *arguments, prefix=prefix) as process:
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
        pids = (process.pid, *map(int, re.findall(r"process (\d+)", printed)))
        yield Brokers(pids, addresses, admin_url[1], time.perf_counter() - started, listeners)


@contextlib.contextmanager
def brokers_on_etcd(count: int = 3, **settings: object) -> Iterator[Brokers]:
    """`purgatorio serve` with these settings for each broker, on an etcd of its own; the processes are the brokers'."""
    started = time.perf_counter()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "secret").write_text("0123456789abcdef0123456789abcdef")
        client, peer = (f"http://127.0.0.1:{_free_port()}" for _ in range(2))
        etcd = ["etcd", "--data-dir", str(folder / "etcd"), "--listen-client-urls", client, "--listen-peer-urls", peer]
        etcd += ["--advertise-client-urls", client, "--initial-advertise-peer-urls", peer]
        stack.enter_context(_ended(subprocess.Popen([*etcd, "--initial-cluster", f"default={peer}"], stderr=NULL)))
        store = ["--store", client.replace("http", "etcd"), "--set", f"cluster.secret.file={folder / 'secret'}"]
        store += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        pids, addresses, admin_url = [], [], ""
        for broker_id in range(1, count + 1):
            ports = ["--port", "0", "--admin-port", "0", "--broker-id", str(broker_id)]
            process = stack.enter_context(_process("-m", "purgatorio", "serve", *ports, *store))
            assert process.stdout is not None
            printed = "".join(iter(process.stdout.readline, "Ctrl-C stops it.\n"))
            host, port = re.findall(r"clients +(\S+):(\d+)", printed)[0]
            pids.append(process.pid)
            addresses.append((host, int(port)))
            admin_url = admin_url or re.findall(r"page +(http://\S+)/", printed)[0]
        yield Brokers(tuple(pids), addresses, admin_url, time.perf_counter() - started, etcd_url=client)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextlib.contextmanager
def echo() -> Iterator[tuple[str, int]]:
    """A bare echo server: the speed of the event loop without work on the bytes."""
    with _process("-c", ECHO) as process:
        assert process.stdout is not None
        yield "127.0.0.1", int(process.stdout.readline())
