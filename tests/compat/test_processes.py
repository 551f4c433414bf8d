"""`purgatorio cluster --processes`: a broker is a process, which a client notices only when it is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.compat.hosts import DEADLINE_SECONDS, until
from tests.compat.processes import Processes, is_there, leader_of, running

pytestmark = [pytest.mark.process, pytest.mark.smoke]


def values_of(cluster: Processes, topic: str, count: int) -> list[bytes]:
    """Read so many records."""
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, "log_level": 0})
    consumer.subscribe([topic])
    found: list[bytes] = []

    def read() -> bool:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            found.append(message.value() or b"")
        return len(found) == count

    until(read)
    consumer.close()
    return found


def test_the_end_of_the_process_that_forks_brokers_is_a_sentence_and_an_end_in_order() -> None:
    """All records were gone, the supervisor stayed, and brokers said that it had ended."""
    command = [sys.executable, "-m", "purgatorio", "cluster", "--processes", "--port", "0", "--admin-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = "".join(iter(process.stdout.readline, "Ctrl-C stops all of it.\n"))
        pids = [int(pid) for pid in re.findall(r"process (\d+)", said)]
        parents = subprocess.run(["ps", "-o", "ppid=", "-p", str(pids[0])], capture_output=True, text=True, check=True)
        nursery = int(parents.stdout)
        assert nursery != process.pid
        os.kill(nursery, signal.SIGKILL)
        printed, told = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 1
    sentence = f"purgatorio: the process {nursery} that starts brokers has ended, and the cluster with it\n"
    assert sentence in told
    assert told.count("broker stopped") == 3, "each stopped in order"
    assert "the supervisor has ended" not in printed + told
    until(lambda: not any(map(is_there, pids)))


def test_no_acknowledged_record_is_lost_when_the_leaders_process_is_killed() -> None:
    with running() as cluster:
        leader = leader_of(cluster, "orders")
        acknowledged: list[bytes] = []

        def told(error: object, message: object) -> None:
            assert error is None
            acknowledged.append(message.value())  # type: ignore[attr-defined]

        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True, "log_level": 0}
        )
        for number in range(200):
            producer.produce("orders", b"%d" % number, on_delivery=told)
            producer.poll(0)
            if number == 100:
                until(lambda: producer.poll(0.01) or len(acknowledged) > 20)
                os.kill(cluster.pids.pop(leader), signal.SIGKILL)
        assert producer.flush(DEADLINE_SECONDS) == 0
        assert values_of(cluster, "orders", 200) == acknowledged == [b"%d" % number for number in range(200)]


def test_a_process_that_ends_is_started_again_if_that_is_asked_for() -> None:
    with running("--restart") as cluster:
        before = cluster.state_of(3)
        os.kill(cluster.pids.pop(3), signal.SIGKILL)
        # It is there again within a moment, in another epoch.
        until(lambda: "running" in (now := cluster.state_of(3)) and "held" in now and now != before)
        admin = AdminClient({"bootstrap.servers": cluster.addresses[1], "log_level": 0})
        until(lambda: len(admin.list_topics(timeout=DEADLINE_SECONDS).brokers) == 3)
        brokers = admin.list_topics(timeout=DEADLINE_SECONDS).brokers
        assert f"{brokers[3].host}:{brokers[3].port}" == cluster.addresses[3], "on its port"


def test_brokers_end_with_their_supervisor() -> None:
    with running() as cluster:
        cluster.supervisor.kill()
        cluster.supervisor.wait(DEADLINE_SECONDS)
        until(lambda: not any(map(is_there, cluster.pids.values())))


def test_brokers_end_with_their_supervisor_though_one_stands_still() -> None:
    with running() as cluster:
        cluster.command("broker pause 2")
        cluster.supervisor.kill()
        cluster.supervisor.wait(DEADLINE_SECONDS)
        until(lambda: not any(map(is_there, cluster.pids.values())))


def test_commands_end_stop_and_start_processes() -> None:
    with running() as cluster:
        assert "broker 2 stands still" in cluster.command("broker pause 2")
        assert "running (paused, its process stands still (SIGSTOP))" in cluster.state_of(2)
        assert "goes on" in cluster.command("broker resume 2")
        assert "broker 2 was killed" in cluster.command("broker kill 2")
        assert "stopped (its process has ended: SIGKILL)" in cluster.state_of(2)
        assert "broker 2 is not running" in cluster.command("broker kill 2")
        assert "broker 2 is running" in cluster.command("broker start 2")
        assert "broker 2 is stopped" in cluster.command("broker stop 2")
        assert "stopped (its process has ended: exit status 0)" in cluster.state_of(2)
        del cluster.pids[2]


def hold(cluster: Processes, broker: int, *, held: bool) -> None:
    """Hold back the fetches of a follower, or release them."""
    url = f"{cluster.admin_url}/api/v1/brokers/{broker}/follower"
    headers = {"Content-Type": "application/json"}
    body = json.dumps({"held": held}).encode()
    urllib.request.urlopen(urllib.request.Request(url, body, headers, method="POST")).close()


def test_the_page_shows_what_waits_in_every_process_and_for_which_broker() -> None:
    with running() as cluster:
        leader = leader_of(cluster, "orders")
        follower = next(each for each in cluster.addresses if each != leader)
        hold(cluster, follower, held=True)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
        producer.produce("orders", b"held")
        producer.poll(0)
        until(lambda: f"orders-0: broker {follower} is at 0 of 1" in cluster.command("parked list"))
        with urllib.request.urlopen(f"{cluster.admin_url}/metrics") as metrics:
            text = metrics.read().decode()
        sizes = dict(re.findall(r'purgatorysize\{broker="(\d)",delayedOperation="Produce"} (\S+)', text))
        assert sizes == {str(each): "1.0" if each == leader else "0.0" for each in cluster.addresses}
        hold(cluster, follower, held=False)
        assert producer.flush(DEADLINE_SECONDS) == 0
