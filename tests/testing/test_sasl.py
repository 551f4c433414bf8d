"""Clusters of tests whose clients log in."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from kafka import KafkaProducer

from purgatorio.testing import Kafka, cluster


@pytest.fixture(scope="module")
def with_sasl() -> Iterator[Kafka]:
    with cluster(brokers=1, sasl="SCRAM-SHA-256") as running:
        yield running


def _principals(kafka: Kafka, client_id: str) -> set[str]:
    return {
        snapshot.principal
        for broker in kafka._cluster.brokers
        for listener in broker.listeners.values()
        for snapshot in listener.connections()
        if snapshot.client_id == client_id
    }


@pytest.mark.parametrize("user", [None, "alice", "bob"])
async def test_aiokafka_logs_in(with_sasl: Kafka, user: str | None) -> None:
    """As the user that the test names, or the first one."""
    client_id = f"as {user}"
    async with AIOKafkaProducer(**with_sasl.client_config("aiokafka", user=user), client_id=client_id) as producer:
        await producer.send_and_wait("orders", b"x")
        assert _principals(with_sasl, client_id) == {f"User:{user or 'alice'}"}


def test_confluent_logs_in(with_sasl: Kafka) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    failures = []
    producer = confluent.Producer(with_sasl.client_config("confluent", user="bob") | {"client.id": "c"})
    producer.produce("orders", b"x", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(10) == 0
    assert failures == [None]
    assert _principals(with_sasl, "c") == {"User:bob"}


def test_kafka_python_logs_in(with_sasl: Kafka) -> None:
    with KafkaProducer(**with_sasl.client_config("kafka-python", user="bob"), client_id="k") as producer:
        producer.send("orders", b"x").get(timeout=10)
        assert _principals(with_sasl, "k") == {"User:bob"}


async def test_a_wrong_password_lets_no_client_in(with_sasl: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    """The broker's log names the user of the attempt."""
    caplog.set_level(logging.CRITICAL, logger="aiokafka")
    caplog.set_level(logging.WARNING, logger="purgatorio")
    producer = AIOKafkaProducer(**with_sasl.client_config("aiokafka") | {"sasl_plain_password": "wrong"})
    try:
        with pytest.raises(KafkaConnectionError):
            await producer.start()
    finally:
        await producer.stop()
    assert "SCRAM-SHA-256: wrong password of user 'alice'" in caplog.text


@pytest.mark.kafka(brokers=1, sasl="PLAIN", tls=True, sasl_users="carol=c4rol")
async def test_the_marker_asks_for_sasl_over_tls(kafka: Kafka) -> None:
    settings = kafka.client_config("aiokafka")
    assert settings["security_protocol"] == "SASL_SSL"
    async with AIOKafkaProducer(**settings, client_id="a") as producer:
        await producer.send_and_wait("orders", b"x")
        assert _principals(kafka, "a") == {"User:carol"}


@pytest.mark.kafka(brokers=1, sasl="OAUTHBEARER")
async def test_with_tokens_a_client_is_whom_it_says(kafka: Kafka) -> None:
    """Also when the brokers' time has moved by days."""
    kafka.clock.advance(10 * 24 * 3600)
    async with AIOKafkaProducer(**kafka.client_config("aiokafka", user="zoë"), client_id="a") as producer:
        await producer.send_and_wait("orders", b"x")
        assert _principals(kafka, "a") == {"User:zoë"}
    await asyncio.to_thread(_others_send_tokens, kafka)


def _others_send_tokens(kafka: Kafka) -> None:
    with KafkaProducer(**kafka.client_config("kafka-python", user="carol"), client_id="k") as producer:
        producer.send("orders", b"x").get(timeout=10)
        assert _principals(kafka, "k") == {"User:carol"}
    confluent = pytest.importorskip("confluent_kafka")
    librdkafka = confluent.Producer(kafka.client_config("confluent", user="dave") | {"client.id": "c"})
    librdkafka.produce("orders", b"x")
    assert librdkafka.flush(10) == 0
    assert "User:dave" in _principals(kafka, "c")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sasl": "SCRAM-SHA256"}, "did you mean 'SCRAM-SHA-256'?"),
        ({"sasl": "GSSAPI"}, "'GSSAPI' is not a SASL mechanism"),
        ({"sasl": "PLAIN", "sasl_users": "alice"}, "must look like alice=alice-secret"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)), cluster(**options):  # type: ignore[arg-type]
        pass


def test_a_user_that_is_not_there(with_sasl: Kafka) -> None:
    with pytest.raises(ValueError, match="there is no user 'carol', only alice, bob"):
        with_sasl.client_config("confluent", user="carol")
