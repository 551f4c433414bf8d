"""A cluster of three brokers in a process of its own, as a user runs it, for real clients."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

START_TIMEOUT_SECONDS = 20
OTHER_CLUSTER = "COMPAT_BOOTSTRAP"
"""An environment variable with the address of another cluster, to see that Apache Kafka passes the same tests."""

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests in this folder are of real clients."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker("clients")


@dataclass(frozen=True)
class RunningCluster:
    """Where a cluster is reached."""

    bootstrap: str
    admin_url: str
    pid: int


def _addresses(process: subprocess.Popen[str]) -> RunningCluster:
    """Read what the command prints, up to the line that says how to stop it."""
    assert process.stdout is not None
    printed = []
    for line in process.stdout:
        printed.append(line)
        if "Ctrl-C" in line:
            break
    text = "".join(printed)
    brokers = re.findall(r"broker \d+ +(\S+:\d+)", text)
    page = re.search(r"page +(\S+)", text)
    assert brokers, f"the cluster did not start: {text}"
    assert page, text
    return RunningCluster(",".join(brokers), page.group(1).rstrip("/"), process.pid)


@contextmanager
def running_cluster(**settings: object) -> Iterator[RunningCluster]:
    """`purgatorio cluster` on free ports, with these settings (`_` for `.`)."""
    command = [sys.executable, "-m", "purgatorio", "cluster", "--port", "0", "--admin-port", "0"]
    for name, value in settings.items():
        command += ["--set", f"{name.replace('_', '.')}={value}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        yield _addresses(process)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0, "the cluster stops cleanly"
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="session")
def cluster() -> Iterator[RunningCluster]:
    """A cluster with its default settings, or the other one that is to be tested."""
    if other := os.environ.get(OTHER_CLUSTER):
        yield RunningCluster(other, "", 0)
        return
    with running_cluster() as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def values() -> Callable[[int], list[bytes]]:
    """Makes this many different values."""
    return lambda count: [f"value {number}".encode() for number in range(count)]


def close_kafka_python(client: Any) -> None:
    """Close a client of kafka-python; if it is just connecting, it leaves a socket for the garbage collector."""
    client.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def wait_for_all_replicas(bootstrap: str) -> None:
    """Wait until each partition has all of its replicas in its in-sync set."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    until = time.monotonic() + START_TIMEOUT_SECONDS
    while any(
        len(partition.isrs) < len(partition.replicas)
        for described in admin.list_topics(timeout=20).topics.values()
        for partition in described.partitions.values()
    ):
        assert time.monotonic() < until, "the in-sync sets are not full"
        time.sleep(0.1)
