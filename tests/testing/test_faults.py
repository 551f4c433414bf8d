"""Fault rules in a test's hands, with a real client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from confluent_kafka import Producer

from purgatorio.testing import Kafka, cluster
from purgatorio.testing.waiting import first


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with cluster(topics={"orders": 2, "other": 1}) as running:
        yield running


@pytest.fixture
async def producer(kafka: Kafka) -> AsyncIterator[AIOKafkaProducer]:
    client = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, client_id="till", acks="all", request_timeout_ms=2_000, retry_backoff_ms=5
    )
    async with client:
        yield client


async def test_a_request_that_is_said_to_have_failed_was_not_done(kafka: Kafka, producer: AIOKafkaProducer) -> None:
    rule = kafka.fault(api="Produce", topic="orders", error="TOPIC_AUTHORIZATION_FAILED", count=1)
    with pytest.raises(KafkaError):
        await producer.send_and_wait("orders", b"refused", partition=0)
    await producer.send_and_wait("orders", b"kept", partition=0)
    assert [each.value for each in kafka.records("orders")] == [b"kept"]
    assert (rule.matched, rule.fired) == (1, 1)


async def test_a_client_that_retries_gets_over_a_counted_error(kafka: Kafka, producer: AIOKafkaProducer) -> None:
    rule = kafka.fault(api="Produce", client="till", error="NOT_LEADER_OR_FOLLOWER", count=3)
    await producer.send_and_wait("orders", b"kept", partition=0)
    assert await rule.until_fired(3) == 3
    assert [each.value for each in kafka.records("orders")] == [b"kept"]


async def test_a_held_request_is_parked_and_goes_on_when_it_is_released(
    kafka: Kafka, producer: AIOKafkaProducer
) -> None:
    rule = kafka.fault(api="Produce", topic="orders", hold=True)
    sending = await producer.send("orders", b"held", partition=0)
    (parked,) = await kafka.until_parked(api="Fault", topic="orders", client="till")
    assert parked.missing == f"Produce: fault {rule.id} holds it until it is released"
    assert rule.held == 1
    assert kafka.records("orders") == []
    rule.release()
    await sending
    assert [each.value for each in kafka.records("orders")] == [b"held"]
    assert kafka.faults == []


def test_requests_behind_a_held_one_of_their_connection_wait_for_it() -> None:
    """A client that pipelines counts on the order of its connection, which has one partition's batches in it."""
    with cluster(brokers=1, topics={"orders": 1, "others": 1}) as kafka:
        held = kafka.fault(api="Produce", topic="orders", hold=True)
        patience = {"message.timeout.ms": 5_000}  # when this test fails
        with Producer(kafka.client_config("confluent", "producer") | patience) as producer:
            producer.produce("orders", "first")
            held.until_fired().wait()
            producer.produce("others", "second")
            (broker,) = kafka._cluster.brokers
            (listener,) = broker.listeners.values()
            behind = first(lambda: any(each.waiting for each in listener.connections()))
            kafka._thread.run(asyncio.wait_for(behind, 2), "wait for the second request")
            assert kafka.records("others") == []
            held.release()
            assert producer.flush(10) == 0
        produces = kafka.requests(api="Produce")
        assert [each.topics for each in produces] == [("orders",), ("others",)]


async def test_a_connection_lost_after_the_work_leaves_the_work_done(kafka: Kafka, producer: AIOKafkaProducer) -> None:
    """A producer without idempotence sends again, and the record is there twice: the bug that this fault finds."""
    kafka.fault(api="Produce", topic="orders", disconnect="after", count=1)
    await producer.send_and_wait("orders", b"paid", partition=0)
    assert [each.value for each in kafka.records("orders")] == [b"paid", b"paid"]


async def test_a_connection_lost_before_the_work_leaves_it_undone(kafka: Kafka, producer: AIOKafkaProducer) -> None:
    kafka.fault(api="Produce", topic="orders", disconnect="before", count=1)
    await producer.send_and_wait("orders", b"paid", partition=0)
    assert [each.value for each in kafka.records("orders")] == [b"paid"]


