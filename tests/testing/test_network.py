"""Brokers that stand still, and networks that are partitioned, as real clients see it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer

from purgatorio.testing import Kafka, cluster


@pytest.fixture(autouse=True)
def quiet_client(caplog: pytest.LogCaptureFixture) -> None:
    """The client logs an error for each broker that it does not reach."""
    caplog.set_level(logging.CRITICAL, logger="aiokafka")


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with cluster(topics={"orders": 1}, auto_leader_rebalance_enable=False) as running:
        yield running


async def until_leader_is_not(kafka: Kafka, former: int) -> int:
    """Return the leader that has taken over."""
    async with asyncio.timeout(10):
        while True:
            try:
                if (leader := kafka.leader("orders")) != former:
                    return leader
            except ValueError:  # none in between
                pass
            await asyncio.sleep(0.005)


def quick_producer(kafka: Kafka) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, acks="all", enable_idempotence=True, request_timeout_ms=1_000
    )


async def test_a_leader_that_stands_still_is_fenced_and_goes_on_as_a_follower(kafka: Kafka) -> None:
    async with quick_producer(kafka) as producer:
        await producer.send_and_wait("orders", b"before")
        paused = kafka.leader("orders")
        kafka.pause(paused)
        sent = await producer.send("orders", b"meanwhile")
        new = await until_leader_is_not(kafka, paused)
        assert f"{paused} at" in kafka.report()
        assert "(paused)" in kafka.report()
        kafka.topic("paid", replicas=2)  # the others go on deciding
        await sent
        kafka.resume(paused)
        await kafka.until_in_sync("orders")
        assert kafka.leader("orders") == new
        await producer.send_and_wait("orders", b"after")
    assert [each.value for each in kafka.records("orders")] == [b"before", b"meanwhile", b"after"]


async def test_a_leader_that_is_cut_off_acknowledges_nothing_that_the_others_lack(kafka: Kafka) -> None:
    async with quick_producer(kafka) as producer:
        await producer.send_and_wait("orders", b"before")
        alone = kafka.leader("orders")
        others = [each for each in kafka.brokers if each != alone]
        kafka.partition([alone], others)
        assert f"(cut off from {others[0]} {others[1]})" in kafka.report()
        sent = await producer.send("orders", b"meanwhile")
        await until_leader_is_not(kafka, alone)
        await sent
        kafka.heal()
        await kafka.until_in_sync("orders")
    assert [each.value for each in kafka.records("orders")] == [b"before", b"meanwhile"]


def test_a_follower_that_is_cut_off_holds_up_acks_all_until_the_network_is_healed(kafka: Kafka) -> None:
    leader = kafka.leader("orders")
    follower = next(each for each in kafka.brokers if each != leader)
    kafka.partition([follower], [each for each in kafka.brokers if each != follower])
    assert kafka.produce("orders", "a") == 0  # when the follower is fenced
    kafka.heal()
    kafka.until_in_sync("orders").wait()


async def test_a_held_follower_has_no_record_that_the_leader_took_since(kafka: Kafka) -> None:
    """Not even one that the leader sends in answer to a fetch from before: with acks=1 an order can be lost."""
    leader = kafka.leader("orders")
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, acks=1) as producer:
        await producer.send_and_wait("orders", b"before")
        assert [each.value for each in kafka.records("orders")] == [b"before"]  # and both followers have it
        for each in kafka.brokers:
            kafka.hold_follower(each)
        await producer.send_and_wait("orders", b"lost")
        kafka.kill(leader)
        await until_leader_is_not(kafka, leader)
        kafka.release()
        kafka.produce("orders", "after")
    assert [each.value for each in kafka.records("orders")] == [b"before", b"after"]


def test_what_stands_still_can_be_killed_stopped_and_reset(kafka: Kafka) -> None:
    kafka.pause(1)
    kafka.kill(1)
    kafka.start(1)
    kafka.until_in_sync("orders").wait()
    kafka.pause(2)
    kafka.stop(2)
    kafka.pause(3)
    kafka.reset()
    assert "paused" not in kafka.report()
    kafka.produce("orders", "a")


def test_a_broker_that_starts_in_a_partition_is_on_its_side(kafka: Kafka) -> None:
    kafka.kill(1)
    kafka.partition([1], [2, 3])
    kafka.start(1)
    assert "(cut off from 2 3)" in kafka.report()


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        (([1, 2, 3],), "at least two groups"),
        (([1], []), "at least two groups"),
        (([1], [1, 2]), "in one group only"),
        (([1], [7]), "there is no broker 7, only 1, 2, 3"),
    ],
)
def test_a_partition_needs_groups_of_brokers(kafka: Kafka, groups: tuple[list[int], ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        kafka.partition(*groups)
