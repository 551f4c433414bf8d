"""A test of code that uses Kafka: each test gets three real brokers of its own, in a few milliseconds.

It needs ``pip install aiokafka pytest pytest-asyncio``. Run it: ``pytest examples/test_orders.py``
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from purgatorio import BrokerConfig, Cluster, ClusterConfig


async def place_order(producer: AIOKafkaProducer, item: str) -> int:
    """The code under test: an order's number is its offset."""
    return int((await producer.send_and_wait("orders", item.encode())).offset)


@pytest_asyncio.fixture
async def kafka() -> AsyncIterator[Cluster]:
    """Three brokers that refuse acks=all while fewer than two replicas are in sync."""
    config = ClusterConfig(port=0, admin_port=0, broker=BrokerConfig(min_insync_replicas=2))
    async with Cluster(config) as cluster:
        yield cluster


@pytest.mark.asyncio
async def test_orders_are_numbered_and_kept(kafka: Cluster) -> None:
    """Two orders get the numbers 0 and 1, and a consumer finds both."""
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all") as producer:
        assert [await place_order(producer, item) for item in ("tea", "cake")] == [0, 1]
    async with AIOKafkaConsumer(
        "orders", bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest", group_id=None
    ) as consumer:
        assert [(await consumer.getone()).value for _ in range(2)] == [b"tea", b"cake"]


@pytest.mark.asyncio
@pytest.mark.parametrize("broker_id", [1, 2, 3])
async def test_an_order_survives_the_death_of_any_broker(kafka: Cluster, broker_id: int) -> None:
    """One of the three brokers led the topic; the next order gets the next number under another leader."""
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all") as producer:
        assert await place_order(producer, "tea") == 0
        await kafka.kill_broker(broker_id)
        assert await place_order(producer, "cake") == 1
