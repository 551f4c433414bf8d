"""Brokers of several hosts that know each other by TLS certificates: ``security.inter.broker.protocol=SSL``."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.certificates import LAST_YEAR, BrokerAuthority
from tests.compat.hosts import DEADLINE_SECONDS, QUIET, Hosts, running, until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("etcd") is None, reason="there is no etcd on this machine"),
]
LISTENER = "listener.name.brokers.ssl"


def known_by(keystore: Path, authority: BrokerAuthority, protocol: str = "SSL") -> list[str]:
    """Return what a broker with this keystore is started with."""
    words = [f"security.inter.broker.protocol={protocol}", f"{LISTENER}.keystore.location={keystore}"]
    words.append(f"{LISTENER}.truststore.location={authority.certificate}")
    words.append("broker.session.timeout.ms=20000")  # a fenced broker does not count as living
    return [flag for word in words for flag in ("--set", word)]


@pytest.fixture
def authority(tmp_path: Path) -> BrokerAuthority:
    return BrokerAuthority(tmp_path / "brokers")


@pytest.fixture
def hosts(tmp_path: Path, authority: BrokerAuthority) -> Iterator[Hosts]:
    def flags(broker_id: int) -> list[str]:
        return known_by(authority.issue(f"{broker_id}"), authority)

    with running(tmp_path, flags) as hosts:
        yield hosts


def delivered(hosts: Hosts, topic: str) -> bool:
    """Return whether a record is acknowledged by all replicas."""
    producer = Producer({"bootstrap.servers": hosts.bootstrap, "acks": "all", **QUIET})
    producer.produce(topic, b"paid")
    return producer.flush(DEADLINE_SECONDS) == 0


def test_brokers_replicate_by_certificates_alone_and_a_broker_without_the_right_one_says_what_to_set(
    hosts: Hosts, authority: BrokerAuthority, tmp_path: Path
) -> None:
    hosts.create("orders")
    assert delivered(hosts, "orders")
    other = BrokerAuthority(tmp_path / "others")
    expired = authority.issue("expired", not_after=LAST_YEAR)
    (tmp_path / "secret").write_text("0123456789abcdef0123456789abcdef")
    by_secret = ["security.inter.broker.protocol=SASL_PLAINTEXT", f"cluster.secret.file={tmp_path / 'secret'}"]
    for flags, code, why in (
        (known_by(other.issue("4"), other), 1, "broker 4 cannot join the cluster: broker 1 at 127.0.0.1:"),
        (known_by(expired, authority), 2, f"{LISTENER}.keystore.location {expired} would be refused by the other"),
        (known_by(tmp_path / "none.pem", authority), 2, "ssl.keystore.location"),
        (
            [flag for each in by_secret for flag in ("--set", each)],
            1,
            "the brokers of the cluster under purgatorio/ know",
        ),
    ):
        found, line = hosts.refused(4, *flags)
        assert (found, line[: len("purgatorio: ") + len(why)]) == (code, f"purgatorio: {why}")


def test_whoever_connects_as_a_broker_meets_tls_that_asks_for_a_certificate(hosts: Hosts, tmp_path: Path) -> None:
    """The connection ends without an answer, and the broker's log has what was missing."""
    (port,) = listening_ports(hosts.brokers[1].pid) - told_ports(hosts, 1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS) as plain,
        context.wrap_socket(plain) as wrapped,
        contextlib.suppress(OSError),
    ):
        assert wrapped.recv(1) == b""
    until(lambda: "the client shows no certificate" in (tmp_path / "1.log").read_text())


def listening_ports(pid: int) -> set[int]:
    """Return the TCP ports on which a process listens."""
    own = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()}
    lines = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in own}


def told_ports(hosts: Hosts, broker_id: int) -> set[int]:
    """Return the ports that a broker's greeting has: that of clients, and of its pages."""
    return {int(port) for port in re.findall(r":(\d+)", hosts.said[broker_id])}
