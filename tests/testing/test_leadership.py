"""Leaders and coordinators moved by hand, as real clients see it; groups waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer

from purgatorio.admin.operations.groups import DescribeGroup
from purgatorio.admin.operations.records import ProduceRecords, ReadRecords
from purgatorio.testing import Group, Kafka, cluster

T = TypeVar("T")


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with cluster(topics={"orders": 2}) as running:
        yield running


async def test_a_client_goes_on_with_a_leader_that_was_moved(kafka: Kafka) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all", retry_backoff_ms=10) as producer:
        await producer.send_and_wait("orders", b"before", partition=0)
        first = kafka.leader("orders")
        second = kafka.move_leader("orders")
        assert second == kafka.leader("orders") != first
        await producer.send_and_wait("orders", b"after", partition=0)
        assert kafka.move_leader("orders", to=first) == first
        await producer.send_and_wait("orders", b"again", partition=0)
    assert [each.value for each in kafka.records("orders")] == [b"before", b"after", b"again"]
    assert kafka.until_in_sync("orders").wait() is None


def test_a_leader_that_was_moved_leads_until_the_preferred_one_is_elected_after_five_minutes(kafka: Kafka) -> None:
    preferred = kafka.leader("orders")
    moved = kafka.move_leader("orders")
    kafka.clock.advance(200)  # real time passes besides
    assert kafka.leader("orders") == moved
    kafka.clock.advance(101)
    assert kafka.leader("orders") == preferred


def test_only_a_replica_that_is_in_sync_can_lead(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match=r"orders-0 cannot be led by broker 9: the in-sync replicas .* are"):
        kafka.move_leader("orders", to=9)
    with pytest.raises(ValueError, match="no partition orders-7"):
        kafka.move_leader("orders", 7)
    with pytest.raises(ValueError, match="no topic 'nothing'"):
        kafka.until_in_sync("nothing").wait()


async def test_a_partition_without_a_leader_takes_no_records_until_it_has_one(kafka: Kafka) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, retry_backoff_ms=10) as producer:
        kafka.no_leader("orders", 1)
        with pytest.raises(ValueError, match="orders-1 has no leader now"):
            kafka.leader("orders", 1)
        sent = await producer.send("orders", b"late", partition=1)
        kafka.move_leader("orders", 1)
        await sent
    assert [each.value for each in kafka.records("orders", 1)] == [b"late"]


async def test_a_group_goes_on_with_a_coordinator_that_was_moved(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="no coordinator of group 'billing' yet"):
        kafka.move_coordinator(group="billing")
    with pytest.raises(ValueError, match="either a group or a transactional_id"):
        kafka.move_coordinator()
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=50,
        retry_backoff_ms=10,
    )
    async with consumer:
        before = await kafka.until(group="billing", state="stable", members=1)
        moved = kafka.move_coordinator(group="billing")
        assert moved != before.coordinator
        kafka.produce("orders", "a")
        record = await consumer.getone()
        await consumer.commit()
        after = await kafka.until(group="billing", state="Stable", members=1)
        assert (after.coordinator, after.members, record.value) == (moved, before.members, b"a")


async def test_what_the_members_of_a_group_wait_for_is_found_by_the_group(kafka: Kafka) -> None:
    assert kafka.group("billing") is None
    with pytest.raises(TimeoutError, match="group billing Stable with 1 members"):
        kafka.until(group="billing", state="Stable", members=1).wait(0.01)
    async with AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, group_id="billing", client_id="one"):
        parked = await kafka.until_parked(api="Fetch", group="billing")
        assert {each.client for each in parked} == {"one"}
        assert [each.purgatory for each in kafka.parked(api="Heartbeat", group="billing")] == ["Heartbeat"]
        assert kafka.parked(group="other") == []
    assert (await kafka.until(group="billing", state="Empty")).members == ()


def test_a_state_that_no_group_has_is_refused(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="no group has the state 'happy', only Empty"):
        kafka.until(group="billing", state="happy").wait()


# --- after the leader's death, before the election of another ---


def after_the_leaders_death(kafka: Kafka, ask: Callable[[], T]) -> T:
    """Kill the leader of orders-0, and ask at once."""
    kafka.produce("orders", "tea")
    kafka.kill(kafka.leader("orders"))
    return ask()


@pytest.mark.slow
def test_records_are_read_from_the_leader_that_is_elected(kafka: Kafka) -> None:
    assert [each.value for each in after_the_leaders_death(kafka, lambda: kafka.records("orders", 0))] == [b"tea"]


@pytest.mark.slow
def test_records_are_produced_to_the_leader_that_is_elected(kafka: Kafka) -> None:
    assert after_the_leaders_death(kafka, lambda: kafka.produce("orders", "cake")) == 1
    assert [each.value for each in kafka.records("orders", 0)] == [b"tea", b"cake"]


@pytest.mark.slow
def test_the_leader_is_the_one_that_is_elected(kafka: Kafka) -> None:
    dead = kafka.leader("orders")
    assert after_the_leaders_death(kafka, lambda: kafka.leader("orders")) != dead


@pytest.mark.slow
def test_a_topic_that_is_made_then_can_be_written_to(kafka: Kafka) -> None:
    made = after_the_leaders_death(kafka, lambda: kafka.topic("bills", partitions=6))
    leaders = {each.leader for each in kafka._cluster.brokers[0].image.topics[made].partitions}
    assert leaders <= set(kafka.brokers)


@pytest.mark.slow
def test_records_over_http_are_read_from_and_written_to_the_leader_that_is_elected(kafka: Kafka) -> None:
    read = after_the_leaders_death(kafka, lambda: kafka.do(ReadRecords("orders", 0)))
    assert [each["value"] for each in read["records"]] == ["tea"]
    done = after_the_leaders_death(kafka, lambda: kafka.do(ProduceRecords("orders", [{"value": "x", "partition": 0}])))
    assert done["records"] == [{"partition": 0, "offset": 2}]


@pytest.fixture
def group(kafka: Kafka) -> Iterator[Group]:
    """The group billing, which has one member."""
    config = kafka.client_config("confluent", "consumer") | {"group.id": "billing", "log_level": 0}
    with Consumer(config) as consumer:
        consumer.subscribe(["orders"])
        joining = kafka.until(group="billing", state="Stable", members=1)
        while not consumer.assignment():
            consumer.poll(0.01)
        yield joining.wait()


@pytest.mark.slow
def test_a_group_is_read_from_the_coordinator_that_is_elected(kafka: Kafka, group: Group) -> None:
    kafka.kill(group.coordinator)
    seen = kafka.group("billing")
    assert seen is not None
    assert (seen.coordinator != group.coordinator, seen.members) == (True, group.members)


@pytest.mark.slow
def test_a_group_over_http_is_read_from_the_coordinator_that_is_elected(kafka: Kafka, group: Group) -> None:
    kafka.kill(group.coordinator)
    assert kafka.do(DescribeGroup("billing"))["members"][0]["member_id"] == group.members[0]


@pytest.mark.slow
def test_a_member_is_expired_by_the_coordinator_that_is_elected(kafka: Kafka, group: Group) -> None:
    kafka.kill(group.coordinator)
    assert kafka.expire_member("billing") == group.members[0]


@pytest.mark.slow
def test_a_partition_whose_only_replica_died_is_refused_when_no_election_can_help(kafka: Kafka) -> None:
    kafka.topic("bills", replicas=1)
    kafka.kill(kafka.leader("bills"))
    with pytest.raises(ValueError, match="bills-0 has no leader now"):
        kafka.records("bills")
