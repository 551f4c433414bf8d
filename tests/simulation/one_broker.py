"""A cluster of one broker that refuses requests as a test says, and a pipelined producer that runs for a second."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import read_header
from purgatorio.simulation.clients.clients import Client, Output
from purgatorio.simulation.clients.pipelined import Pace, PipelinedProducer
from purgatorio.simulation.history.history import Acked, History
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork
from tests.batches import batches_of
from tests.compiled import skip_if_compiled

TP = TopicPartition("orders", 0)
Refuse = Callable[[int], ErrorCode]
"""Given the number of a request, from 0, the code to refuse it with; NONE: it is appended."""


class One:
    """Runs it; `history` and `headers` have what came of it. Skips the test if the broker's modules are compiled."""

    def __init__(self, loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch, refuse: Refuse) -> None:
        skip_if_compiled()
        self.loop = loop
        self.cluster = SimulatedCluster(loop, SimulatedNetwork(loop, random.Random(1)), random.Random(2), count=1)
        self.history = History()
        self.most_in_flight = 0
        append, numbers = Partition.append_as_leader, itertools.count()

        def refusing(partition: Partition, records: Any, *, acks: int, wall_ms: int) -> Any:
            code = refuse(next(numbers))
            if code is not ErrorCode.NONE:
                raise PartitionError(code, "refused by the test")
            return append(partition, records, acks=acks, wall_ms=wall_ms)

        monkeypatch.setattr(Partition, "append_as_leader", refusing)

    def run(self, kind: type[PipelinedProducer], *, burst: int = 1, delivery_timeout_ms: int = 8_000) -> None:
        pace = Pace((0.0, 1.0), max_records=3, burst=burst, delivery_timeout_ms=delivery_timeout_ms)
        self.loop.run_until_complete(self._run(kind, pace))

    async def _run(self, kind: type[PipelinedProducer], pace: Pace) -> None:
        cluster, clock = self.cluster, self.cluster.clock
        await cluster.start()
        created: asyncio.Future[object] = self.loop.create_future()
        new = [NewTopic("orders", 1, 1)]
        cluster.store.open().submit(
            lambda image: create_topics(image, new, settings=TopicSettings(), rng=random.Random(0)), created.set_result
        )
        await created
        await asyncio.sleep(0.1)
        producer = kind(
            Client("producer", cluster.addresses, clock=clock, rng=random.Random(3), history=self.history),
            Output("orders", 0),
            values=itertools.count(1),
            pace=pace,
        )
        end_ms = clock.now_ms() + 1_000

        def stopped() -> bool:
            self.most_in_flight = max(self.most_in_flight, len(producer._queue))
            return clock.now_ms() >= end_ms

        await self.loop.node("producer").spawn(producer.run(stopped))
        log = cluster.brokers[1].replicas.partitions[TP].log
        read = log.read(0, max_bytes=10**9, end_offset=log.log_end_offset)
        self.headers = [read_header(batch) for batch in batches_of(read.parts)]
        await cluster.stop()

    @property
    def acked(self) -> list[int]:
        return [ack.value for ack in self.history.of(Acked)]
