"""``purgatorio quotas`` against a running cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from purgatorio.admin.cli import main as cli
from purgatorio.broker.metadata.clients import DEFAULT_NAME, QuotaEntity
from purgatorio.testing import Kafka, cluster

Run = Callable[..., str]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with cluster(brokers=2) as running:
        yield running


@pytest.fixture
def run(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; returns what it printed, which is an error for an exit code other than 0."""

    def run(*argv: str) -> str:
        code = cli.main(["quotas", *argv, "--admin", kafka.admin_url])
        printed = capsys.readouterr()
        assert bool(code) is bool(printed.err)
        return printed.err or printed.out

    return run


def test_quotas_are_set_listed_and_removed(run: Run, kafka: Kafka) -> None:
    assert run("list") == "there are no quotas\n"
    said = run("set", "--client", "billing", "producer_byte_rate=2e6", "request_percentage=12.5")
    assert said == "client billing: producer_byte_rate=2000000, request_percentage=12.5\n"
    run("set", "--user", "alice", "--default-client", "producer_byte_rate=1024")
    run("set", "--ip", "192.0.2.1", "connection_creation_rate=5")
    assert [broker.image.client_quotas for broker in kafka._cluster.brokers] == 2 * [
        {
            QuotaEntity(client_id="billing"): {"producer_byte_rate": 2e6, "request_percentage": 12.5},
            QuotaEntity("alice", DEFAULT_NAME): {"producer_byte_rate": 1024.0},
            QuotaEntity(ip="192.0.2.1"): {"connection_creation_rate": 5.0},
        }
    ]
    assert [line.split("  ")[0] for line in run("list").splitlines()][1:] == [
        "client billing",
        "client billing",
        "user alice, default client",
        "ip 192.0.2.1",
    ]
    said = run("remove", "--client", "billing", "producer_byte_rate", "request_percentage")
    assert said == "client billing: no producer_byte_rate, no request_percentage\n"
    assert len(kafka._cluster.brokers[1].image.client_quotas) == 2


def test_what_cannot_be_is_refused(run: Run) -> None:
    assert "for whom?" in run("set", "producer_byte_rate=1")
    assert "There is no quota 'rate'" in run("set", "--client", "a", "rate=1")
    assert "must be a number above 0" in run("set", "--client", "a", "producer_byte_rate=-1")
    assert "goes with no user" in run("set", "--client", "a", "--ip", "::1", "connection_creation_rate=1")
    for wrong in ("producer_byte_rate", "producer_byte_rate=fast"):
        with pytest.raises(SystemExit):
            run("set", "--client", "a", wrong)
