"""A cluster for transactions, and how each client's worker is started."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.conftest import RunningCluster, running_cluster
from tests.compat.programs import Programs
from tests.compat.transactions.harness import Worker

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts" / "bench"))

PROGRAMS = Path(__file__).parent / "workers"

Start = Callable[[RunningCluster, str], Worker]


@pytest.fixture
def own_cluster() -> Iterator[RunningCluster]:
    """A cluster of its own for a test that kills brokers."""
    with running_cluster() as running:
        yield running


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The commands that start workers."""
    return Programs(PROGRAMS, "worker", tmp_path_factory.mktemp("workers"))


@pytest.fixture
def worker_of(programs: Programs) -> Iterator[Start]:
    """Starts a client's worker in a cluster; workers do not outlive the test."""
    with ExitStack() as stack:

        def start(cluster: RunningCluster, client: str) -> Worker:
            worker = Worker(programs[client], cluster.bootstrap)
            stack.callback(worker.close)
            return worker

        yield start


def create(bootstrap: str, **partitions: int) -> None:
    """Create topics with these numbers of partitions, and as many replicas as there are brokers."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    replicas = len(admin.list_topics(timeout=20).brokers)
    configs = {"min.insync.replicas": str(min(2, replicas))}
    new = [NewTopic(name, count, replicas, config=configs) for name, count in partitions.items()]
    for created in admin.create_topics(new).values():
        created.result()
