"""Real clients log in over TLS, by each mechanism, and again when their sessions end."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from purgatorio.testing import Kafka, certificates, cluster
from purgatorio.testing.client_security import token_settings, unsecured_token
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS, Programs

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
REAUTHENTICATION_MS = 4_000
REAUTHENTICATING_SECONDS = 10
PATIENCE_SECONDS = 30


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """A cluster that knows alice by each mechanism."""
    enabled = ",".join(MECHANISMS)
    with cluster(
        brokers=2, sasl="PLAIN", tls=True, sasl_enabled_mechanisms=enabled, sasl_oauthbearer_unsecured=True
    ) as running:
        yield running


def _principals(kafka: Kafka, client_id: str) -> set[str]:
    return {
        snapshot.principal
        for broker in kafka._cluster.brokers
        for listener in broker.listeners.values()
        for snapshot in listener.connections()
        if snapshot.client_id == client_id
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka(kafka: Kafka, mechanism: str) -> None:
    settings = kafka.client_config("aiokafka") | {"sasl_mechanism": mechanism, "client_id": f"aiokafka {mechanism}"}
    if mechanism == "OAUTHBEARER":
        settings |= token_settings("aiokafka", "alice")
    async with AIOKafkaProducer(**settings) as producer:
        await producer.send_and_wait("orders", b"x")
        assert _principals(kafka, settings["client_id"]) == {"User:alice"}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka(kafka: Kafka, mechanism: str) -> None:
    settings = kafka.client_config("confluent") | {"sasl.mechanism": mechanism, "client.id": f"confluent {mechanism}"}
    if mechanism == "OAUTHBEARER":
        settings |= token_settings("confluent", "alice")
    failures: list[Any] = []
    producer = Producer(settings)
    producer.produce("orders", b"x", on_delivery=lambda error, _: failures.append(error))
    producer.flush(PATIENCE_SECONDS)
    assert failures == [None]
    assert "User:alice" in _principals(kafka, settings["client.id"])  # it may be about to log in at the other broker


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(kafka: Kafka, mechanism: str) -> None:
    settings = kafka.client_config("kafka-python") | {"sasl_mechanism": mechanism, "client_id": f"python {mechanism}"}
    if mechanism == "OAUTHBEARER":
        settings |= token_settings("kafka-python", "alice")
    with KafkaProducer(**settings) as producer:
        producer.send("orders", b"x").get(PATIENCE_SECONDS)
        assert _principals(kafka, settings["client_id"]) == {"User:alice"}


# --- in other languages, and over more than one session ---


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    sources = Path(__file__).parent / "logins"
    return Programs(sources, "login", tmp_path_factory.mktemp("logins"), pom=sources / "pom.xml")


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Kafka]:
    """A cluster whose sessions last four seconds."""
    with cluster(
        brokers=1,
        sasl="PLAIN",
        tls=True,
        sasl_enabled_mechanisms=",".join(MECHANISMS),
        sasl_oauthbearer_unsecured=True,
        connections_max_reauth_ms=REAUTHENTICATION_MS,
    ) as running:
        yield running


def _run(login: list[str], kafka: Kafka, mechanism: str, password: str, seconds: int) -> str:
    arguments = [kafka.bootstrap, mechanism, "alice", password, str(certificates.authority().certificate), str(seconds)]
    ran = subprocess.run([*login, *arguments], capture_output=True, text=True, timeout=60, check=False)
    return ran.stdout.strip() or ran.stderr


@pytest.mark.heavy
@pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + 120)
@pytest.mark.parametrize("client", ["java", "franz-go", "kafkajs"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_in_other_languages(logins: Programs, forgetful: Kafka, client: str, mechanism: str) -> None:
    """They log in again while they produce, and lose nothing."""
    password = unsecured_token("alice") if mechanism == "OAUTHBEARER" else "alice-secret"
    said = _run(logins[client], forgetful, mechanism, password, REAUTHENTICATING_SECONDS)
    assert said.startswith("sent "), said
    assert int(said.split()[1]) > REAUTHENTICATING_SECONDS


@pytest.mark.heavy
@pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + 120)
@pytest.mark.parametrize("client", ["java", "franz-go", "kafkajs"])
@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_a_wrong_password_is_told_soon(logins: Programs, forgetful: Kafka, client: str, mechanism: str) -> None:
    """Within ten seconds, as the reason."""
    login = logins[client]
    began = time.monotonic()
    said = _run(login, forgetful, mechanism, "wrong", 0)
    assert said.startswith("refused "), said
    assert "credentials are not valid" in said
    assert time.monotonic() - began < 10


@pytest.mark.heavy
@pytest.mark.parametrize("library", ["aiokafka", "confluent", "kafka-python"])
async def test_clients_in_python_over_several_sessions(forgetful: Kafka, library: str) -> None:
    """confluent-kafka and kafka-python log in again; aiokafka is cut off, and connects anew."""
    settings = forgetful.client_config(library)
    end = time.monotonic() + REAUTHENTICATING_SECONDS
    if library == "aiokafka":
        async with AIOKafkaProducer(**settings) as producer:
            while time.monotonic() < end:
                await producer.send_and_wait("orders", b"x")
                await asyncio.sleep(0.1)
        return
    await asyncio.to_thread(_produces_until, library, settings, end)


def _produces_until(library: str, settings: dict[str, Any], end: float) -> None:
    if library == "kafka-python":
        with KafkaProducer(**settings) as producer:
            while time.monotonic() < end:
                producer.send("orders", b"x").get(PATIENCE_SECONDS)
                time.sleep(0.1)
        return
    failures: list[Any] = []
    errors: list[Any] = []
    confluent = Producer(settings | {"error_cb": errors.append})
    while time.monotonic() < end:
        confluent.produce("orders", b"x", on_delivery=lambda error, _: failures.append(error))
        confluent.poll(0.1)
    assert confluent.flush(PATIENCE_SECONDS) == 0
    assert set(failures) == {None}
    assert errors == []
