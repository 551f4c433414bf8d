"""`records consume --follow` and `records produce` as processes: Ctrl-C, a closed pipe, and a cluster that is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from purgatorio.admin.cli import main as cli
from purgatorio.testing import Kafka, cluster

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]
PATIENCE_SECONDS = 60


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    """A cluster of two brokers, with records."""
    with cluster(brokers=2, topics={"orders": 2}) as running:
        running.produce("orders", "one", partition=0)
        running.produce("orders", "two", partition=1)
        yield running


def start(kafka: Kafka, *argv: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "purgatorio", "records", *argv, "--bootstrap", kafka.bootstrap]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def test_a_follower_goes_on_when_a_leader_dies_and_ends_by_ctrl_c(kafka: Kafka) -> None:
    process = start(kafka, "consume", "orders", "--follow")
    assert sorted(lines(process, 2)) == ["one", "two"]
    kafka.produce("orders", "three", partition=0)
    assert lines(process, 1) == ["three"]
    leader = kafka.leader("orders", 0)
    kafka.stop(leader)
    kafka.produce("orders", "four", partition=0)
    assert lines(process, 1) == ["four"]
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (130, "")
    assert errors.splitlines()[-1] == "4 records from 2 partitions of orders"
    assert "Traceback" not in errors


def test_a_member_that_ctrl_c_ends_has_committed_and_left(kafka: Kafka) -> None:
    process = start(kafka, "consume", "orders", "--follow", "--group", "g")
    assert sorted(lines(process, 2)) == ["one", "two"]
    other = start(kafka, "consume", "orders", "--follow", "--group", "g")
    kafka.produce("orders", *(f"value {nth}" for nth in range(20)))
    process.send_signal(signal.SIGINT)
    first, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, "Traceback" in errors) == (130, False)
    read = [line for line in first.splitlines() if line]
    left = {f"value {nth}" for nth in range(20)} - set(read)
    kafka.produce("orders", "the last", partition=0)
    assert set(lines(other, len(left) + 1)) == left | {"the last"}
    other.send_signal(signal.SIGINT)
    rest, errors = other.communicate(timeout=PATIENCE_SECONDS)
    assert (rest, other.returncode) == ("", 130)


@pytest.mark.parametrize("group", [(), ("--group", "g")])
def test_a_follower_reads_partitions_that_are_added(kafka: Kafka, group: tuple[str, ...]) -> None:
    process = start(kafka, "consume", "orders", "--follow", *group, "--count", "3")
    assert sorted(lines(process, 2)) == ["one", "two"]
    assert cli.main(["topics", "add-partitions", "orders", "1", "--bootstrap", kafka.bootstrap]) == 0
    kafka.produce("orders", "three", partition=2)
    out, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (0, "three\n")
    assert errors.splitlines()[-1] == "3 records from 3 partitions of orders"


@pytest.mark.parametrize("group", [(), ("--group", "g")])
def test_a_follower_that_a_transaction_holds_back_says_so_once(kafka: Kafka, group: tuple[str, ...]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", "three", partition=1)
    producer.flush()
    process = start(kafka, "consume", "orders", "--follow", "--count", "3", *group)
    assert process.stderr is not None
    said = "an open transaction hides the last offset of orders-1; --isolation read_uncommitted shows them"
    assert process.stderr.readline() == f"purgatorio: {said}\n"
    producer.commit_transaction()
    out, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert (sorted(out.split()), errors) == (["one", "three", "two"], "3 records from 2 partitions of orders\n")


def test_a_cluster_that_stays_away_is_given_up(kafka: Kafka) -> None:
    with cluster(brokers=1, topics={"orders": 1}) as short:
        short.produce("orders", "one")
        process = start(short, "consume", "orders", "--follow", "--timeout", "1")
        assert lines(process, 1) == ["one"]
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert errors.splitlines()[0].endswith("; trying for 1 s")
    assert errors.splitlines()[-1].endswith("no server listens there; given up after 1 s")


def test_a_closed_pipe_ends_a_reader_without_a_traceback(kafka: Kafka) -> None:
    for _ in range(8):
        kafka.produce("orders", *("x" * 1000 for _ in range(500)))
    process = start(kafka, "consume", "orders")
    assert lines(process, 1) != [""]
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(PATIENCE_SECONDS) == 1
    assert "Traceback" not in errors
    process.stderr.close()
    assert process.stdin is not None
    process.stdin.close()


def test_what_comes_slowly_is_sent_when_it_comes_and_ctrl_c_ends_a_waiting_read(kafka: Kafka) -> None:
    process = start(kafka, "produce", "orders", "-p", "0")
    assert process.stdin is not None
    process.stdin.write("typed\n")
    process.stdin.flush()
    reader = start(kafka, "consume", "orders", "-p", "0", "--from", "-0", "--until", "end", "-q")
    reader.communicate(timeout=PATIENCE_SECONDS)
    follower = start(kafka, "consume", "orders", "-p", "0", "--from", "1", "--follow", "--count", "1", "-q")
    assert follower.communicate(timeout=PATIENCE_SECONDS)[0] == "typed\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, errors) == (130, "1 record written to orders: partition 0 offset 1\n")
