"""``purgatorio tier`` against a running cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from purgatorio.admin.cli import main as cli
from purgatorio.admin.cli.tier_commands import _size
from purgatorio.admin.operations import topics
from purgatorio.testing import Kafka, cluster

Run = Callable[..., str]
TIERED = {"remote_storage_enable": True}


@pytest.mark.parametrize(
    ("size_bytes", "shown"), [(0, "0 B"), (999, "999 B"), (999_499, "999 kB"), (999_600, "1 MB"), (10**9, "1 GB")]
)
def test_sizes_have_three_digits(size_bytes: int, shown: str) -> None:
    assert _size(size_bytes) == shown


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with cluster(brokers=3, tier_location="memory:") as running:
        running.topic("orders", partitions=2, **TIERED)
        running.topic("plain")
        for partition in (0, 1):
            running.produce("orders", *[f"record {number}" for number in range(10)], partition=partition)
        yield running


@pytest.fixture
def run(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run a command; returns what it printed, which is an error for an exit code other than 0."""

    def run(*argv: str, code: int = 0) -> str:
        assert cli.main(["tier", *argv, "--admin", kafka.admin_url]) == code
        printed = capsys.readouterr()
        return printed.err or printed.out

    yield run
    kafka.clear_faults()


def local_starts(kafka: Kafka) -> set[int]:
    """Where the memory of each replica of orders begins."""
    replicas = [each for broker in kafka._cluster.brokers for each in broker.replicas.partitions.values()]
    return {each.log.local_start_offset for each in replicas if each.tp.topic == "orders"}


def test_a_topic_is_offloaded_listed_shown_and_verified(run: Run, kafka: Kafka) -> None:
    told = run("offload", "orders")
    assert told.startswith("orders: "), told
    assert told.splitlines()[0].endswith(" left memory")
    rows = run("list").splitlines()
    assert rows[0] == "tier: the memory store"
    assert rows[2].split()[:3] == ["orders", "2", "2"]
    assert rows[2].split()[-4:] == ["0", "B", "0", "B"]
    shown = run("show", "orders").splitlines()
    assert [row.partition("[")[2] for row in shown[1:]] == ["0, 10) tier"] * 2
    assert run("verify", "orders").startswith("2 segments of 2 partitions of orders are as they were written: ")
    listed = json.loads(run("show", "orders", "--json"))
    runs = [[(run["start"], run["end"], run["kind"]) for run in row["runs"]] for row in listed["partitions"]]
    assert runs == [[(0, 10, "remote")]] * 2
    assert local_starts(kafka) == {10}, "followers have dropped it too"
    assert [len(kafka.records("orders", partition=each)) for each in (0, 1)] == [10, 10]


def test_reads_and_writes_are_held_and_released(run: Run, kafka: Kafka) -> None:
    told = run("hold", "reads", "--topic", "orders")
    assert "reads of the tier are held by fault rule" in told
    assert run("hold", "reads", "--topic", "orders") == told, "a hold that is there is not another one"
    run("hold", "writes")
    assert [str(each) for each in kafka.faults] == [
        "tier=get topic=orders hold=true name=hold reads of orders",
        "tier=put hold=true name=hold writes",
    ]
    assert "there is no topic 'oders'; did you mean orders?" in run("hold", "reads", "--topic", "oders", code=1)
    assert run("release", "reads") == "reads of the tier go on; 0 calls were held\n"
    assert run("release", "writes") == "writes of the tier go on; 0 calls were held\n"
    assert run("release", "writes", code=1) == "purgatorio: writes of the tier are not held\n"
    assert kafka.faults == []


def test_an_offload_that_does_not_end_says_how_far_it_is_and_why(run: Run, kafka: Kafka) -> None:
    run("hold", "writes")
    kafka.produce("orders", "more", partition=0)
    told = run("offload", "orders", "--timeout-seconds", "0.2", code=1)
    assert "orders-0 is copied up to 10 of 11 after 0.2 s: fault rule " in told
    run("release", "writes")
    assert "[0, 11) tier" in run("offload", "orders")


