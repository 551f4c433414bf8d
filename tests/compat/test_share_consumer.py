"""confluent-kafka's ShareConsumer, librdkafka's share groups (KIP-932), against a cluster of the test kit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from purgatorio.testing import Kafka, cluster

pytestmark = [pytest.mark.clients, pytest.mark.timeout(60)]

Join = Callable[..., Any]
PATIENCE_SECONDS = 20.0


def configure(kafka: Kafka, **configs: str) -> None:
    """Set configs of group "jobs", by Kafka's names with underscores for dots."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    change = ConfigResource(ResourceType.GROUP, "jobs", incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.incremental_alter_configs([change])[change].result(PATIENCE_SECONDS)


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    """A cluster with a topic of one partition, which group "jobs" reads from the beginning."""
    with cluster() as kafka:
        kafka.topic("orders")
        configure(kafka, share_auto_offset_reset="earliest")
        yield kafka


@pytest.fixture
def join(kafka: Kafka) -> Iterator[Join]:
    """Return what makes a member of the group."""
    members: list[Any] = []

    def made(mode: str = "explicit") -> Any:
        consumer = ShareConsumer(
            {"bootstrap.servers": kafka.bootstrap, "group.id": "jobs", "share.acknowledgement.mode": mode}
        )
        consumer.subscribe(["orders"])
        members.append(consumer)
        return consumer

    yield made
    for member in members:
        member.close()


def poll(consumer: Any, count: int) -> list[Any]:
    """Poll until there are this many records."""
    found: list[Any] = []
    ends = time.monotonic() + PATIENCE_SECONDS
    while len(found) < count and time.monotonic() < ends:
        for message in consumer.poll(0.2):
            assert message.error() is None, message.error()
            found.append(message)
    return found


def test_each_record_is_accepted_once(kafka: Kafka, join: Join) -> None:
    kafka.produce("orders", *(f"order {number}" for number in range(20)))
    consumer = join()
    for message in poll(consumer, 20):
        consumer.acknowledge(message)
    consumer.commit_sync()
    group = kafka.share_group("jobs")
    assert (group.start_offsets(), group.in_flight()) == ({("orders", 0): 20}, [])


def test_implicit_members_acknowledge_by_their_next_poll(kafka: Kafka, join: Join) -> None:
    kafka.produce("orders", "a", "b")
    consumer = join("implicit")
    assert len(poll(consumer, 2)) == 2
    kafka.produce("orders", "c")
    poll(consumer, 1)
    consumer.commit_sync()
    assert kafka.share_group("jobs").start_offsets() == {("orders", 0): 3}


def test_a_record_of_a_worker_that_hangs_goes_to_another_one_when_its_lock_runs_out(kafka: Kafka, join: Join) -> None:
    kafka.produce("orders", "lost")
    (lost,) = poll(join(), 1)
    group = kafka.share_group("jobs")
    (held,) = group.until_acquired().wait()
    assert (held.delivery_count, held.offsets) == (1, range(lost.offset(), lost.offset() + 1))
    other = join()
    found: list[Any] = []
    waiter = threading.Thread(target=lambda: found.extend(poll(other, 1)))
    waiter.start()
    kafka.until_parked(api="ShareFetch").wait()
    kafka.clock.advance(30)
    waiter.join()
    assert [message.value() for message in found] == [b"lost"]
    assert [each.delivery_count for each in group.acquired()] == [2]
    other.acknowledge(found[0])
    other.commit_sync()
    assert group.in_flight() == []


def test_a_record_that_no_worker_survives_is_in_the_dead_letter_topic_after_five_deliveries(
    kafka: Kafka, join: Join
) -> None:
    kafka.topic("dlq.jobs", errors_deadletterqueue_group_enable=True)
    configure(kafka, errors_deadletterqueue_topic_name="dlq.jobs", errors_deadletterqueue_copy_record_enable="true")
    kafka.produce("orders", "poison", key="k")
    group = kafka.share_group("jobs")
    poll(join(), 1)
    for delivery in range(2, 6):
        worker, found = join(), []
        waiter = threading.Thread(target=lambda worker=worker, found=found: found.extend(poll(worker, 1)))
        waiter.start()
        kafka.until_parked(api="ShareFetch").wait()
        kafka.clock.advance(30)
        waiter.join()
        assert [message.value() for message in found] == [b"poison"]
        assert [each.delivery_count for each in group.until_acquired().wait()] == [delivery]
    kafka.clock.advance(30)
    (letter,) = group.until_dead_letters().wait()
    assert (letter.topic, letter.partition, letter.offset, letter.deliveries) == ("orders", 0, 0, 5)
    assert (letter.key, letter.value) == (b"k", b"poison")


def test_a_record_that_a_worker_rejects_is_in_the_dead_letter_topic(kafka: Kafka, join: Join) -> None:
    kafka.topic("dlq.jobs", errors_deadletterqueue_group_enable=True)
    configure(kafka, errors_deadletterqueue_topic_name="dlq.jobs")
    kafka.produce("orders", "fine", "broken")
    worker = join()
    fine, broken = poll(worker, 2)
    worker.acknowledge(fine)
    worker.acknowledge(broken, AcknowledgeType.REJECT)
    worker.commit_sync()
    (letter,) = kafka.share_group("jobs").until_dead_letters().wait()
    assert (letter.offset, letter.deliveries, letter.reason) == (1, 1, "Offset rejected by client.")


@pytest.mark.process
def test_dead_letters_are_read_of_brokers_with_processes_of_their_own() -> None:
    with cluster(processes=True) as kafka:
        kafka.topic("orders", partitions=3)
        kafka.topic("dlq.jobs", errors_deadletterqueue_group_enable=True)
        configure(
            kafka,
            share_auto_offset_reset="earliest",
            errors_deadletterqueue_topic_name="dlq.jobs",
            errors_deadletterqueue_copy_record_enable="true",
        )
        for partition in range(3):
            kafka.produce("orders", f"broken {partition}", partition=partition)
        worker = ShareConsumer(
            {"bootstrap.servers": kafka.bootstrap, "group.id": "jobs", "share.acknowledgement.mode": "explicit"}
        )
        worker.subscribe(["orders"])
        rejected = 0
        while rejected < 3:
            for message in poll(worker, 1):
                worker.acknowledge(message, AcknowledgeType.REJECT)
                rejected += 1
            worker.commit_sync()
        letters = kafka.share_group("jobs").until_dead_letters(3).wait()
        worker.close()
    assert sorted((each.partition, each.value) for each in letters) == [
        (partition, b"broken %d" % partition) for partition in range(3)
    ]


def test_acknowledgements_outlive_the_death_of_each_broker(kafka: Kafka, join: Join) -> None:
    consumer = join()
    accepted: list[bytes] = []
    for broker in (1, 2, 3):
        value = f"order {broker}"
        kafka.produce("orders", value)
        for message in poll(consumer, 1):
            consumer.acknowledge(message)
            accepted.append(message.value())
        for error in (consumer.commit_sync() or {}).values():
            assert error is None, error
        for topic in ("orders", "__share_group_state", "__consumer_offsets"):
            kafka.until_in_sync(topic).wait()
        kafka.kill(broker)
        kafka.start(broker)
    kafka.produce("orders", "last")
    (last,) = poll(consumer, 1)
    assert accepted == [b"order 1", b"order 2", b"order 3"]
    assert last.value() == b"last", "what was accepted is never delivered again"
