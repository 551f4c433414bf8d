"""The pipelined producer keeps its order through errors, and treats them as librdkafka does."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.replica.refused_batches import RefusedBatches
from purgatorio.broker.simulation.checkers import check
from purgatorio.broker.simulation.clients import Client, Output
from purgatorio.broker.simulation.cluster import SimulatedCluster
from purgatorio.broker.simulation.history import Acked, Failed, History, Sent, SequenceRefused
from purgatorio.broker.simulation.loop import SimulatedLoop
from purgatorio.broker.simulation.network import Network
from purgatorio.broker.simulation.pipelined import MAX_IN_FLIGHT, PipelinedProducer
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import read_header

TP = TopicPartition("orders", 0)
Refuse = Callable[[int], ErrorCode]
"""Given the number of a request, from 0, the code to refuse it with; NONE: it is appended."""


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


class One:
    """A cluster of one broker that refuses requests, and a pipelined producer that runs for a second."""

    def __init__(self, loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch, refuse: Refuse) -> None:
        self.loop = loop
        self.cluster = SimulatedCluster(loop, Network(loop, random.Random(1)), random.Random(2), count=1)
        self.history = History()
        self.most_in_flight = 0
        append, numbers = Partition.append_as_leader, itertools.count()

        def refusing(partition: Partition, records: Any, *, acks: int, wall_ms: int) -> Any:
            code = refuse(next(numbers))
            if code is not ErrorCode.NONE:
                raise PartitionError(code, "refused by the test")
            return append(partition, records, acks=acks, wall_ms=wall_ms)

        monkeypatch.setattr(Partition, "append_as_leader", refusing)

    def run(self, *, delivery_timeout_ms: int = 8_000) -> None:
        self.loop.run_until_complete(self._run(delivery_timeout_ms))

    async def _run(self, delivery_timeout_ms: int) -> None:
        cluster, clock = self.cluster, self.cluster.clock
        await cluster.start()
        created: asyncio.Future[object] = self.loop.create_future()
        new = [NewTopic("orders", 1, 1)]
        cluster.store.open().submit(
            lambda image: create_topics(image, new, settings=TopicSettings(), rng=random.Random(0)), created.set_result
        )
        await created
        await asyncio.sleep(0.1)
        producer = PipelinedProducer(
            Client("producer", cluster.addresses, clock=clock, rng=random.Random(3)),
            Output("orders", 0),
            values=itertools.count(1),
            history=self.history,
            clock=clock,
            delivery_timeout_ms=delivery_timeout_ms,
            pause_ms=(0.0, 1.0),
            max_records=3,
        )
        end_ms = clock.now_ms() + 1_000

        def stopped() -> bool:
            self.most_in_flight = max(self.most_in_flight, len(producer._queue))
            return clock.now_ms() >= end_ms

        await self.loop.node("producer").spawn(producer.run(stopped))
        log = cluster.brokers[1].replicas.partitions[TP].log
        self.headers = [read_header(part) for part in log.read(0, max_bytes=10**9, end_offset=log.log_end_offset).parts]
        await cluster.stop()

    @property
    def acked(self) -> list[int]:
        return [ack.value for ack in self.history.of(Acked)]


def test_it_has_several_requests_in_flight_and_all_are_acknowledged_in_order(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = One(loop, monkeypatch, lambda number: ErrorCode.NONE)
    one.run()
    assert 1 < one.most_in_flight <= MAX_IN_FLIGHT
    assert one.acked == [sent.value for sent in one.history.of(Sent)]
    assert [ack.offset for ack in one.history.of(Acked)] == list(range(len(one.acked)))
    assert check(one.history) == []


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_after_a_retriable_error_it_sends_that_batch_and_all_later_ones_again_in_order(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    one = One(loop, monkeypatch, lambda number: code if 20 <= number < 25 else ErrorCode.NONE)
    one.run()
    assert one.acked == [sent.value for sent in one.history.of(Sent)]
    assert {header.producer_epoch for header in one.headers} == {0}
    assert check(one.history) == []


def test_a_leader_that_takes_the_batches_after_a_refused_one_is_found(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RefusedBatches, "waits_for_another", lambda *_: None)
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    one = One(loop, monkeypatch, lambda number: code if number == 20 else ErrorCode.NONE)
    one.run()
    assert "sequence-refused" in {anomaly.name for anomaly in check(one.history)}


def test_after_sequences_out_of_order_it_takes_a_new_epoch_and_the_history_says_so(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    one = One(loop, monkeypatch, lambda number: code if number == 20 else ErrorCode.NONE)
    one.run()
    producers = list(dict.fromkeys((header.producer_id, header.producer_epoch) for header in one.headers))
    assert len(producers) == 2
    first = next(header for header in one.headers if (header.producer_id, header.producer_epoch) == producers[1])
    assert first.base_sequence == 0
    assert len(list(one.history.of(SequenceRefused))) >= 1
    assert "sequence-refused" in {anomaly.name for anomaly in check(one.history)}


def test_a_batch_that_is_certainly_not_written_in_time_has_failed_and_the_next_ones_get_another_producer_id(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = One(loop, monkeypatch, lambda number: ErrorCode.NOT_ENOUGH_REPLICAS if 20 <= number < 27 else ErrorCode.NONE)
    one.run(delivery_timeout_ms=200)
    failed = [event.value for event in one.history.of(Failed)]
    assert failed
    assert sorted(failed + one.acked) == [sent.value for sent in one.history.of(Sent)]
    assert len({header.producer_id for header in one.headers}) > 1
    assert check(one.history) == []
