"""confluent-kafka (librdkafka), with its default settings."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
)

from tests.compat.conftest import RunningCluster

TIMEOUT_SECONDS = 20
Values = Callable[[int], list[bytes]]


def produce(cluster: RunningCluster, topic: str, values: list[bytes], **config: object) -> list[tuple[int, int]]:
    """Produce the values; partition and offset of each, in the order of acknowledgement."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **config})
    placed: list[tuple[int, int]] = []

    def delivered(error: KafkaError | None, message: object) -> None:
        assert error is None, error
        placed.append((message.partition(), message.offset()))  # type: ignore[attr-defined]

    for value in values:
        producer.produce(topic, value, on_delivery=delivered)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    return placed


def consumer_of(cluster: RunningCluster, **config: object) -> Consumer:
    return Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "enable.auto.commit": False, **config})


def consume(cluster: RunningCluster, topic: str, count: int, offset: int = 0, **config: object) -> list[bytes]:
    """Read this many values of partition 0 from an offset on."""
    consumer = consumer_of(cluster, **config)
    consumer.assign([TopicPartition(topic, 0, offset)])
    found: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), timeout=0.5):
            assert message.error() is None, message.error()
            found.append(message.value())
    consumer.close()
    return found


@pytest.mark.parametrize(
    "compression", ["none", "gzip", "snappy", "lz4", pytest.param("zstd", marks=pytest.mark.smoke)]
)
def test_records_that_are_produced_are_consumed(
    cluster: RunningCluster, topic: str, values: Values, compression: str
) -> None:
    sent = values(500)
    placed = produce(cluster, topic, sent, **{"compression.type": compression})
    assert placed == [(0, offset) for offset in range(500)]
    assert consume(cluster, topic, 500) == sent


def test_an_idempotent_producer(cluster: RunningCluster, topic: str, values: Values) -> None:
    sent = values(200)
    produce(cluster, topic, sent, **{"enable.idempotence": True, "linger.ms": 0})
    assert consume(cluster, topic, 200) == sent


def test_a_long_poll_is_answered_by_the_append(cluster: RunningCluster, topic: str, values: Values) -> None:
    produce(cluster, topic, values(1))
    consumer = consumer_of(cluster, **{"fetch.wait.max.ms": 10_000})
    consumer.assign([TopicPartition(topic, 0, 1)])
    assert consumer.poll(0.5) is None
    produced = time.monotonic()
    produce(cluster, topic, [b"late"])
    message = consumer.poll(TIMEOUT_SECONDS)
    assert message is not None
    assert message.value() == b"late"
    assert time.monotonic() - produced < 5, "not the end of the poll's ten seconds"
    consumer.close()


def test_topics_are_created_listed_extended_and_deleted(cluster: RunningCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=3, replication_factor=3)])[topic].result(TIMEOUT_SECONDS)
    described = admin.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
    assert len(described.partitions) == 3
    assert sorted({partition.leader for partition in described.partitions.values()}) == [1, 2, 3]
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(TIMEOUT_SECONDS)
    assert len(admin.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic].partitions) == 5
    admin.delete_topics([topic])[topic].result(TIMEOUT_SECONDS)
    assert topic not in admin.list_topics(timeout=TIMEOUT_SECONDS).topics


def test_configs_are_described_with_their_sources(cluster: RunningCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    config = {"retention.ms": "12345"}
    admin.create_topics([NewTopic(topic, 1, config=config)])[topic].result(TIMEOUT_SECONDS)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)
    assert (found["retention.ms"].value, found["retention.ms"].is_default) == ("12345", False)
    assert found["cleanup.policy"].value == "delete"


def test_a_brokers_largest_message_is_changed_while_it_runs(cluster: RunningCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(TIMEOUT_SECONDS)

    def largest_message(operation: AlterConfigOpType) -> None:
        for broker_id in ("1", "2", "3"):
            change = ConfigEntry("message.max.bytes", "1000", incremental_operation=operation)
            resource = ConfigResource(ConfigResource.Type.BROKER, broker_id, incremental_configs=[change])
            admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_SECONDS)

    largest_message(AlterConfigOpType.SET)
    try:
        resource = ConfigResource(ConfigResource.Type.BROKER, "1")
        found = admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)["message.max.bytes"]
        assert (found.value, found.source) == ("1000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
        errors: list[KafkaError] = []
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        producer.produce(topic, b"x" * 2000, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(TIMEOUT_SECONDS) == 0
        assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
    finally:
        largest_message(AlterConfigOpType.DELETE)
    assert produce(cluster, topic, [b"x" * 2000]) == [(0, 0)]


def test_seeking_by_timestamp(cluster: RunningCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 50})
    start_ms = int(time.time() * 1000) - 10_000
    for number in range(10):
        producer.produce(topic, b"x", timestamp=start_ms + number * 100)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    consumer = consumer_of(cluster)
    (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, start_ms + 450)], timeout=TIMEOUT_SECONDS)
    assert found.offset == 5
    (none,) = consumer.offsets_for_times([TopicPartition(topic, 0, start_ms + 60_000)], timeout=TIMEOUT_SECONDS)
    assert none.offset == -1, "no record is that late"
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_SECONDS) == (0, 10)
    consumer.close()


def test_a_record_that_is_too_large_is_refused(cluster: RunningCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1, config={"max.message.bytes": "1000"})])[topic].result(TIMEOUT_SECONDS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    errors: list[KafkaError] = []
    producer.produce(topic, b"x" * 2000, on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_SECONDS)
    assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
