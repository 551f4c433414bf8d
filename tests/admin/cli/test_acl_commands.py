"""``purgatorio acls`` against a running cluster."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator

import pytest

from purgatorio.admin.cli import main as cli
from purgatorio.testing import Kafka, cluster

Run = Callable[..., str]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with cluster(brokers=2, authorizer_class_name="StandardAuthorizer") as running:
        yield running


@pytest.fixture
def run(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; returns what it printed, which is an error for an exit code other than 0."""

    def run(*argv: str, admin: str = kafka.admin_url) -> str:
        code = cli.main(["acls", *argv, "--admin", admin])
        printed = capsys.readouterr()
        assert bool(code) is bool(printed.err)
        return printed.err or printed.out

    return run


def test_acls_are_added_listed_and_removed(run: Run, kafka: Kafka) -> None:
    assert run("list") == "no ACL is listed\n"
    added = run("add", "allow", "User:alice", "read,WRITE", "topic", "orders-*")
    assert added == "added: allow User:alice READ topic orders-*\nadded: allow User:alice WRITE topic orders-*\n"
    run("add", "deny", "User:a b", "ALL", "cluster", "from", "10.0.0.1")
    assert all(len(broker.image.acls) == 3 for broker in kafka._cluster.brokers)
    assert [line.split() for line in run("list", "--principal", "User:alice").splitlines()] == [
        ["ACL", "PRINCIPAL", "OPERATION", "RESOURCE", "NAME"],
        ["allow", "User:alice", "READ", "topic", "orders-*"],
        ["allow", "User:alice", "WRITE", "topic", "orders-*"],
    ]
    assert run("list", "--resource", "cluster").splitlines()[1].split() == [
        *("deny", "User:a", "b", "ALL", "cluster"),
        *("from", "10.0.0.1"),
    ]
    assert "removed: allow User:alice READ" in run("remove", "allow", "User:alice", "READ", "topic", "orders-*")
    assert "there is no ACL" in run("remove", "allow", "User:alice", "READ,WRITE", "topic", "orders-*")
    assert "WRITE" in run("list", "--principal", "User:alice"), "all are removed, or none"


def test_slips_are_named(run: Run) -> None:
    assert "did you mean read?" in run("add", "allow", "User:alice", "REED", "topic", "a")
    assert "is no ACL like" in run("add", "allow")
    assert "have at most 1024 characters" in run("add", "allow", "User:alice", "READ", "topic", "x" * 2000)


def test_refusals_are_among_the_metrics(kafka: Kafka) -> None:
    from confluent_kafka.admin import AdminClient

    AdminClient(kafka.client_config("confluent")).list_topics("secret", timeout=10)
    with urllib.request.urlopen(f"{kafka.admin_url}/metrics", timeout=10) as response:
        text = response.read().decode()
    told = 'operation="DESCRIBE",request="Metadata",resource="TOPIC"'
    assert any(told in line for line in text.splitlines() if line.startswith("purgatorio_acl_denied_total")), text


def test_without_an_authorizer_there_are_no_acls(run: Run) -> None:
    with cluster(brokers=1) as plain:
        assert "no authorizer" in run("list", admin=plain.admin_url)
        assert "no authorizer" in run("add", "allow", "User:a", "READ", "topic", "a", admin=plain.admin_url)
