"""kafka-python, with its default settings (its producer is idempotent by default)."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from tests.compat.conftest import RunningCluster

Values = Callable[[int], list[bytes]]
TIMEOUT_SECONDS = 20


@pytest.mark.smoke
def test_records_that_are_produced_are_consumed(cluster: RunningCluster, topic: str, values: Values) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    sent = [producer.send(topic, value) for value in values(300)]
    assert [future.get(TIMEOUT_SECONDS).offset for future in sent] == list(range(300))
    producer.close()
    consumer = KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=5_000
    )
    found = []
    for message in consumer:
        found.append(message.value)
        if len(found) == 300:
            break
    consumer.close()
    assert found == values(300)


def test_topics_are_created_listed_and_deleted(cluster: RunningCluster, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=3)])
    assert topic in admin.list_topics()
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    admin.close()


def test_seeking_by_timestamp(cluster: RunningCluster, topic: str) -> None:
    start_ms = int(time.time() * 1000) - 10_000
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    for number in range(10):
        producer.send(topic, b"x", timestamp_ms=start_ms + number * 100)
    producer.flush(TIMEOUT_SECONDS)
    producer.close()
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap)
    consumer.assign([partition])
    assert consumer.offsets_for_times({partition: start_ms + 450})[partition].offset == 5
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 10}
    consumer.close()
