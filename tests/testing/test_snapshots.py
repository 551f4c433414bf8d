"""Snapshots of a cluster, as real clients see them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from purgatorio.admin.cli import main as cli
from purgatorio.testing import Kafka, cluster

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def quiet_client(caplog: pytest.LogCaptureFixture) -> None:
    """The client logs an error for each connection that it loses."""
    caplog.set_level(logging.CRITICAL, logger="aiokafka")


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with cluster(topics={"orders": 2}) as running:
        yield running


def values(kafka: Kafka) -> list[bytes | None]:
    return [each.value for each in kafka.records("orders")]


def test_records_and_topics_come_back_and_what_came_later_is_gone(kafka: Kafka) -> None:
    kafka.topic("paid", partitions=3, cleanup_policy="compact")
    kafka.produce("orders", "a", "b", key="k")
    kafka.produce("orders", "c", partition=1)
    before = kafka.records("orders")
    snapshot = kafka.snapshot()
    assert str(snapshot) == "a snapshot of orders, paid"
    kafka.produce("orders", "later")
    kafka.topic("later")
    for _ in range(2):
        kafka.restore(snapshot)
        assert kafka.records("orders") == before
        assert kafka.produce("orders", "next") == 2
        with pytest.raises(ValueError, match="no topic 'later'"):
            kafka.records("later")
    assert kafka.produce("paid", "x", key="k", partition=2) == 0
    kafka.until_in_sync("orders").wait()


def test_a_log_that_begins_late_comes_back_as_it_was() -> None:
    with cluster(topics={"orders": 1}, log_retention_ms=1_000, log_roll_ms=100) as kafka:
        kafka.produce("orders", "old", timestamp_ms=1)
        kafka.apply_retention()
        snapshot = kafka.snapshot()
        kafka.restore(snapshot)
        assert kafka.produce("orders", "new") == 1
        assert [(each.offset, each.value) for each in kafka.records("orders")] == [(1, b"new")]


async def test_committed_offsets_come_back(kafka: Kafka) -> None:
    kafka.produce("orders", "a", "b")
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap,
        group_id="billing",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    async with consumer:
        await consumer.getone()
        await consumer.commit({ORDERS: 1})
    snapshot = kafka.snapshot()
    kafka.reset()
    kafka.restore(snapshot)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    try:
        offsets = await admin.list_consumer_group_offsets("billing")
    finally:
        await admin.close()
    assert offsets[ORDERS].offset == 1


async def test_a_member_that_was_in_its_group_is_in_it_again(kafka: Kafka) -> None:
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap,
        group_id="billing",
        enable_auto_commit=False,
        heartbeat_interval_ms=50,
        retry_backoff_ms=10,
        auto_offset_reset="earliest",
    )
    async with consumer:
        before = await kafka.until(group="billing", state="Stable", members=1)
        kafka.restore(kafka.snapshot())
        after = await kafka.until(group="billing", state="Stable", members=1)
        assert (after.members, after.epoch) == (before.members, before.epoch)
        kafka.produce("orders", "a")
        assert (await consumer.getone()).value == b"a"


async def test_an_idempotent_producer_goes_on_with_its_sequence(kafka: Kafka) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, enable_idempotence=True, retry_backoff_ms=10
    ) as producer:
        await producer.send_and_wait("orders", b"a", partition=0)
        kafka.restore(kafka.snapshot())
        await producer.send_and_wait("orders", b"b", partition=0)
    assert values(kafka) == [b"a", b"b"]


async def test_an_open_transaction_can_be_committed_after_the_restore(kafka: Kafka) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, transactional_id="copier", retry_backoff_ms=10, request_timeout_ms=5_000
    )
    async with producer:
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"half", partition=0)
        kafka.restore(kafka.snapshot())
        await producer.commit_transaction()
    assert values(kafka) == [b"half"]


def test_a_partition_without_a_leader_cannot_be_saved_nor_another_clusters_snapshot_restored(kafka: Kafka) -> None:
    snapshot = kafka.snapshot()
    kafka.no_leader("orders", 1)
    with pytest.raises(ValueError, match="orders-1 has no leader now"):
        kafka.snapshot()
    with cluster(brokers=1) as other, pytest.raises(ValueError, match="needs broker 2, which this cluster"):
        other.restore(snapshot)


def test_a_topic_of_many_partitions_can_be_used_as_soon_as_it_is_created(kafka: Kafka) -> None:
    """Brokers apply metadata in steps of 50 partitions."""
    kafka.topic("large", partitions=300)
    kafka.snapshot()
    kafka.produce("large", "last", partition=299)


def test_a_small_snapshot_takes_milliseconds(kafka: Kafka) -> None:
    kafka.produce("orders", *(["x" * 100] * 1_000))
    took = []
    for _ in range(5):
        before = time.monotonic()
        kafka.restore(kafka.snapshot())
        took.append(time.monotonic() - before)
    assert min(took) < 0.5, "some 10 ms on an idle machine"


def test_users_come_back_as_they_were(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    """And with them all that is no topic's and no broker's."""

    def users(*argv: str) -> str:
        assert cli.main(["users", *argv, "--admin", kafka.admin_url]) == 0
        return capsys.readouterr().out

    of_alice = ("alice", "--mechanism", "SCRAM-SHA-256")
    users("add", *of_alice, "--password", "secret")
    snapshot = kafka.snapshot()
    users("delete", *of_alice)
    kafka.restore(snapshot)
    assert "alice" in users("list")
    kafka.reset()
    assert "alice" not in users("list")
