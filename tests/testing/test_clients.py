"""Settings for clients: each library takes them, and works with them."""

from __future__ import annotations

import threading
import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from purgatorio.testing import Kafka, cluster
from purgatorio.testing.clients import GIVE_UP_MS

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def kafka():  # type: ignore[no-untyped-def]
    with cluster() as running:
        running.topic("orders")
        yield running


async def test_aiokafka(kafka: Kafka) -> None:
    async with AIOKafkaProducer(**kafka.client_config("aiokafka", "producer")) as producer:
        await producer.send_and_wait("orders", b"aiokafka")
    settings = kafka.client_config("aiokafka", "consumer")
    async with AIOKafkaConsumer("orders", auto_offset_reset="earliest", **settings) as consumer:
        assert (await consumer.getone()).value is not None
    admin = AIOKafkaAdminClient(**kafka.client_config("aiokafka", "admin"))
    await admin.start()
    assert "orders" in await admin.list_topics()
    await admin.close()


@pytest.mark.clients
def test_confluent(kafka: Kafka, capfd: pytest.CaptureFixture[str]) -> None:
    producer = Producer(kafka.client_config("confluent", "producer"))
    producer.produce("orders", b"confluent")
    assert producer.flush(10) == 0
    settings = kafka.client_config("confluent", "consumer")
    consumer = Consumer(settings | {"group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(10)
    assert message is not None
    assert message.error() is None
    consumer.close()
    assert "orders" in AdminClient(kafka.client_config("confluent")).list_topics(timeout=10).topics
    assert "CONFWARN" not in capfd.readouterr().err  # librdkafka warns of settings of another role


@pytest.mark.clients
def test_kafka_python(kafka: Kafka) -> None:
    producer = KafkaProducer(**kafka.client_config("kafka-python", "producer"))
    producer.send("orders", b"kafka-python").get(10)
    producer.close()
    settings = kafka.client_config("kafka-python", "consumer")
    consumer = KafkaConsumer("orders", auto_offset_reset="earliest", **settings)
    assert next(consumer).value is not None
    consumer.close()


@pytest.mark.clients
def test_a_second_member_gets_its_partitions_soon(kafka: Kafka) -> None:
    """With a heartbeat every 3 s it would wait as long."""
    kafka.topic("shared", partitions=2)
    took_seconds = []
    for attempt in range(3):  # on a busy machine one of them may be slow
        settings = kafka.client_config("confluent", "consumer") | {"group.id": f"shared {attempt}"}
        members = [Consumer(settings), Consumer(settings)]
        began = time.monotonic()
        for member in members:
            member.subscribe(["shared"])
            while not member.assignment():
                for each in members:
                    each.poll(0.005)
        took_seconds.append(time.monotonic() - began)
        _close(members)
        if took_seconds[-1] < 2.5:
            return
    pytest.fail(f"it took {took_seconds} s")


def _close(members: list[Consumer]) -> None:
    """Close consumers at the same time, since each waits for the others' rebalance."""
    closing = [threading.Thread(target=member.close) for member in members]
    for each in closing:
        each.start()
    for each in closing:
        each.join()


@pytest.mark.parametrize(
    ("library", "role", "setting"),
    [
        ("confluent", "producer", "message.timeout.ms"),
        ("confluent", "consumer", "session.timeout.ms"),
        ("aiokafka", "producer", "request_timeout_ms"),
        ("kafka-python", "producer", "delivery_timeout_ms"),
        ("java", "producer", "delivery.timeout.ms"),
        ("java", "consumer", "session.timeout.ms"),
    ],
)
def test_a_client_whose_cluster_is_gone_gives_up_after_seconds(
    kafka: Kafka, library: str, role: str, setting: str
) -> None:
    assert int(kafka.client_config(library, role)[setting]) == GIVE_UP_MS <= 10_000
    assert setting not in kafka.client_config(library)


def test_settings_without_a_role_are_for_the_new_protocol_of_groups(kafka: Kafka) -> None:
    """confluent-kafka refuses the heartbeats and sessions of the role "consumer" there, since the brokers set them."""
    own = {"group.id": "billing", "group.protocol": "consumer", "auto.offset.reset": "earliest"}
    with pytest.raises(KafkaException, match="defined broker side"):
        Consumer(kafka.client_config("confluent", "consumer") | own)
    kafka.produce(kafka.topic("bills"), "paid")
    with Consumer(kafka.client_config("confluent") | own) as consumer:
        consumer.subscribe(["bills"])
        message = consumer.poll(10)
    assert message is not None
    assert message.value() == b"paid"


def test_faststream_gets_a_list_of_addresses_and_its_subscribers_a_short_heartbeat(kafka: Kafka) -> None:
    """`KafkaBroker(kafka.bootstrap)` takes the text with commas for one address."""
    settings = kafka.client_config("faststream")
    assert settings == {
        "bootstrap_servers": kafka.bootstrap_servers,
        "retry_backoff_ms": 10,
        "request_timeout_ms": GIVE_UP_MS,
    }
    assert kafka.client_config("faststream", "consumer") == {"heartbeat_interval_ms": 100}


def test_java_properties_are_text(kafka: Kafka) -> None:
    settings = kafka.client_config("java", "producer")
    assert settings["bootstrap.servers"] == kafka.bootstrap
    assert {type(value) for value in settings.values()} == {str}
    assert int(settings["delivery.timeout.ms"]) >= int(settings["request.timeout.ms"])


def test_an_old_kafka_python_gets_no_setting_that_it_refuses(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KafkaProducer, "DEFAULT_CONFIG", {})
    assert "delivery_timeout_ms" not in kafka.client_config("kafka-python", "producer")


@pytest.mark.parametrize(
    ("library", "role", "told"),
    [
        ("confluent-kafka", None, "'confluent-kafka' is not a client library; did you mean 'confluent'?"),
        (
            "kafkajs",
            None,
            "'kafkajs' is not a client library: there are confluent, aiokafka, kafka-python, faststream, java; "
            "to other clients give `kafka.bootstrap`",
        ),
        ("aiokafka", "consume", "'consume' is not a role; did you mean 'consumer'?"),
    ],
)
def test_an_unknown_name_is_told(kafka: Kafka, library: str, role: str | None, told: str) -> None:
    with pytest.raises(ValueError, match=told.replace("?", r"\?")):
        kafka.client_config(library, role)
