"""Clients that come and go, topics that are made and deleted, brokers that are killed, stopped and started."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config.listeners import PLAINTEXT

STABLE = "stable"
PARTITIONS = 3
LOOKED_AT = ("/metrics", "/api/v1/state")
"""A scrape drops the counters of deleted topics, and a look at the state the last image."""
LIFE_SECONDS = 1.5
"""How long a client works before another takes its place."""


class Churn:
    """Loads a cluster, and counts what was done and what failed: a soak in which nothing happens is no proof."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self._cluster = cluster
        self._rng = random.Random(seed)
        self._numbers = itertools.count(1)
        self._stopping = False

    async def run(self, seconds: float) -> None:
        """Load the cluster for this time, then end all clients, start all brokers and delete all topics."""
        async with asyncio.timeout(seconds + 120):
            await self._create(STABLE)
            async with asyncio.TaskGroup() as tasks:
                clients = (self._produce, self._produce, self._consume, self._topics, self._connections)
                for work in (*clients, self._brokers, self._watch):
                    tasks.create_task(self._repeat(work))
                await asyncio.sleep(seconds)
                self._stopping = True
            await self._delete_topics()
            await _end_leftover_clients()

    async def _repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        while not self._stopping:
            # A client may meet a broker that dies; it ends with an error then, and the next one takes its place.
            try:
                await work()
            except (KafkaError, OSError, TimeoutError, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                # aiokafka 0.14 raises the cancellation of its own tasks in `stop` now and then.
                if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                    raise
                self.failed[f"{work.__name__.strip('_')}: {type(error).__name__}"] += 1
            await asyncio.sleep(0.03)

    async def _create(self, topic: str) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._cluster.bootstrap)
        try:
            await admin.start()
            configs = {"retention.bytes": "1000000", "segment.bytes": "100000"}
            await admin.create_topics([NewTopic(topic, PARTITIONS, 3, topic_configs=configs)])
        finally:
            await admin.close()

    async def _delete_topics(self) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._cluster.bootstrap)
        try:
            await admin.start()
            await admin.delete_topics(list(self._cluster.brokers[0].image.topics))
        finally:
            await admin.close()

    async def _produce(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._cluster.bootstrap,
            enable_idempotence=self._rng.random() < 0.7,
            request_timeout_ms=5_000,
        )
        try:
            await producer.start()
            async with asyncio.timeout(2 * LIFE_SECONDS):
                for _ in range(self._rng.randrange(200)):
                    await producer.send_and_wait(STABLE, b"x" * self._rng.randrange(5_000))
                    self.done["records"] += 1
        finally:
            await producer.stop()
            self.done["producers"] += 1

    async def _consume(self) -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=self._cluster.bootstrap, client_rack=self._rng.choice(["", "a"]))
        try:
            await consumer.start()
            consumer.assign([TopicPartition(STABLE, partition) for partition in range(PARTITIONS)])
            ends_at = asyncio.get_running_loop().time() + LIFE_SECONDS * self._rng.random()
            while asyncio.get_running_loop().time() < ends_at:
                await consumer.getmany(timeout_ms=200)
        finally:
            await consumer.stop()
            self.done["consumers"] += 1

    async def _topics(self) -> None:
        """Create a topic, use it, delete it: while it is used, now and then."""
        topic = f"short-lived-{next(self._numbers)}"
        await self._create(topic)
        producer = AIOKafkaProducer(bootstrap_servers=self._cluster.bootstrap, request_timeout_ms=2000)
        admin = AIOKafkaAdminClient(bootstrap_servers=self._cluster.bootstrap)
        try:
            await producer.start()
            for _ in range(20):
                await producer.send_and_wait(topic, b"x")
            await admin.start()
            await admin.delete_topics([topic])
            self.done["topics"] += 1
        finally:
            await admin.close()
            await producer.stop()

    async def _connections(self) -> None:
        """Connect; say nothing, half of something, or nonsense; leave, or wait to be closed."""
        broker = self._rng.choice(self._cluster.brokers)
        reader, writer = await asyncio.open_connection(*broker.listeners[PLAINTEXT].address)
        try:
            kind = self._rng.randrange(3)
            if kind:
                writer.write(b"\0\0\1\0" + b"half" if kind == 1 else b"GET / HTTP/1.1\r\n\r\n")
                await writer.drain()
            if kind == 2:
                async with asyncio.timeout(5):
                    await reader.read()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self.done["connections"] += 1

    async def _watch(self) -> None:
        """Scrape the metrics and look at the page, as Prometheus and a browser do."""
        for path in LOOKED_AT:
            await scrape(self._cluster, path)
        self.done["scrapes"] += 1
        await asyncio.sleep(0.3)

    async def _brokers(self) -> None:
        """Kill or stop a broker, and start it again."""
        await asyncio.sleep(1 + 2 * self._rng.random())
        broker_id = self._rng.choice(self._cluster.broker_ids)
        if self._rng.random() < 0.6:
            await self._cluster.kill_broker(broker_id)
        else:
            await self._cluster.stop_broker(broker_id)
        await asyncio.sleep(self._rng.random())
        await self._cluster.start_broker(broker_id)
        self.done["brokers"] += 1


async def scrape(cluster: Cluster, path: str) -> bytes:
    """Return what the admin HTTP answers."""
    host, port = cluster.admin_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        return await reader.read()
    finally:
        writer.close()


async def _end_leftover_clients() -> None:
    """End the tasks that aiokafka leaves of a client that could not start or stop while a broker died."""
    left = [task for task in asyncio.all_tasks() if "aiokafka" in task.get_coro().cr_code.co_filename]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
