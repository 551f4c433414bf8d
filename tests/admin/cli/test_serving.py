"""The process around a cluster: which event loop, what to try next, and the second signal."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.admin.cli import serving
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.config.sources import load_cluster_config
from purgatorio.broker.node.broker_maker import TierUnusable
from purgatorio.broker.tier import location
from purgatorio.broker.tier.store import MemoryStore


def test_next_commands_name_the_brokers_only_when_they_are_not_the_default() -> None:
    """With the usual port the line stays short."""
    producer, consumer = serving.next_commands("127.0.0.1:9092,127.0.0.1:9093")
    assert producer.endswith("scripts/toy_producer.py --acks all --records 10")
    assert consumer.endswith("scripts/toy_consumer.py")
    producer, consumer = serving.next_commands("127.0.0.1:4711,127.0.0.1:4712")
    assert producer.endswith("--records 10 --bootstrap 127.0.0.1:4711")
    assert consumer.endswith("scripts/toy_consumer.py --bootstrap 127.0.0.1:4711")


def test_next_commands_need_no_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installed package has no scripts folder, and the commands that do everyday work with any cluster."""
    monkeypatch.setattr(serving, "_REPOSITORY", tmp_path)
    assert serving.next_commands("127.0.0.1:9092") == [
        "purgatorio topics create orders",
        "echo hello | purgatorio records produce orders",
        "purgatorio records consume orders",
    ]
    assert all(each.endswith(" --bootstrap 127.0.0.1:4711") for each in serving.next_commands("127.0.0.1:4711"))


def test_who_learns_is_shown_the_page_and_no_program() -> None:
    """A scene empties the cluster, and has clients of its own."""
    addresses = [(1, [serving.Endpoint(serving.PLAINTEXT, "127.0.0.1", 9092)])]
    urls = {"admin_url": "http://127.0.0.1:9644", "page_url": "http://127.0.0.1:9644/"}
    running: Any = SimpleNamespace(endpoints=addresses, bootstrap="127.0.0.1:9092", **urls)
    assert "toy_producer.py" in serving.greeting(running)
    running.admin_url = "http://localhost:9644/"  # as a cluster names its usual address
    assert "PURGATORIO_ADMIN" not in serving.greeting(running)
    running.admin_url = "http://127.0.0.1:4711/"
    assert "find it by: export PURGATORIO_ADMIN=http://127.0.0.1:4711\n" in serving.greeting(running)
    learning = serving.greeting(running, learns=True)
    assert "Open the page, and start a scene" in learning
    assert "toy_producer.py" not in learning


def test_next_commands_can_be_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the repository's root they are short and begin with the environment's Python."""
    monkeypatch.chdir(serving._REPOSITORY)
    monkeypatch.setattr(sys, "executable", str(serving._REPOSITORY / ".venv/bin/python"))
    assert serving.next_commands("127.0.0.1:9092") == [
        ".venv/bin/python scripts/toy_producer.py --acks all --records 10",
        ".venv/bin/python scripts/toy_consumer.py",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has systemd, and names of sockets without a file")
@pytest.mark.parametrize("there", [True, False])
def test_systemd_may_listen_under_a_name_without_a_file(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager that has ended is no error, and one that did not ask gets nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("")
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + manager.getsockname()[1:].decode() if there else "/nowhere")
        serving.report_ready()
        monkeypatch.delenv("NOTIFY_SOCKET")
        serving.report_ready()
        manager.setblocking(False)
        if there:
            assert manager.recv(100) == b"READY=1"
        with pytest.raises(BlockingIOError):
            manager.recv(100)


HANGING = """
import asyncio, signal
from purgatorio.admin.cli import serving
from purgatorio.broker.config.sources import load_cluster_config