def test_damage_is_found(run: Run, kafka: Kafka) -> None:
    run("offload", "orders")
    kafka.fault(tier="get", topic="orders", partition=1, corrupt=True)
    told = run("verify", "orders", code=1)
    assert "segments of 2 partitions of orders are damaged:" in told
    assert all(row.split()[0] == "orders-1" for row in told.splitlines()[2:])


def test_what_the_store_has_lost_is_found(run: Run, kafka: Kafka) -> None:
    kafka.topic("lost", **TIERED)
    kafka.produce("lost", "one")
    kafka.fault(tier="put", topic="lost", lose=True)
    assert "[0, 1) tier" in run("offload", "lost")
    told = run("verify", "lost", code=1)
    assert told.splitlines()[0] == "1 of 1 segment of 1 partition of lost are damaged:"
    assert told.splitlines()[2].split(maxsplit=2) == [
        "lost-0",
        "0",
        "the store does not have it, though it has said so",
    ]


def test_objects_of_deleted_topics_are_swept(run: Run, kafka: Kafka) -> None:
    kafka.topic("bills", remote_storage_enable=" TRUE")
    kafka.produce("bills", "one")
    run("offload", "bills")
    assert cli.main(["topics", "delete", "bills", "--admin", kafka.admin_url]) == 0
    told = run("sweep")
    assert told.endswith(" deleted\n"), told
    assert run("sweep") == "0 objects of deleted topics are deleted\n"


def test_nothing_is_told_of_a_partition_without_a_leader(capsys: pytest.CaptureFixture[str]) -> None:
    with cluster(brokers=2, tier_location="memory:") as kafka:
        kafka.topic("orders", partitions=2, replicas=1, **TIERED)
        kafka.produce("orders", "one", partition=0)
        assert cli.main(["tier", "offload", "orders", "--admin", kafka.admin_url]) == 0
        kafka.stop(2)
        capsys.readouterr()
        for command in ("offload", "verify"):
            assert cli.main(["tier", command, "orders", "--admin", kafka.admin_url]) == 1
            assert capsys.readouterr().err in {f"purgatorio: orders-{number} has no leader\n" for number in (0, 1)}
        assert cli.main(["tier", "list", "--admin", kafka.admin_url]) == 0
        assert capsys.readouterr().out.splitlines()[2].split()[:2] == ["orders", "1"]


def test_a_replica_that_asks_the_tier_before_it_leads_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with cluster(brokers=1, tier_location="memory:") as kafka:
        kafka.topic("orders", **TIERED)
        kafka.produce("orders", "one")
        kafka.add_broker()
        kafka.kill(1)
        kafka.start(1)
        kafka.fault(tier="list", topic="orders", hold=True)
        kafka.do(topics.ElectLeaders("orders", unclean=True))
        capsys.readouterr()
        assert cli.main(["why", "orders", "--admin", kafka.admin_url]) == 0
        says = "orders-0 has no leader: broker 1 is elected, and waits to hear what the tier has of it"
        assert capsys.readouterr().out.splitlines()[0] == says


@pytest.mark.parametrize("command", ["show", "offload", "verify"])
def test_what_is_not_in_the_tier_is_said(run: Run, command: str) -> None:
    assert run(command, "plain", code=1) == (
        "purgatorio: topic 'plain' has no part in the tier: set its remote.storage.enable to true\n"
    )
    assert "there is no topic 'order'" in run(command, "order", code=1)


def test_a_cluster_without_a_tier_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with cluster(brokers=1) as kafka:
        for argv in (["show", "orders"], ["hold", "reads"]):
            assert cli.main(["tier", *argv, "--admin", kafka.admin_url]) == 1
            assert capsys.readouterr().err == "purgatorio: the cluster has no tier: begin it with --tier DIR\n"
        assert cli.main(["tier", "list", "--admin", kafka.admin_url]) == 0
        assert capsys.readouterr().out == "the cluster has no tier: begin it with --tier DIR\n"
