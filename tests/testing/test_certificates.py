"""Clusters with TLS: what each client library needs, and who a client is by its certificate."""

from __future__ import annotations

import ssl
import uuid
from collections.abc import Iterator

import pytest

from purgatorio.testing import cluster
from purgatorio.testing.kafka import Kafka


def principals(kafka: Kafka, client_id: str) -> set[str]:
    """The principals of the clients of this id, as the brokers have them."""
    return {
        each.principal
        for broker in kafka._cluster.brokers
        for listener in broker.listeners.values()
        for each in listener.connections()
        if each.client_id == client_id
    }


@pytest.fixture(scope="module")
def with_tls() -> Iterator[Kafka]:
    with cluster(brokers=1, tls=True) as kafka:
        yield kafka


@pytest.mark.clients
@pytest.mark.parametrize(("user", "principal"), [(None, "User:ANONYMOUS"), ("alice", "User:alice")])
async def test_aiokafka_trusts_the_brokers_and_is_known_by_its_certificate(
    with_tls: Kafka, user: str | None, principal: str
) -> None:
    from aiokafka import AIOKafkaProducer

    client_id = str(uuid.uuid4())
    async with AIOKafkaProducer(**with_tls.client_config("aiokafka", user=user), client_id=client_id) as producer:
        await producer.send_and_wait("orders", b"1")
        assert principals(with_tls, client_id) == {principal}


@pytest.mark.clients
def test_confluent_trusts_the_brokers_and_is_known_by_its_certificate(with_tls: Kafka) -> None:
    from confluent_kafka import Producer

    producer = Producer(with_tls.client_config("confluent", user="bob") | {"client.id": "c"})
    producer.produce("orders", b"1")
    assert producer.flush(30) == 0
    assert principals(with_tls, "c") == {"User:bob"}


@pytest.mark.clients
def test_kafka_python_trusts_the_brokers_and_is_known_by_its_certificate(with_tls: Kafka) -> None:
    from kafka import KafkaProducer

    with KafkaProducer(**with_tls.client_config("kafka-python", user="carol"), client_id="k") as producer:
        producer.send("orders", b"1").get(30)
        assert principals(with_tls, "k") == {"User:carol"}


def test_a_client_without_the_authority_trusts_no_broker(with_tls: Kafka) -> None:
    import socket

    host, _, port = with_tls.bootstrap.partition(":")
    with socket.create_connection((host, int(port))) as plain, pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(plain, server_hostname=host)


def test_users_are_refused_with_a_sentence_where_nobody_is_told_apart(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="ask for one with tls=True"):
        kafka.client_config("aiokafka", user="alice")


@pytest.mark.parametrize("name", ["", "../up", "a,b", "ca", "x" * 65])
def test_a_name_that_no_certificate_has_here_is_refused(with_tls: Kafka, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be in a certificate here"):
        with_tls.client_config("aiokafka", user=name)


@pytest.mark.kafka(tls=True, brokers=1)
def test_the_marker_asks_for_tls(kafka: Kafka) -> None:
    assert kafka.client_config("confluent")["security.protocol"] == "SSL"
