"""Real consumers under read_committed read logs that hold transactions; the brokers themselves append these."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.producing.writes import AppendResult
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.compat.conftest import close_kafka_python

ORDERS = TopicPartition("orders", 0)
PATIENCE_SECONDS = 20
SMALL_BYTES = 600
"""Of a fetch: a few batches, so that transactions reach over many responses."""
Consume = Callable[[str, int, int], Awaitable[list[bytes]]]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(ClusterConfig(port=0, admin_port=0), seed=1) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        (created,) = admin.create_topics([NewTopic("orders", 1, 3)]).values()
        await asyncio.to_thread(created.result, PATIENCE_SECONDS)
        yield running


@dataclass
class Producers:
    """Writes transactions of several producers, mixed with each other and with plain records."""

    cluster: Cluster
    sequences: dict[int, int] = field(default_factory=dict)
    open: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    committed: list[tuple[int, bytes]] = field(default_factory=list)

    async def append(self, batch: bytes) -> int:
        """Append a batch to the log of the leader and of its followers; returns its offset."""
        done: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
        self.cluster.broker(_leader(self.cluster)).replicas.append(
            [(ORDERS, batch)],
            acks=-1,
            timeout_ms=PATIENCE_SECONDS * 1000,
            done=lambda results: done.set_result(results[0]),
            from_client=False,
        )
        result = await done
        assert result.error_code == 0, result
        return result.base_offset

    async def write(self, producer_id: int, value: bytes) -> None:
        """Write a record: of the producer's transaction, or a plain one if there is no producer."""
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + 1
        batch = build_batch(
            [Record(0, int(time.time() * 1000), None, value)],
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
            transactional=producer_id >= 0,
        )
        written = (await self.append(batch), value)
        if producer_id < 0:
            self.committed.append(written)
        else:
            self.open.setdefault(producer_id, []).append(written)

    async def end(self, producer_id: int, *, committed: bool) -> None:
        """End a producer's transaction, if it has one or not."""
        marker = EndMarker(committed, 0)
        await self.append(
            build_end_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=int(time.time() * 1000))
        )
        written = self.open.pop(producer_id, [])
        if committed:
            self.committed = sorted(self.committed + written)

    async def mix(self, rng: random.Random, steps: int) -> None:
        """Write at random, and end all transactions."""
        for step in range(steps):
            producer_id = rng.choice([-1, 100, 101, 102, 103])
            if producer_id < 0 or rng.random() < 0.6:
                await self.write(producer_id, b"value %d" % step)
            else:
                await self.end(producer_id, committed=rng.random() < 0.5)
        for producer_id in list(self.open):
            await self.end(producer_id, committed=rng.random() < 0.5)

    def values_from(self, offset: int) -> list[bytes]:
        """The values that a consumer under read_committed reads from an offset on, with no transaction open."""
        return [value for at, value in self.committed if at >= offset]


def read_with_librdkafka(bootstrap: str, offset: int, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "isolation.level": "read_committed",
            "max.partition.fetch.bytes": SMALL_BYTES,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, offset)])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None or message.error() is None:
            found += [] if message is None else [message.value()]
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF and len(found) >= count:
            break  # past the end, so that a record too many would be seen
    consumer.close()
    return found


def read_with_kafka_python(bootstrap: str, offset: int, count: int) -> list[bytes]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        max_partition_fetch_bytes=SMALL_BYTES,
        fetch_max_wait_ms=100,
    )
    partition = kafka.TopicPartition("orders", 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    end_offset = consumer.end_offsets([partition])[partition]
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and (len(found) < count or consumer.position(partition) < end_offset):
        for messages in consumer.poll(200).values():
            found += [message.value for message in messages]
    close_kafka_python(consumer)
    return found


async def read_with_aiokafka(bootstrap: str, offset: int, count: int) -> list[bytes]:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        max_partition_fetch_bytes=SMALL_BYTES,
        fetch_max_wait_ms=100,
    )
    await consumer.start()
    try:
        partition = aiokafka.TopicPartition("orders", 0)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        end_offset = (await consumer.end_offsets([partition]))[partition]
        found: list[bytes] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(found) < count or await consumer.position(partition) < end_offset:
                for messages in (await consumer.getmany(timeout_ms=200)).values():
                    found += [message.value for message in messages]
    finally:
        await consumer.stop()
    return found


async def elected(cluster: Cluster, *, other_than: int) -> None:
    """Wait until another broker leads."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while _leader(cluster) in (-1, other_than):  # noqa: ASYNC110 - the image has no event
            await asyncio.sleep(0.05)


def _leader(cluster: Cluster) -> int:
    """The broker that leads, or −1."""
    state = cluster.store.image.partition("orders", 0)
    return -1 if state is None else state.leader


def in_a_thread(read: Callable[[str, int, int], list[bytes]]) -> Consume:
    return lambda bootstrap, offset, count: asyncio.to_thread(read, bootstrap, offset, count)


CONSUMERS: dict[str, Consume] = {
    "librdkafka": in_a_thread(read_with_librdkafka),
    "kafka-python": in_a_thread(read_with_kafka_python),
    "aiokafka": read_with_aiokafka,
}


@pytest.mark.parametrize("client", CONSUMERS)
async def test_a_consumer_reads_what_was_committed_from_any_offset_and_after_a_change_of_the_leader(
    cluster: Cluster, client: str
) -> None:
    producers, consume, rng = Producers(cluster), CONSUMERS[client], random.Random(7)
    await producers.mix(rng, 200)
    assert producers.committed
    for offset in (0, 40, 111):
        expected = producers.values_from(offset)
        assert await consume(cluster.bootstrap, offset, len(expected)) == expected
    leader = _leader(cluster)
    await cluster.kill_broker(leader)
    await elected(cluster, other_than=leader)
    expected = producers.values_from(23)
    assert await consume(cluster.bootstrap, 23, len(expected)) == expected


@pytest.mark.parametrize("client", CONSUMERS)
async def test_a_consumer_that_waits_behind_an_open_transaction_goes_on_when_that_has_ended(
    cluster: Cluster, client: str
) -> None:
    producers, consume = Producers(cluster), CONSUMERS[client]
    await producers.write(-1, b"before")
    await producers.write(100, b"aborted")
    await producers.write(-1, b"behind")
    reading = asyncio.ensure_future(consume(cluster.bootstrap, 0, 2))
    done, _ = await asyncio.wait([reading], timeout=1)
    assert not done
    await producers.end(100, committed=False)
    assert await reading == [b"before", b"behind"]
