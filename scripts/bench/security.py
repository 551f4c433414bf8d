"""What security costs: requests over TLS against plain text of the same broker, and logins.

.venv/bin/python scripts/bench --only security
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
import re
import socket
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen

from processes import allow_open_files, brokers
from purgatorio.broker.layers.access.authorizer import Authorizer
from purgatorio.broker.metadata.acls import AclBinding, AclOperation, PatternType, PermissionType, ResourceType
from purgatorio.broker.metadata.clients import ScramMechanism, ScramUser
from purgatorio.broker.routing.request import Principal, Session
from purgatorio.broker.security.scram import SALT_BYTES, Scram, new_credential
from purgatorio.broker.security.throw_away import throw_away_certificates
from purgatorio.client.wire import Wire
from purgatorio.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlteredEntityPart,
    ClientQuotasOp,
)
from rows import Row, at_least, at_most
from wire import create_topic, produce_frame

ROUNDS = 7
DEPTH = 16
LARGE_BYTES = 16 * 1024
MEMORY_BYTES = 64 * 1024 * 1024
SETTLE_SECONDS = 3
IDLE_SECONDS = 20
VALUE_BYTES = 1_000
"""Muted for a quarter of an hour, since the quota is a byte a second."""
LISTENERS = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"


class ScramClient:
    """The client's part of SCRAM-SHA-256 (RFC 5802)."""

    def __init__(self, name: str, password: str) -> None:
        self._password = password
        self._bare = f"n={name},r=clientnonce"

    def first(self) -> bytes:
        """Return the first message."""
        return f"n,,{self._bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the last message, after the iterations."""
        fields = dict(field.split("=", 1) for field in server_first.decode().split(","))
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac("sha256", self._password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        unproven = f"c=biws,r={fields['r']}"
        signed = f"{self._bare},{server_first.decode()},{unproven}".encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()


def _mb_per_second(connection: socket.socket, request: bytes, answer_bytes: int, count: int) -> float:
    """Send requests `DEPTH` at a time, and wait for all their answers before the next."""
    burst = request * DEPTH
    started = time.perf_counter()
    for _ in range(count // DEPTH):
        connection.sendall(burst)
        missing = answer_bytes * DEPTH
        while missing:
            missing -= len(connection.recv(missing))
    return count * len(request) / (time.perf_counter() - started) / 1e6


def _full_handshakes_per_second(connect: Callable[[], ssl.SSLSocket], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        connect().close()
    return count / (time.perf_counter() - started)


def over_tls(quick: bool) -> list[Row]:
    """Produce requests of 16 KiB, 16 deep, one connection of each kind to the same broker, in turn."""
    count = 320 if quick else 4000
    with tempfile.TemporaryDirectory() as folder:
        files = throw_away_certificates(Path(folder), [])
        context = ssl.create_default_context(cafile=files.authority)
        settings = {"listeners": LISTENERS, "ssl.keystore.location": files.broker, "log_memory_bytes": MEMORY_BYTES}
        with brokers(1, **settings) as running:
            addresses = running.listeners[0]
            wire = Wire(create_topic(addresses["PLAINTEXT"], "large", 1))
            request = produce_frame("large", LARGE_BYTES, acks=1)
            answer_bytes = 4 + len(wire.exchange(request))

            def connect() -> ssl.SSLSocket:
                plain = socket.create_connection(addresses["SSL"])
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return context.wrap_socket(plain, server_hostname="127.0.0.1")

            ratios, rates = [], []
            with connect() as secret:
                _mb_per_second(wire.socket, request, answer_bytes, 320 if quick else 2 * MEMORY_BYTES // LARGE_BYTES)
                for _ in range(1 if quick else ROUNDS):
                    rates.append(_mb_per_second(secret, request, answer_bytes, count))
                    ratios.append(rates[-1] / _mb_per_second(wire.socket, request, answer_bytes, count))
            wire.close()
            handshakes = _full_handshakes_per_second(connect, 20 if quick else 300)
    name = "TLS: 16 KiB requests, 16 deep, MB/s against plain text"
    detail = f" ({statistics.median(rates):.0f} MB/s)"
    return [
        at_least(name, statistics.median(ratios), 0.5, "×", detail),
        Row("TLS: full handshakes of one client, one after the other", f"{handshakes:.0f}/s"),
    ]


def scram_logins(quick: bool) -> Row:
    """The broker's part of a login by SCRAM-SHA-256, against the 4,096 iterations that its client computes."""
    mechanism, salt = ScramMechanism.SCRAM_SHA_256, bytes(SALT_BYTES)
    users = {ScramUser("alice", mechanism): new_credential(mechanism, "secret", salt)}
    scram = Scram(mechanism, lambda: users, random.Random(1).randbytes, b"a secret of the cluster")
    logins, iterations = [], []
    for _ in range(20 if quick else 500):
        client = ScramClient("alice", "secret")
        started = time.perf_counter()
        exchange = scram.begin()
        challenge = exchange.step(client.first())
        answered = time.perf_counter()
        proof = client.final(challenge.token)
        iterated = time.perf_counter()
        assert exchange.step(proof).identity is not None
        logins.append(answered - started + time.perf_counter() - iterated)
        iterations.append(iterated - answered)
    ours, theirs = statistics.median(logins), statistics.median(iterations)
    detail = f" ({ours * 1e6:.0f} µs and {theirs * 1e6:.0f} µs)"
    return at_most("SCRAM: a login's cost for the broker, against its client's", ours / theirs, 3, "×", detail)


def acl_checks(quick: bool) -> Row:
    """Checks of 100 topics in turn by one client, with 1,000 ACLs of its own and others."""
    acls = {
        AclBinding(
            ResourceType.TOPIC, f"topic-{n % 250}", PatternType.LITERAL, f"User:{n % 7}", "*", operation, permission
        ): None
        for n, (operation, permission) in enumerate(
            [(AclOperation.READ, PermissionType.ALLOW), (AclOperation.WRITE, PermissionType.DENY)] * 500
        )
    }
    assert len(acls) == 1000
    authorizer = Authorizer(SimpleNamespace(image=SimpleNamespace(acls=acls)))
    session = Session(
        connection_id="1", listener="SSL", host="127.0.0.1", peer="127.0.0.1:1", principal=Principal("User", "3")
    )
    names = [f"topic-{n}" for n in range(100)]
    best = float("inf")
    for _ in range(3 if quick else 200):
        started = time.perf_counter()
        for name in names:
            authorizer.of(session).allows(AclOperation.READ, ResourceType.TOPIC, name)
        best = min(best, (time.perf_counter() - started) / len(names))
    return at_most("ACLs: a check with 1,000 rules", best * 1e6, 1, " µs")


def muted_connections(quick: bool) -> Row:
    """What many connections cost a broker that are all muted by a quota, each by that of its own client id.

    Clients of one id would wait for each other's bytes: the first were muted, the others would not be answered.
    """
    count = 200 if quick else 10_000
    allow_open_files(count + 100)
    with brokers(1, max_connections_per_ip=20_000) as running, ExitStack() as stack:
        wire = stack.enter_context(closing(Wire(create_topic(running.addresses[0], "small", 1))))
        default = AlteredEntityPart(entity_type="client-id", entity_name=None)
        quota = AlterClientQuotasEntry(entity=[default], ops=[ClientQuotasOp(key="producer_byte_rate", value=1.0)])
        answer = wire.ask(AlterClientQuotasRequest(entries=[quota]), 1)
        assert not answer.entries[0].error_code, answer
        for nth in range(count):
            try:
                connection = stack.enter_context(closing(Wire(running.addresses[0])))
                connection.exchange(produce_frame("small", VALUE_BYTES, acks=1, client_id=f"client-{nth}"))
            except OSError:  # no file is left for it, here or there
                break
        time.sleep(SETTLE_SECONDS)
        started, used = time.perf_counter(), running.cpu_seconds
        time.sleep(1 if quick else IDLE_SECONDS)
        share = (running.cpu_seconds - used) / (time.perf_counter() - started) * 100
        muted = _delayed(running.admin_url, "Throttled")  # those whose time was over by now do not count
    return at_most(f"quotas: CPU of a broker with {muted:,} muted connections", share, 2, " % of a core")


def _delayed(admin_url: str, purgatory: str) -> int:
    """Return how many operations wait in a purgatory."""
    with urlopen(f"{admin_url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    name = "kafka_server_delayedoperationpurgatory_numdelayedoperations"
    found = re.search(rf'^{name}\{{.*"{purgatory}".*\}} (\d+)', text, re.MULTILINE)
    assert found is not None
    return int(found[1])


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    return [*over_tls(quick), scram_logins(quick), acl_checks(quick), muted_connections(quick)]
