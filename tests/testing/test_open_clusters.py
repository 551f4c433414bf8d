"""Clusters that are closed, forgotten, or inherited by a forked process."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from purgatorio.testing import Kafka, cluster
from purgatorio.testing.loop_thread import LoopThread
from purgatorio.testing.open_clusters import open_clusters

ROOT = Path(__file__).resolve().parents[2]


def test_a_cluster_is_known_until_it_is_closed() -> None:
    before = open_clusters()
    kafka = Kafka()
    (opened,) = [each for each in open_clusters() if each not in before]
    assert opened.where.startswith("tests/testing/test_open_clusters.py:")
    assert not opened.by_fixture
    kafka.close()
    kafka.close()
    assert open_clusters() == before
    assert not kafka.is_usable


def test_a_context_names_the_place_that_opened_it() -> None:
    before = open_clusters()
    with cluster(brokers=1):
        (opened,) = [each for each in open_clusters() if each not in before]
        assert "test_open_clusters.py" in opened.where


def test_an_exception_that_leaves_the_context_carries_the_report() -> None:
    with pytest.raises(ValueError, match="no topic") as failure, cluster(brokers=1) as kafka:
        kafka.records("orders")
    (note,) = failure.value.__notes__
    assert note.startswith("<Kafka 127.0.0.1:")
    assert "parked operations: none" in note


def test_a_refused_topic_leaves_no_cluster() -> None:
    before = open_clusters()
    with pytest.raises(ValueError, match="was not created"), cluster(topics={"no name": 1}):
        pass
    assert open_clusters() == before


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False, timeout=30
    )


@pytest.mark.process
def test_a_program_that_forgets_its_cluster_is_told_and_ends() -> None:
    done = run("from purgatorio.testing import Kafka\nkafka = Kafka()\nkafka.topic('orders')")
    assert done.returncode == 0
    assert done.stderr.startswith("purgatorio: the cluster that <string>:2 opened was never closed; it ends now.")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.process
def test_a_program_that_closes_it_ends_silently() -> None:
    done = run("from purgatorio.testing import cluster\nwith cluster() as kafka: kafka.topic('orders')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_is_told_that_the_cluster_is_its_parents_and_does_not_end_it() -> None:
    code = """
import os
from purgatorio.testing import cluster

with cluster() as kafka:
    kafka.topic("orders")
    child = os.fork()
    if not child:
        try:
            kafka.produce("orders", "lost")
        except RuntimeError as error:
            print(error, flush=True)
        with cluster(brokers=1) as own:
            own.topic("of-child")
            print("a cluster of the child's own runs", flush=True)
        kafka.close()
        os._exit(0)
    os.waitpid(child, 0)
    kafka.produce("orders", "kept")
    print([record.value for record in kafka.records("orders")])
"""
    done = run(code)
    assert done.stderr == ""
    told, own, kept = done.stdout.splitlines()
    assert told.startswith("cannot do this after a fork: produce to orders-0.")
    assert own == "a cluster of the child's own runs"
    assert kept == "[b'kept']"


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_does_not_keep_the_ports() -> None:
    """Workers of a pool live on: a broker must be able to start again, and clients must notice that it was killed."""
    code = """
import os, socket, struct
from purgatorio.testing import cluster

with cluster() as kafka:
    client = socket.create_connection(kafka.bootstrap_servers[1].split(":"), timeout=10)
    client.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))  # ApiVersions
    client.recv(10_000)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)  # until the parent ends
        os._exit(0)
    kafka.kill(2)
    print(client.recv(1))
    kafka.start(2)
    print(kafka.brokers)
os.close(write)
os.waitpid(child, 0)
"""
    done = run(code)
    assert (done.stdout, done.stderr) == ("b''\n[1, 2, 3]\n", "")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted by /proc")
def test_many_clusters_leave_no_task_thread_or_socket() -> None:
    with cluster() as kafka:
        client = socket.create_connection(kafka.bootstrap_servers[0].split(":"))
    threads, files = threading.active_count(), open_files()
    for _ in range(30):
        with cluster() as kafka:
            kafka.topic("orders")
            with pytest.warns(RuntimeWarning, match="never waited for"):
                kafka.until_parked(api="Rebalance")  # forgotten: it ends with the cluster
    gc.collect()
    assert (threading.active_count(), open_files()) == (threads, files)
    assert LoopThread().call(lambda: len(asyncio.all_tasks()), "count the tasks") == 1  # the one that counts
    client.close()
