"""`purgatorio serve --store etcd://…`: brokers of several hosts, here processes of one, make one cluster."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.broker.impostors import impostor
from tests.compat.hosts import DEADLINE_SECONDS, QUIET, Hosts, running, until
from tests.endpoints import free_port, neighbouring_ports

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("etcd") is None, reason="there is no etcd on this machine"),
]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    (tmp_path / "secret").write_text("0123456789abcdef0123456789abcdef\n")
    with running(tmp_path, lambda _: ["--set", f"cluster.secret.file={tmp_path / 'secret'}"]) as hosts:
        yield hosts


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


def test_monitoring_finds_a_dead_broker_at_any_living_one(hosts: Hosts) -> None:
    before = hosts.get(1, "/api/v1/targets")
    hosts.brokers[2].kill()
    until(lambda: hosts.rows(1)[2]["state"] == "stopped")
    assert hosts.stop(3) == 0
    hosts.start(3)
    until(lambda: len(hosts.get(3, "/api/v1/targets")) == 3)
    assert hosts.get(3, "/api/v1/targets")[:2] == before[:2], "it came after the death"
    counts = re.findall(r'kafkacontroller_(activ|fenc)\w+brokercount\{broker="1"} (\S+)', hosts.get(1, "/metrics"))
    assert counts == [("activ", "2.0"), ("fenc", "1.0")]


def test_brokers_of_one_machine_may_have_neighbouring_admin_ports(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each took the next port, too. The first is started as by systemd, which hears when it answers."""
    port = neighbouring_ports()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, monkeypatch.context() as environment:
        manager.bind(str(tmp_path / "notify"))
        environment.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        hosts.start(4, "--admin-port", str(port))
        manager.settimeout(DEADLINE_SECONDS)
        assert manager.recv(100) == b"READY=1"
    hosts.start(5, "--admin-port", str(port + 1))
    assert [hosts.page(each) for each in (4, 5)] == [f"http://localhost:{port}", f"http://localhost:{port + 1}"]
    for asked in (1, 4, 5):
        until(lambda asked=asked: not any(row["process"]["trouble"] for row in hosts.rows(asked).values()))
    assert {*re.findall(r'purgatorysize\{broker="(\d)"', hosts.get(5, "/broker/metrics"))} == {"5"}


def test_a_paused_broker_whose_id_was_taken_over_ends_with_a_sentence(hosts: Hosts, tmp_path: Path) -> None:
    paused = hosts.brokers[2]
    os.kill(paused.pid, signal.SIGSTOP)
    until(lambda: hosts.rows(1)[2]["state"] == "stopped")
    said = (tmp_path / "2.log").rename(tmp_path / "paused.log")
    hosts.start(2)
    os.kill(paused.pid, signal.SIGCONT)
    assert paused.wait(DEADLINE_SECONDS) == 1
    assert paused.stdout is not None
    paused.stdout.close()
    last = [line for line in said.read_text().splitlines() if not re.match(r"[0-9:.]+ \[", line)]
    why = r"broker 2 is not registered in epoch [0-9]+ any more: the broker at 127\.0\.0\.1:[0-9]+ has its id now"
    (line,) = last
    assert re.fullmatch(f"purgatorio: {why}", line)


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


def test_what_hosts_send_to_the_port_of_one_that_is_dead_is_of_no_use_at_the_others(tmp_path: Path) -> None:
    """While it holds its lease its followers connect to whatever has its port; nothing keeps that from being taken."""
    (tmp_path / "secret").write_text("0123456789abcdef0123456789abcdef\n")
    ports = {each: free_port() for each in (1, 2, 3)}
    settings = ["--set", f"cluster.secret.file={tmp_path / 'secret'}", "--set"]
    with running(tmp_path, lambda broker_id: [*settings, f"cluster.port={ports[broker_id]}"]) as hosts:
        leader = hosts.create("orders")
        hosts.brokers[leader].kill()
        hosts.brokers[leader].wait(DEADLINE_SECONDS)
        living = [("127.0.0.1", port) for broker_id, port in ports.items() if broker_id != leader]

        async def attack() -> int:
            async with impostor(*living, at=("127.0.0.1", ports[leader])) as found, asyncio.timeout(DEADLINE_SECONDS):
                await found.hears(4)
                await found.replay(times=25)
                return found.accepted

        assert asyncio.run(attack()) == 0
