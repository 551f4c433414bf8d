"""A cluster in a thread of its own, as a test holds it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer

from purgatorio.testing import Kafka, cluster


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with cluster() as running:
        yield running


def test_records_are_read_as_they_were_produced(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=3)
    assert kafka.produce("orders", "a", b"b", key="k", partition=2, headers={"h": b"1"}) == 0
    read = kafka.records("orders")
    assert [(each.partition, each.offset, each.key, each.value) for each in read] == [
        (2, 0, b"k", b"a"),
        (2, 1, b"k", b"b"),
    ]
    assert read[0].headers == (("h", b"1"),)


def test_a_held_follower_keeps_acks_all_waiting_until_it_is_released(kafka: Kafka) -> None:
    kafka.topic("orders")
    follower = next(each for each in kafka.brokers if each != kafka.leader("orders"))
    kafka.hold_follower(follower)
    producing = threading.Thread(target=kafka.produce, args=("orders", "late"))
    producing.start()
    (parked,) = kafka.until_parked(api="Produce", topic="orders").wait()
    assert f"broker {follower} is at 0 of 1" in parked.missing
    assert kafka.records("orders") == []
    kafka.release()
    producing.join()
    assert [each.value for each in kafka.records("orders")] == [b"late"]


def test_what_is_no_purgatory_is_refused_and_the_near_one_is_named(kafka: Kafka) -> None:
    for late in ("Fault", "Throttled", "AcquisitionLock", "ShareGroup", "Persister", "DeadLetter", "Lesson"):
        assert kafka.parked(api=late) == []  # they are made when they are needed
    with pytest.raises(
        ValueError, match=r"no purgatory 'Prodce'; did you mean Produce\? There are Produce, Fetch, .*, Fault"
    ):
        kafka.parked(api="Prodce")
    with pytest.raises(ValueError, match=r"no purgatory 'JoinGroup', only Produce, Fetch, .*, Fault"):
        kafka.until_parked(api="JoinGroup").wait()


def test_a_value_that_is_neither_text_nor_bytes_is_refused_by_its_type(kafka: Kafka) -> None:
    kafka.topic("orders")
    with pytest.raises(TypeError, match="keys and values are bytes, str or None, not int: 5"):
        kafka.produce("orders", 5)  # type: ignore[arg-type]  # what a test may do by mistake


async def test_records_that_followers_have_yet_to_fetch_are_waited_for(kafka: Kafka) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, acks=1) as producer:
        for nth in range(20):
            await producer.send_and_wait("orders", b"paid")
            assert len(kafka.records("orders")) == nth + 1


async def test_the_same_fixture_serves_async_tests(kafka: Kafka) -> None:
    kafka.topic("orders")
    leader = kafka.leader("orders")
    for each in kafka.brokers:
        if each != leader:
            kafka.hold_follower(each)
    producing = threading.Thread(target=kafka.produce, args=("orders", "late"))
    producing.start()
    assert len(await kafka.until_parked(api="Produce")) == 1
    kafka.release()
    producing.join()


def test_a_killed_broker_is_led_by_another_one_and_comes_back(kafka: Kafka) -> None:
    kafka.topic("orders")
    kafka.produce("orders", "kept")
    first = kafka.leader("orders")
    kafka.kill(first)
    assert first not in kafka.brokers
    kafka.start(first)
    assert first in kafka.brokers


def test_what_does_not_come_is_named(kafka: Kafka) -> None:
    with pytest.raises(TimeoutError, match="a parked Produce of orders"):
        kafka.until_parked(api="Produce", topic="orders").wait(0.01)


def test_an_unknown_setting_names_the_near_one() -> None:
    with pytest.raises(ValueError, match="did you mean min_insync_replicas"), cluster(min_insync_replica=2):
        pass


def test_a_topic_that_does_not_exist_is_named(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="there is no topic 'orders': the cluster has no topics"):
        kafka.records("orders")


@pytest.mark.parametrize(
    ("configs", "near"), [({"partitons": 2}, "partitions"), ({"cleanup_polcy": "compact"}, "cleanup.policy")]
)
def test_a_misspelt_topic_config_is_refused_with_the_near_name(
    kafka: Kafka, configs: dict[str, object], near: str
) -> None:
    with pytest.raises(ValueError, match=rf"there is no topic config .*; did you mean {near}"):
        kafka.topic("misspelt", **configs)
