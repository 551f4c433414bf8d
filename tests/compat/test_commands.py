"""`purgatorio topics`, `records`, `groups` and `configs` with Apache Kafka itself, whose jars Maven brings."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from purgatorio.admin.cli import main as cli
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS
from tests.compat.same_answers import talk
from tests.java import needs_java

from apache_kafka import apache_kafka  # isort: skip  # `talk` has put scripts/bench on the path

assert talk
pytestmark = [needs_java, pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + 120)]
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} user_alice="secret";',
}
Run = Callable[..., str]


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[str, str]]:
    """A broker of Apache Kafka: its addresses without and with a login."""
    try:
        with apache_kafka(1, SETTINGS) as running:
            plain, secured = running.addresses[0], running.listeners[0]["SASL_PLAINTEXT"]
            yield f"{plain[0]}:{plain[1]}", f"{secured[0]}:{secured[1]}"
    except SystemExit as error:  # Maven Central is not reached
        if "CI" in os.environ:
            raise AssertionError(str(error)) from error
        pytest.skip(str(error))


@pytest.fixture
def run(brokers: tuple[str, str], capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command; returns its output, or the error if it fails."""

    def running(line: str, given: bytes = b"", *, bootstrap: str = brokers[0]) -> str:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        code = cli.main([*line.split(), "--bootstrap", bootstrap])
        printed = capfdbinary.readouterr()
        return (printed.err if code else printed.out).decode()

    return running


def test_a_topic_from_its_creation_to_its_end(run: Run) -> None:
    assert run("topics create orders --partitions 2 --config retention.ms=5000") == "topic orders has 2 partitions\n"
    assert run("topics add-partitions orders 1") == "topic orders has 3 partitions, 1 of them new\n"
    assert run("topics alter orders cleanup.policy=compact --unset retention.ms").endswith(
        "retention.ms is as by default\n"
    )
    assert run("configs set topic orders retenton.ms=5").endswith("; did you mean retention.ms?\n")
    assert run("records produce orders -K : -H h=1 -z lz4", b"17:paid\n18:open\n") == ""
    shown = run(r"records consume orders -q -f %k=%s,%h\n")
    assert sorted(shown.split()) == ["17=paid,h=1", "18=open,h=1"]
    again = run("records consume orders --json -q").encode()
    assert run("records produce orders --json", again) == ""
    described = run("topics describe orders")
    assert "cleanup.policy=compact" in described
    assert sum(int(row) for row in re.findall(r"^orders-\d .* (\d+)$", described, re.MULTILINE)) == 4
    assert run("configs describe topic orders").splitlines()[1].split() == ["cleanup.policy", "compact", "topic"]
    assert run("topics delete oders").endswith("there is no topic oders; did you mean orders?\n")
    assert run("topics delete orders") == "topic orders is deleted\n"


def test_a_group_from_its_first_member_to_its_end(run: Run) -> None:
    assert run("topics create bills --partitions 1") == "topic bills has 1 partition\n"
    assert run("records produce bills one two") == ""
    assert run("records consume bills --group nightly -q") == "one\ntwo\n"
    assert run("records consume bills --group nightly -q") == ""
    assert run("groups list").splitlines()[1].split() == ["nightly", "Empty", "classic", "0", "0", "1"]
    assert run("groups describe nightly").splitlines()[-1].split() == ["bills-0", "2", "2", "0", "-"]
    reset = run("groups reset-offsets nightly --topic bills --to earliest")
    assert reset.splitlines()[1].split() == ["bills-0", "2", "0"]
    assert run("groups delete nightly") == "group nightly is deleted\n"
    assert run("groups describe nightly").startswith("purgatorio: GROUP_ID_NOT_FOUND: there is no group nightly")


def test_a_login_by_a_file_of_kafkas_settings(run: Run, brokers: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    settings = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
    file.write_text(f'{settings}{PLAIN} username="alice" password="secret";\n')
    listing = f"topics list --command-config {file}"
    assert run(listing, bootstrap=brokers[1]).startswith("PARTITION")
    file.write_text(f'{settings}{PLAIN} username="alice" password="wrong";\n')
    assert run(listing, bootstrap=brokers[1]).startswith("purgatorio: SASL_AUTHENTICATION_FAILED: ")
    assert "it wants a login" in run("topics list", bootstrap=brokers[1])
