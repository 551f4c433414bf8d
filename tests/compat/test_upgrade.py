"""From one version to the next on hosts: brokers of the last release and of this tree are one cluster."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compat.hosts import DEADLINE_SECONDS, QUIET, Hosts, in_tree, running, until

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "orders"
pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("etcd") is None, reason="there is no etcd on this machine"),
]


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def last_release() -> str:
    """Return the commit of the release before this tree, by its tag or, in a clone without tags, by its message."""
    tag = git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
    by_message = ("log", "-1", "--format=%H", "--extended-regexp", r"--grep=^Release [0-9]+\.[0-9]+\.[0-9]+$", "HEAD^")
    return tag or git(*by_message)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source tree of the last release."""
    commit = last_release()
    if not commit:
        pytest.skip("this clone does not have the last release")
    tree = tmp_path_factory.mktemp("released")
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "x", "-C", tree], input=packed, check=True)
    imports = [sys.executable, "-c", "import purgatorio.admin.cli.main as found; print(found.__file__)"]
    done = subprocess.run(imports, **in_tree(tree), capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).is_relative_to(tree), "brokers of this tree would be tested beside themselves"
    return tree


@contextmanager
def producing(bootstrap: str) -> Iterator[list[bytes]]:
    """Produce with acks=all until the end; yields the values that are acknowledged, in their order."""
    acknowledged: list[bytes] = []
    failed: list[object] = []
    ended = threading.Event()

    def told(error: object, message: Any) -> None:
        acknowledged.append(message.value()) if error is None else failed.append(error)

    def produce() -> None:
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, **QUIET}
        producer = Producer(settings)
        number = 0
        while not ended.is_set():
            producer.produce(TOPIC, b"%d" % number, on_delivery=told)
            number += 1
            producer.poll(0.01)
        failed.extend(["not flushed"] * producer.flush(DEADLINE_SECONDS))

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield acknowledged
    finally:
        ended.set()
        thread.join()
    assert not failed


def partition(hosts: Hosts) -> Any:
    admin = AdminClient({"bootstrap.servers": hosts.bootstrap, **QUIET})
    return admin.list_topics(TOPIC, timeout=DEADLINE_SECONDS).topics[TOPIC].partitions[0]


def all_in_sync(hosts: Hosts) -> bool:
    """Return whether no partition of any broker lacks a replica, as docs/hosts.md has users see it."""
    asked = next(iter(hosts.brokers))
    found = re.findall(r'underreplicatedpartitions\{broker="(\d)"} (\S+)', hosts.get(asked, "/metrics"))
    return dict(found) == {str(each): "0.0" for each in (1, 2, 3)} and len(partition(hosts).isrs) == 3


def replace(hosts: Hosts, broker_id: int, tree: Path | None, *, by_force: bool = False) -> None:
    """Start a broker of another version in the place of one, and wait until it has what that one had."""
    if by_force:
        hosts.brokers[broker_id].kill()
        until(lambda: hosts.rows(next(each for each in hosts.brokers if each != broker_id))[broker_id]["fenced"])
    assert hosts.stop(broker_id) in (0, -signal.SIGKILL)
    until(lambda: partition(hosts).leader not in (broker_id, -1))
    hosts.trees.pop(broker_id, None)
    if tree is not None:
        hosts.trees[broker_id] = tree
    hosts.start(broker_id)
    until(lambda: all_in_sync(hosts))


def read(hosts: Hosts, count: int) -> list[bytes]:
    settings = {"bootstrap.servers": hosts.bootstrap, "group.id": "late", "auto.offset.reset": "earliest", **QUIET}
    consumer = Consumer(settings)
    consumer.subscribe([TOPIC])
    found: list[bytes] = []
    until(lambda: found.extend(each.value() for each in consumer.consume(500, 0.5)) or len(found) >= count)
    consumer.close()
    return found


def committed_offset(group: Consumer) -> int | None:
    """Return what a group has committed; None while its coordinator moves, which the client does not wait for."""
    try:
        (committed,) = group.committed([TopicPartition(TOPIC, 0)], timeout=DEADLINE_SECONDS)
    except KafkaException:
        return None
    offset: int = committed.offset
    return offset


def test_brokers_are_replaced_one_by_one_and_nothing_is_lost(tmp_path: Path, released: Path) -> None:
    """Metadata, replication, elections by a stop and by a death, a group's offsets, the pages; and one step back."""
    (tmp_path / "secret").write_text("0123456789abcdef0123456789abcdef\n")
    flags = ["--set", f"cluster.secret.file={tmp_path / 'secret'}"]
    with running(tmp_path, lambda _: flags, dict.fromkeys((1, 2, 3), released)) as hosts:
        hosts.create(TOPIC)
        settings = {"bootstrap.servers": hosts.bootstrap, "group.id": "g", "enable.auto.commit": False, **QUIET}
        group = Consumer(settings)
        with producing(hosts.bootstrap) as acknowledged:
            until(lambda: len(acknowledged) > 100)
            group.commit(offsets=[TopicPartition(TOPIC, 0, 42)], asynchronous=False)
            for broker_id, by_force in ((1, False), (2, True), (3, False)):
                before = len(acknowledged)
                replace(hosts, broker_id, None, by_force=by_force)
                until(lambda before=before: len(acknowledged) > before + 100)
                assert not any(row["process"]["trouble"] for row in hosts.rows(broker_id).values())
            replace(hosts, 2, released)
            until(lambda: committed_offset(group) == 42)
            group.close()
        assert acknowledged == [b"%d" % number for number in range(len(acknowledged))]
        assert read(hosts, len(acknowledged)) == acknowledged
