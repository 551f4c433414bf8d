"""Clients with a group id that assign partitions themselves: they commit, and another one resumes there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import kafka.admin
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.conftest import RunningCluster, close_kafka_python

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
    close_kafka_python(consumer)
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


def test_confluent_kafka_administers_offsets(cluster: RunningCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 3)])[topic].result(PATIENCE_SECONDS)
    group_id = f"group-of-{topic}"
    partitions = [confluent_kafka.TopicPartition(topic, index, 5 + index) for index in range(2)]
    altered = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id, partitions)])[group_id]
    assert [each.error for each in altered.result(PATIENCE_SECONDS).topic_partitions] == [None, None]
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)])[group_id]
    found = {(each.partition, each.offset) for each in listed.result(PATIENCE_SECONDS).topic_partitions}
    assert found == {(0, 5), (1, 6)}
    admin.delete_consumer_groups([group_id])[group_id].result(PATIENCE_SECONDS)
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        admin.delete_consumer_groups([group_id])[group_id].result(PATIENCE_SECONDS)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.GROUP_ID_NOT_FOUND


def test_kafka_python_administers_offsets(cluster: RunningCluster, topic: str) -> None:
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics([kafka.admin.NewTopic(topic, num_partitions=2, replication_factor=3)])
    group_id = f"group-of-{topic}"
    first, second = (kafka.TopicPartition(topic, index) for index in range(2))
    offsets = {
        first: kafka.structs.OffsetAndMetadata(5, "note", -1),
        second: kafka.structs.OffsetAndMetadata(6, "", -1),
    }
    assert set(admin.alter_group_offsets(group_id, offsets).values()) == {kafka.errors.NoError}
    assert admin.list_group_offsets(group_id)[group_id] == offsets
    assert set(admin.delete_group_offsets(group_id, [first]).values()) == {kafka.errors.NoError}
    assert list(admin.list_group_offsets(group_id)[group_id]) == [second]
    assert admin.delete_groups([group_id]) == {group_id: "OK"}
    assert admin.list_group_offsets(group_id)[group_id] == {}
    close_kafka_python(admin)


def test_the_offsets_of_a_deleted_topic_are_gone_from_a_new_one(cluster: RunningCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    group_id = f"group-of-{topic}"
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group_id})
    partition = confluent_kafka.TopicPartition(topic, 0, 5)
    for _ in range(2):
        admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(PATIENCE_SECONDS)
        (committed,) = consumer.committed([partition], PATIENCE_SECONDS)
        assert committed.offset == confluent_kafka.OFFSET_INVALID
        consumer.commit(offsets=[partition], asynchronous=False)
        (committed,) = consumer.committed([partition], PATIENCE_SECONDS)
        assert committed.offset == 5
        admin.delete_topics([topic])[topic].result(PATIENCE_SECONDS)
    consumer.close()


def test_clients_cannot_produce_to_the_topic_of_groups(cluster: RunningCluster) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "any"})
    consumer.committed([confluent_kafka.TopicPartition("any", 0)], PATIENCE_SECONDS)  # creates the topic
    refused: list[int] = []
    producer.produce("__consumer_offsets", b"x", on_delivery=lambda error, _: refused.append(error.code()))
    producer.flush(PATIENCE_SECONDS)
    assert refused == [confluent_kafka.KafkaError.TOPIC_EXCEPTION]
    consumer.close()
