"""Transactions of a producer with transaction.version 2, over the sockets of a cluster (KIP-890).

These requests are made by hand, so that late ones can be among them; `tests/compat/transactions` has real clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.end_txn import EndTxnRequest
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.cluster.test_cluster import PATIENCE_MS, client, config, create, leader_of, until

ID = "billing-1"
PARTITIONS = [TopicPartition("orders", index) for index in range(3)]
TRANSACTIONS = 8


class Producer:
    """A producer of transactions with one batch in flight for each partition."""

    def __init__(self, cluster: Cluster, connections: dict[int, PeerConnection]) -> None:
        self._cluster = cluster
        self._connections = connections
        self._coordinator = -1
        self.id = self.epoch = -1

    async def _ask(self, broker_id: int, key: ApiKey, version: int, request: object) -> Any:
        return await self._connections[broker_id].request(key, version, request, timeout_ms=PATIENCE_MS)

    async def _ask_until_it_works(self, broker_id: int, key: ApiKey, version: int, request: object) -> Any:
        """Ask again while coordinators are elected and loaded."""
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while True:
                response = await self._ask(broker_id, key, version, request)
                answer = response.coordinators[0] if key == ApiKey.FIND_COORDINATOR else response
                if answer.error_code == ErrorCode.NONE:
                    return answer

    async def init(self) -> None:
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[ID])
        self._coordinator = (await self._ask_until_it_works(1, ApiKey.FIND_COORDINATOR, 4, find)).node_id
        request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=PATIENCE_MS)
        given = await self._ask_until_it_works(self._coordinator, ApiKey.INIT_PRODUCER_ID, 5, request)
        self.id, self.epoch = given.producer_id, given.producer_epoch

    async def send(self, tp: TopicPartition, sequence: int, *, epoch: int) -> ErrorCode:
        """Produce a record in version 12, which adds the partition to the transaction."""
        batch = build_batch(
            [Record(0, 1_700_000_000_000, None, b"value")],
            producer_id=self.id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = [PartitionProduceData(index=tp.partition, records=batch)]
        topics = [TopicProduceData(name=tp.topic, partition_data=data)]
        request = ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=PATIENCE_MS, topic_data=topics)
        response = await self._ask(leader_of(self._cluster, tp).broker_id, ApiKey.PRODUCE, 12, request)
        return ErrorCode(response.responses[0].partition_responses[0].error_code)

    async def end(self, *, committed: bool) -> None:
        """End the transaction; the answer has the epoch of the next one."""
        request = EndTxnRequest(
            transactional_id=ID, producer_id=self.id, producer_epoch=self.epoch, committed=committed
        )
        ended = await self._ask(self._coordinator, ApiKey.END_TXN, 5, request)
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, self.id, self.epoch + 1)
        self.epoch += 1


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(config()) as running:
        await create(running, partitions=len(PARTITIONS))
        yield running


@pytest.fixture
async def producer(cluster: Cluster) -> AsyncIterator[Producer]:
    connections = {broker.broker_id: await client(broker) for broker in cluster.brokers}
    yield Producer(cluster, connections)
    for connection in connections.values():
        connection.close()


async def test_transactions_that_follow_each_other_at_once_have_their_epochs_and_none_hangs(
    cluster: Cluster, producer: Producer
) -> None:
    await producer.init()
    for nth in range(TRANSACTIONS):
        for sequence in range(2):  # the first meets the markers of the last transaction, on their way
            sent = [producer.send(tp, sequence, epoch=producer.epoch) for tp in PARTITIONS]
            assert await asyncio.gather(*sent) == [ErrorCode.NONE] * len(PARTITIONS)
        if nth:
            late = await producer.send(PARTITIONS[0], 2, epoch=producer.epoch - 1)
            assert late == ErrorCode.INVALID_PRODUCER_EPOCH
        await producer.end(committed=nth % 2 == 0)
    for tp in PARTITIONS:
        leader = _replica(leader_of(cluster, tp), tp)
        await until(partial(_is_stable, leader))
        assert leader.log.log_end_offset == TRANSACTIONS * 3
        assert len(leader.log.producers.aborted) == TRANSACTIONS / 2
        assert not leader.verifications


async def test_after_the_end_nothing_opens_a_transaction_that_its_coordinator_does_not_know(
    cluster: Cluster, producer: Producer
) -> None:
    await producer.init()
    assert await producer.send(PARTITIONS[0], 0, epoch=producer.epoch) == ErrorCode.NONE
    await producer.end(committed=True)
    leader = _replica(leader_of(cluster, PARTITIONS[0]), PARTITIONS[0])
    await until(partial(_is_stable, leader))
    late = await producer.send(PARTITIONS[0], 1, epoch=producer.epoch - 1)
    elsewhere = await producer.send(PARTITIONS[1], 0, epoch=producer.epoch - 1)
    assert (late, elsewhere) == (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert leader.log.producers.open_count == 0


def _is_stable(replica: Partition) -> bool:
    return replica.last_stable_offset == replica.log.log_end_offset


def _replica(broker: Broker, tp: TopicPartition) -> Partition:
    replica = broker.replica(tp)
    assert replica is not None
    return replica
