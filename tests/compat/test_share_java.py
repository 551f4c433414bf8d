"""Kafka's own KafkaShareConsumer, which Maven brings from Maven Central, against a cluster of the test kit."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from purgatorio.testing import Kafka, cluster
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS
from tests.java import SHORT, class_path, compiled, needs_java

FOLDER = Path(__file__).parent / "share"
PATIENCE_SECONDS = 20
POLL = f"poll {PATIENCE_SECONDS * 1_000}"
pytestmark = [pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + 6 * PATIENCE_SECONDS), needs_java]

Say = Callable[..., list[str]]
Join = Callable[..., Say]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> str:
    """The class path with the compiled member."""
    jars = class_path(FOLDER / "pom.xml", pytestconfig.cache)
    return compiled(FOLDER / "ShareMember.java", jars, tmp_path_factory.mktemp("share"))


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    """A cluster with a topic of one partition and 12 records, which group "jobs" reads from the beginning."""
    with cluster() as kafka:
        kafka.topic("orders")
        kafka.produce("orders", *(f"order {number}" for number in range(12)))
        configure(kafka, **{"share.auto.offset.reset": "earliest"})
        yield kafka


def configure(kafka: Kafka, **configs: str) -> None:
    """Set configs of the group."""
    entries: list[Any] = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()
    ]
    change = ConfigResource(ResourceType.GROUP, "jobs", incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for done in admin.incremental_alter_configs([change]).values():
        done.result(PATIENCE_SECONDS)


@pytest.fixture
def join(kafka: Kafka, path: str) -> Iterator[Join]:
    """Start a member with these configs; what it returns has the member do lines, and returns its answers."""
    processes: list[subprocess.Popen[str]] = []

    def joined(**configs: object) -> Say:
        further = [f"{name.replace('_', '.')}={value}" for name, value in configs.items()]
        command = ["java", *SHORT, "-cp", path, "ShareMember", kafka.bootstrap, "jobs", "orders", *further]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)

        def say(*lines: str) -> list[str]:
            assert process.stdin is not None
            assert process.stdout is not None
            answers = []
            for line in lines:
                print(line, file=process.stdin, flush=True)
                answers.append(process.stdout.readline().strip())
            return answers

        return say

    yield joined
    for process in processes:
        process.communicate("", timeout=PATIENCE_SECONDS)


def offsets(first: int, last: int, delivery_count: int = 1) -> str:
    """What a poll answers."""
    return " ".join(f"{offset}:{delivery_count}" for offset in range(first, last + 1))


def test_records_are_accepted_released_rejected_and_renewed(kafka: Kafka, join: Join) -> None:
    """KIP-1222: a renewal keeps a record beyond the time of its lock."""
    say = join(share_acknowledgement_mode="explicit")
    assert say(POLL, "timeout") == [offsets(0, 11), "30000"]
    said = say("accept 0 1 2 3 4 5 6 7 8", "release 9", "reject 10", "renew 11", "commit")
    assert said == ["done"] * 4 + ["0:ok"]
    group = kafka.share_group("jobs")
    for _ in range(2):
        assert say(POLL) == ["11:1"], "the client gives a renewed record out again"
        kafka.clock.advance(20)
        assert say("renew 11", "commit") == ["done", "0:ok"]
    assert [each.offsets for each in group.acquired()] == [range(11, 12)]
    assert say(POLL, "accept 11", "commit", POLL) == ["11:1", "done", "0:ok", "9:2"]
    assert say("accept 9", "commit") == ["done", "0:ok"]
    assert (group.start_offsets(), group.in_flight()) == ({("orders", 0): 12}, [])


def test_an_implicit_member_acknowledges_by_its_next_poll_and_commit(kafka: Kafka, join: Join) -> None:
    say = join(max_poll_records=12)
    assert say(POLL) == [offsets(0, 11)]
    kafka.produce("orders", "another")
    assert say(POLL, "commit") == ["12:1", "0:ok"]
    assert kafka.share_group("jobs").start_offsets() == {("orders", 0): 13}


def test_a_limit_of_records_is_kept_within_a_batch(kafka: Kafka, join: Join) -> None:
    """KIP-1206."""
    say = join(share_acquire_mode="record_limit", max_poll_records=5)
    assert say(POLL, POLL, POLL, "commit") == [offsets(0, 4), offsets(5, 9), offsets(10, 11), "0:ok"]


def test_what_a_member_leaves_behind_goes_to_the_next_one(kafka: Kafka, join: Join) -> None:
    first = join(share_acknowledgement_mode="explicit")
    assert first(POLL, "accept 0 1", "close") == [offsets(0, 11), "done", "closed"]
    assert join()(POLL) == [offsets(2, 11, delivery_count=2)]
