"""``purgatorio users`` against a running cluster."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaProducer

from purgatorio.admin.cli import main as cli
from purgatorio.broker.metadata.clients import ScramMechanism, ScramUser
from purgatorio.broker.security.scram import credential_of, salted
from purgatorio.testing import Kafka, cluster

Run = Callable[..., str]
SHA_256, SHA_512 = ScramMechanism


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with cluster(brokers=2) as running:
        yield running


@pytest.fixture
def run(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; returns what it printed, which is an error for an exit code other than 0."""

    def run(*argv: str) -> str:
        code = cli.main(["users", *argv, "--admin", kafka.admin_url])
        printed = capsys.readouterr()
        assert bool(code) is bool(printed.err)
        return printed.err or printed.out

    return run


def _knows(kafka: Kafka, name: str, mechanism: ScramMechanism, password: str) -> bool:
    """Whether all brokers keep what this password leads to."""
    images = [broker.image for broker in kafka._cluster.brokers]
    kept = [image.scram_credentials[ScramUser(name, mechanism)] for image in images]
    return all(
        each
        == credential_of(mechanism, each.salt, salted(mechanism, password, each.salt, each.iterations), each.iterations)
        for each in kept
    )


def test_users_are_added_listed_and_deleted(run: Run, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The password is an argument, or comes through a pipe."""
    assert run("list") == "no user has SCRAM credentials\n"
    added = run("add", "alice", "--mechanism", "SCRAM-SHA-256", "--password", "alice-secret")
    assert added == "user alice can log in by SCRAM-SHA-256\n"
    assert _knows(kafka, "alice", SHA_256, "alice-secret")
    monkeypatch.setattr("sys.stdin", io.StringIO("pässwörd\n"))
    run("add", "a,=b\n", "--mechanism", "SCRAM-SHA-512", "--iterations", "8192")
    assert _knows(kafka, "a,=b\n", SHA_512, "pässwörd")
    lines = [line.split() for line in run("list").splitlines()]
    assert lines == [
        ["USER", "MECHANISM", "ITERATIONS"],
        ["a,=b?", "SCRAM-SHA-512", "8192"],
        ["alice", "SCRAM-SHA-256", "4096"],
    ]
    assert "can no longer log in" in run("delete", "alice", "--mechanism", "SCRAM-SHA-256")
    assert "user 'alice' has no such credential" in run("delete", "alice", "--mechanism", "SCRAM-SHA-256")


def test_no_empty_password(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No client could log in with it."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "the password is empty" in run("add", "bob", "--mechanism", "SCRAM-SHA-256")


@pytest.mark.parametrize("argument", ["--iterations=1000", "--iterations=20000", "--mechanism=PLAIN"])
def test_what_cannot_be_is_refused(run: Run, argument: str) -> None:
    """By the command itself."""
    with pytest.raises(SystemExit):
        run("add", "bob", "--mechanism", "SCRAM-SHA-256", argument)


def test_connections_are_listed_with_their_principals(capsys: pytest.CaptureFixture[str]) -> None:
    """Of clients that have logged in, and of brokers."""
    with cluster(brokers=2, sasl="SCRAM-SHA-256") as kafka:
        with KafkaProducer(**kafka.client_config("kafka-python", user="bob"), client_id="till") as producer:
            producer.send("orders", b"x").get(30)
            assert cli.main(["broker", "connections", "--admin", kafka.admin_url]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0][:5] == ["BROKER", "LISTENER", "ADDRESS", "PRINCIPAL", "CLIENT"]
    found = {(line[1], line[3], line[4]) for line in lines[1:]}
    assert ("SASL_PLAINTEXT", "User:bob", "till") in found
    assert ("BROKERS", "Broker:2", "broker-2-fetcher") in found
