"""Bad networks in a test's hands, with a real client on real sockets."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from aiokafka import AIOKafkaProducer

from purgatorio.admin.operations.records import ProduceRecords
from purgatorio.testing import Kafka, cluster


@pytest.fixture(autouse=True)
def quiet_client(caplog: pytest.LogCaptureFixture) -> None:
    """The client logs each connection that it loses."""
    caplog.set_level(logging.CRITICAL, logger="aiokafka")


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with cluster(topics={"orders": 1}) as running:
        yield running


@pytest.fixture
async def producer(kafka: Kafka) -> AsyncIterator[AIOKafkaProducer]:
    client = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, client_id="till", acks="all", request_timeout_ms=2_000, retry_backoff_ms=5
    )
    async with client:
        await client.send_and_wait("orders", b"before")
        yield client


async def test_a_slow_network_slows_the_client_that_it_is_about(kafka: Kafka, producer: AIOKafkaProducer) -> None:
    with kafka.network("latency", latency_ms=50, client="till") as slow:
        began = time.monotonic()
        await producer.send_and_wait("orders", b"late")
        assert time.monotonic() - began >= 0.049
        assert slow.fired == slow.matched >= 1
        assert f"{slow.id}: toxic=latency client=till latency_ms=50: fired" in kafka.report()
        assert "connection of till: latency downstream" in kafka.report()
    fired = slow.fired
    await producer.send_and_wait("orders", b"soon")
    assert slow.fired == fired
    assert kafka.faults == []


async def test_the_brokers_time_moves_what_is_under_way(kafka: Kafka, producer: AIOKafkaProducer) -> None:
    kafka.network("latency", latency_ms=20_000)
    sending = await producer.send("orders", b"late")
    while not kafka.requests(api="Produce")[1:]:  # noqa: ASYNC110 - until the answer is under way
        await asyncio.sleep(0.001)
    kafka.clock.advance(20)
    await sending
    kafka.clear_faults()


async def test_a_client_gets_over_a_connection_that_is_reset(kafka: Kafka, producer: AIOKafkaProducer) -> None:
    reset = kafka.network("reset_peer", client="till")
    sending = asyncio.ensure_future(producer.send_and_wait("orders", b"kept"))
    await reset.until_fired(2)
    reset.remove()
    await sending
    assert [each.value for each in kafka.records("orders")] == [b"before", b"kept"]


def test_a_follower_that_hears_nothing_holds_up_acks_all_until_the_network_is_good(kafka: Kafka) -> None:
    leader = kafka.leader("orders")
    follower = next(each for each in kafka.brokers if each != leader)
    silence = kafka.network("timeout", replica=follower, broker=leader)
    silence.until_fired().wait()
    produce = ProduceRecords("orders", [{"value": "a", "partition": 0}])
    with pytest.raises(TimeoutError):
        kafka._thread.run(asyncio.wait_for(kafka._backend.ask(produce), 0.1), "produce")
    (parked,) = kafka.parked(api="Produce")
    assert f"broker {follower} is at 0 of 1" in parked.missing
    silence.remove()
    kafka.produce("orders", "b")
    kafka.until_in_sync("orders").wait()


def test_toxics_are_gone_after_a_reset_and_act_on_a_broker_that_was_started_again(kafka: Kafka) -> None:
    bad = kafka.network("timeout", broker=2)
    kafka.stop(2)
    kafka.start(2)
    (connections,) = [broker.listeners.values() for broker in kafka._cluster.brokers if broker.broker_id == 2]
    assert [listener._toxics.rules for listener in connections if listener._toxics] == [(bad._rule,)]
    kafka.reset()
    assert kafka.faults == []
    assert all(not each._toxics for broker in kafka._cluster.brokers for each in broker.listeners.values())


def test_a_word_that_is_wrong_is_told_with_the_nearest_one(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="no toxic 'latncy'; did you mean latency"):
        kafka.network("latncy", latency_ms=3)