class Hanging:
    endpoints = [(1, [serving.Endpoint("PLAINTEXT", "127.0.0.1", 9092)])]
    bootstrap = "127.0.0.1:9092"
    admin_url = "http://127.0.0.1:9644"
    page_url = "http://127.0.0.1:9644/"
    has_begun = True
    claim = None
    def __init__(self, config, clock, **more): pass
    async def start(self): pass
    async def failed(self):
        await asyncio.Event().wait()
    async def stop(self):
        print("stopping", flush=True)
        await asyncio.Event().wait()

serving.Cluster = Hanging
serving.run(serving.ClusterConfig())
"""


@pytest.mark.process
@pytest.mark.timeout(20)
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_what_does_not_stop(second: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert any(line.startswith("Ctrl-C") for line in process.stdout)
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "stopping\n"
            process.send_signal(second)
            assert process.wait() == -second
        finally:
            process.kill()


@pytest.mark.process
@pytest.mark.timeout(20)
def test_under_nohup_the_end_of_the_terminal_does_not_stop_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{HANGING}"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert any(line.startswith("Ctrl-C") for line in process.stdout)
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            assert process.stdout.readline() == "stopping\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait() == -signal.SIGTERM
        finally:
            process.kill()


FILLING = """
import asyncio, sys
from purgatorio.admin.cli import serving
from purgatorio.broker.config.sources import load_cluster_config

class Endless(serving.Beginning):
    async def fill(self, cluster):
        print("filling", flush=True)
        await asyncio.Event().wait()

config = serving.ClusterConfig(brokers=1, port=0, admin_port=0)
sys.exit(serving.run(config, beginning=Endless()))
"""


@pytest.mark.process
@pytest.mark.timeout(20)
def test_a_signal_ends_a_cluster_that_is_given_what_it_begins_with() -> None:
    """It need not become ready first."""
    with subprocess.Popen([sys.executable, "-c", FILLING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "filling\n"
            process.send_signal(signal.SIGTERM)
            assert (process.wait(), process.stdout.read()) == (0, "")
        finally:
            process.kill()


SHOWING = """
import sys
from purgatorio.admin.cli import serving
from purgatorio.broker.config.sources import load_cluster_config

class Showing:
    endpoints = [(1, [serving.Endpoint("PLAINTEXT", "127.0.0.1", 9092)])]
    bootstrap = "127.0.0.1:9092"
    admin_url = "http://127.0.0.1:9644"
    page_url = "http://127.0.0.1:9644/"
    has_begun = True
    claim = None
    def __init__(self, config, clock, garbage, **more): self.garbage = garbage
    async def start(self): print(type(self.garbage).__name__, sys.getswitchinterval())
    async def failed(self): pass
    async def stop(self): pass

serving.Cluster = Showing
serving.run(serving.ClusterConfig())
"""


@pytest.mark.process
@pytest.mark.timeout(20)
def test_collector_and_threads_are_set_so_that_they_do_not_hold_the_event_loop() -> None:
    shown = subprocess.run([sys.executable, "-c", SHOWING], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[0] == f"GarbageTuning {serving.THREAD_SWITCH_SECONDS}"


def test_all_ports_in_use_are_named_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        port, admin_port = one.getsockname()[1], other.getsockname()[1]
        flags = {"brokers": "1", "port": str(port), "admin_port": str(admin_port)}
        assert serving.why_not_listening(load_cluster_config(flags=flags)) == (
            f"these are in use: 127.0.0.1:{port}, 127.0.0.1:{admin_port}; "
            "choose others with --port and --admin-port (0: any free port)"
        )


async def test_a_tier_that_does_not_answer_is_not_waited_for_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for what an earlier process has left there, which is asked for first."""
    monkeypatch.setattr(location, "PROBE_MS", 1)
    monkeypatch.setattr(MemoryStore, "list", lambda self, prefix: asyncio.Event().wait())
    config = ClusterConfig(broker={"tier_location": "memory:"})
    with pytest.raises(TierUnusable, match=r"^tier\.location: the memory store does not answer in"):
        await serving._earlier_cluster(config)
