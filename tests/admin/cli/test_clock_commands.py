"""``purgatorio clock`` against a running cluster."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Iterator

import pytest

from purgatorio.admin.cli import main as cli
from purgatorio.admin.cli.broker_commands import SHOWN
from purgatorio.testing import Kafka, cluster

Run = Callable[..., str]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with cluster(brokers=2, topics={"orders": 1}, replica_lag_time_max_ms=600_000) as running:
        yield running


@pytest.fixture
def run(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; returns what it printed, which is an error for an exit code other than 0."""

    def run(*argv: str) -> str:
        code = cli.main(["clock", *argv, "--admin", kafka.admin_url])
        printed = capsys.readouterr()
        assert bool(code) is bool(printed.err)
        return printed.err or printed.out

    return run


def test_time_moves_and_what_ended_is_listed(run: Run, kafka: Kafka) -> None:
    before = kafka.clock.now()
    kafka.hold_follower(next(each for each in kafka.brokers if each != kafka.leader("orders")))
    failures: list[Exception] = []

    def produce() -> None:
        try:
            kafka.produce("orders", "late")
        except TimeoutError as error:
            failures.append(error)

    producing = threading.Thread(target=produce)
    producing.start()
    kafka.until_parked(api="Produce").wait()
    lines = run("advance", "30").splitlines()
    producing.join()
    kafka.release()
    assert lines[0] == "the brokers' clock moved 30 s"
    assert lines[1].split() == ["ENDED", "PURGATORY", "CLIENT", "BROKERS", "WAITED-MS", "MISSING"]
    assert lines[2].split()[:3] == ["1", "Produce", "purgatorio.testing"]
    assert len(failures) == 1
    assert kafka.clock.now() >= before + 30


def test_what_ended_is_summed_up_by_purgatory_and_client(capsys: pytest.CaptureFixture[str]) -> None:
    """Long polls end by the dozen, a line of them says it; all of them are in the JSON."""

    def ended(broker: int, client: str, waited_ms: int, offset: int) -> dict[str, object]:
        missing = f"consumer has 0 of 1 bytes: orders-0 from {offset}"
        return {"broker": broker, "purgatory": "Fetch", "client": client, "waited_ms": waited_ms, "missing": missing}

    polls = [ended(1 + number % 2, "dashboard", 490 + number, number // 40) for number in range(71)]
    clients = [ended(3, f"shop-{number}", 500, 7) for number in range(30)]
    answer = {"ended": [*clients, *polls], "ended_count": 101}
    SHOWN["clock advance"](answer, argparse.Namespace(seconds=30.0))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=5) for line in lines[1:4]] == [
        ["ENDED", "PURGATORY", "CLIENT", "BROKERS", "WAITED-MS", "MISSING"],
        ["71", "Fetch", "dashboard", "1,2", "560", "consumer has 0 of 1 bytes: orders-0 from 1 and 1 more"],
        ["1", "Fetch", "shop-0", "3", "500", "consumer has 0 of 1 bytes: orders-0 from 7"],
    ]
    assert (len(lines), lines[-1]) == (23, "and 11 more")


def test_time_is_stopped_and_goes_on(run: Run) -> None:
    shown = run("freeze")
    assert shown.endswith("+00:00, and stands still\n")
    assert run("show") == shown
    assert run("advance", "0.5", "--sessions") == "the brokers' clock moved 0.5 s\n"
    assert "stands still" not in run("unfreeze")


@pytest.mark.parametrize("seconds", ["nan", "inf", "soon"])
def test_a_time_that_is_none_is_refused(run: Run, seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("advance", seconds)
    assert f"{seconds!r} is not a time in seconds" in capsys.readouterr().err


def test_a_time_that_is_too_long_is_refused(run: Run) -> None:
    assert "seconds" in run("advance", "1e12")
