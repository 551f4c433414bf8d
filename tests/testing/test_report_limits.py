"""A report stays short, quick and readable, whatever the cluster of the failed test is like."""

from __future__ import annotations

import socket
from typing import Any

from purgatorio.admin.operations.reading.report import MAX_LINES, MAX_WIDTH, report_of
from purgatorio.broker.causes.cause import FollowerBehind
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api import encode_request
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from purgatorio.purgatory.delayed_operation import DelayedOperation
from purgatorio.testing import Kafka, cluster
from tests.admin.operations.reading.why.documents import facts, group, member, partition, position
from tests.testing.conftest import Run

pytest_plugins = ["pytester"]

PARKED = 10_000
MEMBERS = 1_000


class Waiting(DelayedOperation):
    """A produce request that waits for broker 2."""

    causes = (FollowerBehind(TopicPartition("orders", 0), 2, 0, 1),)

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        pass


def park(kafka: Kafka, count: int) -> None:
    """Park operations of as many clients at broker 1."""

    def parked() -> None:
        (broker,) = kafka._backend.cluster.brokers  # type: ignore[attr-defined]
        purgatory = next(each for each in broker.purgatories if each.name == "Produce")
        for number in range(count):
            operation = Waiting(60_000)
            operation.client = f"client-{number}"
            purgatory.try_complete_else_watch(operation, [TopicPartition("orders", 0)])

    kafka._thread.call(parked, "park operations")


def is_short(text: str) -> bool:
    """Return whether a report keeps its limits."""
    lines = text.splitlines()
    return len(lines) <= MAX_LINES and all(len(line) <= MAX_WIDTH for line in lines)


def test_ten_thousand_waits_are_counted_and_some_are_shown() -> None:
    with cluster(brokers=1) as kafka:
        kafka.topic("orders")
        park(kafka, PARKED)
        text = kafka.report()
    assert is_short(text)
    lines = text.splitlines()
    begin = lines.index("parked operations, the longest waiting first:")
    assert lines[begin + 1].startswith("  broker 1 Produce of client-0, ")
    assert any(line.endswith(" more") for line in lines[begin:])


def test_a_group_of_a_thousand_members_is_counted() -> None:
    owners = [member(f"m-{number}", ("orders", number)) for number in range(MEMBERS)]
    idle = [member(f"idle-{number}") for number in range(MEMBERS)]
    document = facts(
        partitions=[partition(number=number) for number in range(MEMBERS)],
        groups=[group("g", *owners, *idle)],
        positions=[position(f"m-{number}", 0, number=number) for number in range(MEMBERS)],
        clients=[each["client"] for each in (*owners, *idle)],
        client_count=2 * MEMBERS,
        group_count=1,
    )
    text = report_of(document)
    assert is_short(text)
    assert "2000 members" in text


def test_a_client_id_with_control_characters_stays_on_its_line() -> None:
    """It would clear the screen, or forge a line of the report."""
    client_id = "bill\x1b[2Jing\r\nparked operations: none"
    with cluster(brokers=1) as kafka:
        host, _, port = kafka.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"".join(encode_request(ApiKey.API_VERSIONS, 0, 1, client_id, ApiVersionsRequest())))
            assert client.recv(4)
            text = kafka.report()
    assert all(line.isprintable() for line in text.splitlines())
    assert r"bill\x1b[2Jing\r\nparked operations: none" in text
    assert text.splitlines().count("parked operations: none") == 1


def test_a_cluster_that_died_during_the_test_has_its_report(run: Run) -> None:
    result = run(
        """
        def test_killed(kafka):
            kafka.topic("orders")
            for each in list(kafka.brokers):
                kafka.kill(each)
            assert False, "first"

        def test_closed(kafka):
            kafka.close()
            assert False, "second"

        def test_is_closed_by_a_block(kafka):
            with kafka_of(kafka):
                assert False, "third"

        import contextlib

        @contextlib.contextmanager
        def kafka_of(kafka):
            try:
                yield kafka
            finally:
                kafka.close()
        """,
        ini="kafka_leaks = error",
    )
    result.assert_outcomes(failed=3)
    dead = ["E*first*", "no broker runs: 1, 2 and 3 were stopped or killed; start one", "brokers: 1 (does not run), *"]
    closed = ["E*second*", "no report: the cluster is closed; *"]
    result.stdout.fnmatch_lines([*dead, *closed, "E*third*", "brokers: 1 at *"])


def rows(**more: Any) -> list[dict[str, Any]]:
    """Requests that were refused, of as many clients."""
    row = {"api": "Produce", "errors": ["MESSAGE_TOO_LARGE"], "topics": ["orders"], "transactional_id": "", "count": 1}
    times = {"first_ms": 99_000, "last_ms": 99_000}
    return [{"client": f"client-{number}", **row, **times, **more} for number in range(MEMBERS)]


def test_conclusions_are_counted_too() -> None:
    text = report_of(facts(errors=rows()))
    assert is_short(text)
    assert "995 more like these" in text
