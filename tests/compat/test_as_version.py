"""Clusters that answer as a release of Apache Kafka, with a real client; and the table of the releases."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from purgatorio.testing import Kafka, cluster
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS
from tests.java import needs_java

CLASSIC = ("heartbeat.interval.ms", "session.timeout.ms")
"""Settings that a consumer of the consumer protocol refuses: the broker has them."""
ROOT = Path(__file__).resolve().parents[2]


def consumed(kafka: Kafka, group: str, seconds: float = 15, **settings: str) -> bytes | None:
    """The first value that a consumer gets of topic orders, of what was committed."""
    config = kafka.client_config("confluent", "consumer") | {"group.id": group, "auto.offset.reset": "earliest"}
    if settings:
        config = {
            key: value for key, value in config.items() if key not in ("heartbeat.interval.ms", "session.timeout.ms")
        }
    consumer = Consumer(config | settings)
    try:
        consumer.subscribe(["orders"])
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            message = consumer.poll(0.5)
            if message is not None and not message.error():
                return message.value()
        return None
    finally:
        consumer.close()


@pytest.mark.parametrize("release", ["3.9", "4.0", "4.4"])
def test_transactions_and_groups_work_as_in_the_release(release: str) -> None:
    """The markers of transactions go from broker to broker."""
    with cluster(as_version=release, topics={"orders": 3}) as kafka:
        config = kafka.client_config("confluent", "producer") | {"transactional.id": "shop"}
        producer = Producer(config)
        producer.init_transactions(20)
        for partition in range(3):
            kafka.move_leader("orders", partition, to=partition + 1)
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("orders", b"paid", partition=partition)
        producer.commit_transaction(20)
        assert len(kafka.records("orders", isolation_level="read_committed")) == 3
        assert consumed(kafka, "classic") == b"paid"


def test_the_consumer_protocol_is_there_from_4_0_on() -> None:
    with cluster(as_version="4.0", topics={"orders": 1}) as kafka:
        kafka.produce("orders", "paid")
        assert consumed(kafka, "billing", **{"group.protocol": "consumer"}) == b"paid"
    with cluster(as_version="3.9", topics={"orders": 1}) as kafka:
        kafka.produce("orders", "paid")
        assert consumed(kafka, "billing", 2, **{"group.protocol": "consumer"}) is None
        assert kafka.group("billing") is None


@pytest.mark.parametrize(("release", "has_it"), [("3.9", True), ("4.0", False)])
def test_topic_configs_are_those_of_the_release(release: str, has_it: bool) -> None:
    """Kafka 4.0 has removed message.format.version, and another default of message.timestamp.after.max.ms."""
    with cluster(as_version=release, brokers=1) as kafka:
        admin = AdminClient(kafka.client_config("confluent", "admin"))
        config = {"message.format.version": "3.0"}
        created = admin.create_topics([NewTopic("orders", 1, 1, config=config)], operation_timeout=20)["orders"]
        assert (created.exception(20) is None) is has_it
        kafka.topic("others")
        asked = ConfigResource(ResourceType.TOPIC, "others")
        (described,) = admin.describe_configs([asked]).values()
        told = described.result(20)
        assert ("message.format.version" in told) is has_it
        assert told["message.timestamp.after.max.ms"].value == str(2**63 - 1 if has_it else 3_600_000)


@needs_java
@pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS)
def test_the_table_is_what_kafkas_jars_say() -> None:
    """After a new release: a line in `scripts/kafka_releases.py`, and `--write`."""
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "kafka_releases.py")], stdout=subprocess.PIPE, text=True, check=False
    )
    if made.returncode:
        pytest.skip("Maven cannot bring the jars")
    tables = (ROOT / "broker" / "metadata" / "kafka_releases.txt", ROOT / "broker" / "config" / "kafka_settings.txt")
    assert made.stdout == "".join(table.read_text() for table in tables)
