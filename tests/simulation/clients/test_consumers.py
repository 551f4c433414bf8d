"""A simulated consumer under read_committed drops aborted records as real ones do; without it, it tells of markers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.client.client import Leader, Partition
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from purgatorio.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.purgatory.clock import ManualClock
from purgatorio.simulation.clients.clients import Client
from purgatorio.simulation.clients.consumers import Reader, SimulatedConsumer
from purgatorio.simulation.history.history import History, Polled, TxnDrained, TxnMarker, TxnPolled

END = 8


def batch(offset: int, *, producer_id: int = -1) -> bytes:
    """A batch of one record, whose value is ten times its offset; without a producer id it is of no transaction."""
    is_transactional = producer_id >= 0
    return build_batch(
        [Record(offset, 0, None, str(10 * offset).encode(), ())],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0 if is_transactional else -1,
        base_sequence=offset if is_transactional else -1,
        transactional=is_transactional,
    )


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    end = EndMarker(committed, 0)
    return build_end_marker(end, producer_id=producer_id, producer_epoch=0, timestamp_ms=0, base_offset=offset)


LOG = [
    batch(0, producer_id=1),
    batch(1, producer_id=2),
    batch(2),
    marker(3, 1, committed=False),
    marker(4, 2, committed=True),
    batch(5, producer_id=1),
    marker(6, 1, committed=True),
    batch(7),
]
"""Producer 1 aborts a transaction, and commits another one; producer 2 commits one."""


class FakeClient(Client):
    """A leader with `LOG`, from which a fetch gets all that follows its offset."""

    def __init__(self, aborted: list[AbortedTransaction] | None) -> None:
        super().__init__("c", [], clock=ManualClock(), rng=random.Random(1), history=History())
        self.aborted = aborted
        self.levels: list[int] = []

    async def leader(self, tp: Partition) -> Leader:
        return Leader(1, 0)

    def close(self) -> None:
        return

    async def ask(self, broker_id: int, request: Any, *, timeout_ms: int | None = None) -> Any:
        if isinstance(request, ListOffsetsRequest):
            offset = END if request.topics[0].partitions[0].timestamp == -1 else 0
            each = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[each])])
        self.levels.append(request.isolation_level)
        data = PartitionData(
            partition_index=0,
            high_watermark=END,
            last_stable_offset=END,
            aborted_transactions=self.aborted if request.isolation_level else None,
            records=b"".join(LOG[request.topics[0].partitions[0].fetch_offset :]),
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[data])])


async def drained(*, committed: bool, aborted: list[AbortedTransaction] | None = None) -> tuple[History, list[int]]:
    """Read the log to its end; the history, and the isolation levels of the fetches."""
    client = FakeClient(aborted)
    consumer = SimulatedConsumer(client, TopicPartition("orders", 0), final=True, reader=Reader(committed=committed))
    await consumer.run(lambda: False)
    assert consumer.position == END
    return client.history, client.levels


async def test_records_of_aborted_transactions_are_dropped_up_to_their_marker() -> None:
    history, levels = await drained(committed=True, aborted=[AbortedTransaction(producer_id=1, first_offset=0)])
    assert levels == [1]
    (poll,) = history.of(TxnPolled)
    assert poll.records == ((1, 10), (2, 20), (5, 50), (7, 70))
    assert (poll.last_stable_offset, poll.high_watermark) == (END, END)
    (end,) = history.of(TxnDrained)
    assert (end.start_offset, end.last_stable_offset, end.high_watermark) == (0, END, END)


async def test_an_aborted_transaction_that_is_not_listed_is_read() -> None:
    history, _ = await drained(committed=True, aborted=[])
    (poll,) = history.of(TxnPolled)
    assert [offset for offset, _ in poll.records] == [0, 1, 2, 5, 7]


@pytest.mark.parametrize("aborted", [None, []])
async def test_without_isolation_all_records_are_read_and_the_markers_are_told(aborted: Any) -> None:
    history, levels = await drained(committed=False, aborted=aborted)
    assert levels == [0]
    (poll,) = history.of(Polled)
    assert [offset for offset, _ in poll.records] == [0, 1, 2, 5, 7]
    markers = [(each.offset, each.producer_id, each.committed, each.final) for each in history.of(TxnMarker)]
    assert markers == [(3, 1, False, True), (4, 2, True, True), (6, 1, True, True)]
