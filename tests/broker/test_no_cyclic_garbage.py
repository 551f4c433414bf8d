"""Requests leave no cyclic garbage, so that Python's collector, whose passes hold the event loop, has nothing to do."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.log.log import Log
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from purgatorio.protocol.messages.metadata import MetadataRequest
from purgatorio.purgatory.clock import ManualClock
from tests.broker.cluster.test_cluster import ORDERS, client, config, create, leader_of, produce_request, until

DEPTH = 50
"""Requests in flight."""


@dataclass(frozen=True)
class Running:
    """The leader of a topic, and two connections to it."""

    leader: Broker
    producer: PeerConnection
    consumer: PeerConnection


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    """A cluster in which no time passes: nothing happens but what requests cause."""
    async with Cluster(config(), ManualClock(), seed=1) as cluster:
        await create(cluster)
        leader = leader_of(cluster)
        running = Running(leader, await client(leader), await client(leader))
        yield running
        running.producer.close()
        running.consumer.close()


@contextlib.contextmanager
def cyclic_garbage() -> Iterator[Callable[[], Counter[str]]]:
    """Within it the collector makes no pass; the result tells by type what then only the collector could free."""

    def found() -> Counter[str]:
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return Counter(type(each).__name__ for each in gc.garbage)

    gc.collect()
    gc.disable()
    try:
        yield found
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


class Answers:
    """Counts answers; a task or a future per request would be garbage of the client's own."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _response: Any, error: Exception | None) -> None:
        """Count one."""
        assert error is None
        self.count += 1

    async def reach(self, count: int) -> None:
        """Wait until so many have come."""
        await until(lambda: self.count >= count)


async def ask(connection: PeerConnection, api_key: ApiKey, version: int, request: Any, count: int) -> None:
    """Have a request answered `count` times, `DEPTH` at a time."""
    answers = Answers()
    for done in range(0, count, DEPTH):
        for _ in range(DEPTH):
            connection.send(api_key, version, request, timeout_ms=60_000, done=answers)
        await answers.reach(done + DEPTH)


async def poll(consumer: PeerConnection, producer: PeerConnection, log: Log, count: int) -> None:
    """Have `count` long polls answered: `DEPTH` are parked at the end of the log, and a record wakes them."""
    answers = Answers()
    for done in range(0, count, DEPTH):
        partition = FetchPartition(partition=0, fetch_offset=log.log_end_offset, partition_max_bytes=1000)
        topics = [FetchTopic(topic=ORDERS.topic, partitions=[partition])]
        for _ in range(DEPTH):
            request = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics)
            consumer.send(ApiKey.FETCH, 12, request, timeout_ms=60_000, done=answers)
        producer.send(ApiKey.PRODUCE, 9, produce_request(acks=-1), timeout_ms=60_000, done=Answers())
        await answers.reach(done + DEPTH)


async def test_ten_thousand_requests_leave_no_cyclic_garbage(running: Running) -> None:
    """Produce with acks=1 and with acks=all, long polls, metadata."""
    producer, consumer = running.producer, running.consumer
    with cyclic_garbage() as found:
        await ask(producer, ApiKey.PRODUCE, 9, produce_request(acks=1), 2_500)
        await ask(producer, ApiKey.PRODUCE, 9, produce_request(acks=-1), 2_500)
        await poll(consumer, producer, running.leader.replicas.partitions[ORDERS].log, 2_500)
        await ask(consumer, ApiKey.METADATA, 9, MetadataRequest(topics=None), 2_500)
        assert found() == Counter()


async def test_one_cycle_per_request_is_noticed(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def appended(*_: object) -> None:
        cycle: list[object] = []
        cycle.append(cycle)

    monkeypatch.setattr(type(running.leader.metrics), "appended", appended)
    with cyclic_garbage() as found:
        await ask(running.producer, ApiKey.PRODUCE, 9, produce_request(acks=1), DEPTH)
        assert found() == Counter(list=DEPTH)