async def test_one_partition_fails_and_the_rest_of_a_fetch_is_answered(kafka: Kafka) -> None:
    kafka.produce("orders", "a", partition=0)
    kafka.produce("orders", "b", partition=1)
    rule = kafka.fault(api="Fetch", topic="orders", partition=1, error="NOT_LEADER_OR_FOLLOWER")
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest")
    async with consumer:
        first = await asyncio.wait_for(consumer.getone(), 5)
        assert (first.partition, first.value) == (0, b"a")
        await rule.until_fired(2)
        rule.remove()
        second = await asyncio.wait_for(consumer.getone(), 5)
        assert (second.partition, second.value) == (1, b"b")


def test_replication_to_one_follower_fails_by_a_rule_for_its_fetches(kafka: Kafka) -> None:
    leader = kafka.leader("other")
    follower = next(each for each in kafka.brokers if each != leader)
    rule = kafka.fault(api="Fetch", replica=follower, topic="other", hold=True)
    rule.until_fired().wait()
    (parked,) = kafka.until_parked(api="Fault", topic="other").wait()
    assert parked.client == f"broker-{follower}-fetcher"
    rule.remove()
    assert kafka.produce("other", "x") == 0


def test_fetches_of_followers_get_over_errors_of_one_partition(kafka: Kafka) -> None:
    leader = kafka.leader("other")
    follower = next(each for each in kafka.brokers if each != leader)
    rule = kafka.fault(api="Fetch", replica=follower, topic="other", error="NOT_LEADER_OR_FOLLOWER", count=2)
    assert kafka.produce("other", "x", "y") == 0
    rule.until_fired(2).wait()
    assert [each.value for each in kafka.records("other")] == [b"x", b"y"]


def test_rules_are_listed_counted_and_gone_after_a_reset(kafka: Kafka) -> None:
    rule = kafka.fault(api="Produce", error="KAFKA_STORAGE_ERROR")
    assert [str(each) for each in kafka.faults] == ["api=Produce error=KAFKA_STORAGE_ERROR"]
    assert f"{rule.id}: api=Produce error=KAFKA_STORAGE_ERROR: matched no request" in kafka.report()
    kafka.reset()
    assert kafka.faults == []


async def test_a_rule_acts_on_a_broker_that_was_started_again(kafka: Kafka) -> None:
    rule = kafka.fault(api="ApiVersions", broker=2, observe=True)
    kafka.stop(2)
    kafka.start(2)
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers[1]):
        assert rule.fired > 0


def test_a_name_that_is_wrong_is_told_with_the_nearest_one(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="there is no API 'Fetsch'; did you mean Fetch"):
        kafka.fault(api="Fetsch", error="UNKNOWN_SERVER_ERROR")


async def test_the_requests_of_a_client_are_logged_with_their_answers(kafka: Kafka, producer: AIOKafkaProducer) -> None:
    kafka.fault(api="Produce", error="NOT_LEADER_OR_FOLLOWER", count=1)
    await producer.send_and_wait("orders", b"paid", partition=0)
    refused, done = kafka.requests(api="Produce", client="till", topic="orders")
    assert (refused.errors, done.errors) == (("NOT_LEADER_OR_FOLLOWER",), ())
    assert refused.number < done.number
    assert done.broker == kafka.leader("orders")
    assert done.ended == "answered"
    assert done.took_ms is not None
    assert kafka.requests(topic="other") == []
    assert not any(each.client.startswith("broker-") for each in kafka.requests())


def test_the_log_of_requests_is_empty_after_a_reset(kafka: Kafka) -> None:
    kafka.reset()
    assert kafka.requests() == []
    with pytest.raises(ValueError, match="did you mean Produce"):
        kafka.requests(api="Prodce")


def test_a_cluster_begins_with_rules_and_has_them_again_after_a_reset() -> None:
    with cluster(faults=[{"api": "Produce", "topic": "orders", "observe": True}]) as kafka:
        (first,) = kafka.faults
        assert first.at_start
        assert not kafka.fault(api="Fetch", observe=True).at_start
        kafka.reset()
        (again,) = kafka.faults
        assert again.at_start
        assert str(again) == str(first)
        kafka.restore(kafka.snapshot())
        assert [str(each) for each in kafka.faults] == [str(first)]
