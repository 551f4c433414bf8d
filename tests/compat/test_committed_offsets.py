"""Clients with a group id that assign partitions themselves: they commit, and another one resumes there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import pytest

from tests.compat.conftest import RunningCluster

Values = Callable[[int], list[bytes]]
Resume = Callable[[RunningCluster, str, int, str], list[bytes]]
PATIENCE_SECONDS = 20


def with_confluent_kafka(cluster: RunningCluster, topic: str, count: int, group_id: str) -> list[bytes]:
    """Read on from the committed offset, or from the start, and commit."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group_id,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message.value())
            consumer.commit(message, asynchronous=False)
    consumer.close()
    return found


def with_kafka_python(cluster: RunningCluster, topic: str, count: int, group_id: str) -> list[bytes]:
    """Read on from the committed offset, or from the start, and commit."""
    partition = kafka.TopicPartition(topic, 0)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        group_id=group_id,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_SECONDS * 1000,
    )
    consumer.assign([partition])
    found: list[bytes] = []
    for message in consumer:
        found.append(message.value)
        consumer.commit({partition: kafka.structs.OffsetAndMetadata(message.offset + 1, "", -1)})
        if len(found) == count:
            break
    consumer.close()
    return found


def with_aiokafka(cluster: RunningCluster, topic: str, count: int, group_id: str) -> list[bytes]:
    """Read on from the committed offset, or from the start, and commit."""

    async def resume() -> list[bytes]:
        partition = aiokafka.TopicPartition(topic, 0)
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap,
            group_id=group_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        consumer.assign([partition])
        async with consumer:
            found = []
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(found) < count:
                    message = await consumer.getone()
                    found.append(message.value)
                    await consumer.commit({partition: message.offset + 1})
            assert await consumer.committed(partition) == message.offset + 1
            return found

    return asyncio.run(resume())


CLIENTS = [with_confluent_kafka, with_kafka_python, with_aiokafka]


@pytest.mark.parametrize("second", CLIENTS)
@pytest.mark.parametrize("first", CLIENTS)
def test_a_client_resumes_where_another_one_has_committed(
    cluster: RunningCluster, topic: str, values: Values, first: Resume, second: Resume
) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    for value in values(5):
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert first(cluster, topic, 3, f"group-of-{topic}") == values(5)[:3]
    assert second(cluster, topic, 2, f"group-of-{topic}") == values(5)[3:]
