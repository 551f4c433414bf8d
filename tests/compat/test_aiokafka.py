"""aiokafka, with its default settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.compat.conftest import RunningCluster

Values = Callable[[int], list[bytes]]


async def produce(cluster: RunningCluster, topic: str, values: list[bytes], **config: object) -> list[int]:
    """Produce the values; their offsets."""
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **config) as producer:
        sent = [await producer.send(topic, value) for value in values]
        return [(await future).offset for future in sent]


@pytest.mark.parametrize("idempotent", [False, pytest.param(True, marks=pytest.mark.smoke)])
async def test_records_that_are_produced_are_consumed(
    cluster: RunningCluster, topic: str, values: Values, idempotent: bool
) -> None:
    assert await produce(cluster, topic, values(300), enable_idempotence=idempotent) == list(range(300))
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", group_id=None
    ) as consumer:
        found = [(await consumer.getone()).value for _ in range(300)]
    assert found == values(300)


async def test_a_long_poll_is_answered_by_the_append(cluster: RunningCluster, topic: str) -> None:
    await produce(cluster, topic, [b"first"])
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap, group_id=None, fetch_max_wait_ms=10_000
    ) as consumer:
        await consumer.seek_to_end()
        reading = asyncio.create_task(consumer.getone())
        produced = time.monotonic()
        await produce(cluster, topic, [b"late"])
        assert (await reading).value == b"late"
        assert time.monotonic() - produced < 5
        # aiokafka waits for the fetch under way before it stops: answer it.
        await produce(cluster, topic, [b"last"])


async def test_topics_are_created_listed_and_deleted(cluster: RunningCluster, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=3)])
        assert topic in await admin.list_topics()
        await admin.delete_topics([topic])
        assert topic not in await admin.list_topics()
    finally:
        await admin.close()


async def test_seeking_by_timestamp(cluster: RunningCluster, topic: str) -> None:
    start_ms = int(time.time() * 1000) - 10_000
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(10):
            await producer.send_and_wait(topic, b"x", timestamp_ms=start_ms + number * 100)
    partition = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(topic, bootstrap_servers=cluster.bootstrap, group_id=None) as consumer:
        found = await consumer.offsets_for_times({partition: start_ms + 450})
        assert found[partition].offset == 5
