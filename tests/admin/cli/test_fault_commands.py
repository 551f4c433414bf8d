"""``purgatorio fault`` against a running cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from purgatorio.admin.cli import main as cli
from purgatorio.testing import Kafka, cluster

Run = Callable[..., str]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with cluster(brokers=1) as running:
        yield running


@pytest.fixture
def run(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; returns what it printed, which is an error for an exit code other than 0."""
    kafka.clear_faults()

    def run(*argv: str) -> str:
        code = cli.main(["fault", *argv, "--admin", kafka.admin_url])
        printed = capsys.readouterr()
        assert bool(code) is bool(printed.err)
        return printed.err or printed.out

    return run


def test_a_rule_is_added_listed_and_removed(run: Run, kafka: Kafka) -> None:
    assert run("list") == "there are no fault rules\n"
    added = run("add", "api=Fetch", "topic=orders", "partition=0", "error=NOT_LEADER_OR_FOLLOWER", "count=3")
    told = "api=Fetch topic=orders partition=0 count=3 error=NOT_LEADER_OR_FOLLOWER"
    assert added == f"fault 1: {told}\n"
    assert run("list").splitlines()[1].split() == ["1", *told.split(), "0", "0"]
    assert run("remove", "1") == "fault 1 is removed; it fired 0 times\n"
    assert kafka.faults == []


def test_numbers_lists_and_truths_are_understood(run: Run, kafka: Kafka) -> None:
    run("add", "errors=REQUEST_TIMED_OUT,NONE", "probability=0.5")
    run("add", "api=Produce", "hold")
    run("add", "api=Produce", "delay-ms=20")
    run("add", "toxic=latency", "latency-ms=20", "toxicity=0.5", "client=till")
    assert list(map(str, kafka.faults)) == [
        "probability=0.5 errors=REQUEST_TIMED_OUT,NONE",
        "api=Produce hold=true",
        "api=Produce delay_ms=20",
        "toxic=latency toxicity=0.5 client=till latency_ms=20",
    ]
    assert run("release", "2") == "fault 2 is removed; 0 requests that it held go on\n"
    assert run("clear") == "3 fault rules are removed\n"
    run("add", "api=Produce", "hold")
    assert run("clear") == "1 fault rule is removed\n"


def test_what_is_wrong_is_told_with_the_nearest_name(run: Run) -> None:
    assert run("add", "api=Prodce", "hold") == "purgatorio: there is no API 'Prodce'; did you mean Produce?\n"
    assert run("add", "toxic=latency", "latency=20").endswith("has no 'latency'; did you mean latency_ms?\n")
    assert run("add", "tier=get", "lose").endswith("'lose' is for put and delete, not for get\n")
    assert run("add", "tier=get", "truncate-bytes=3").endswith("the brokers have no tier: the rule can never match\n")
    assert "'count' must be a whole number" in run("add", "hold", "count=many")
