"""Transactions of transaction.version 2 in a cluster, over real sockets: each has an epoch of its own (KIP-890)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.topic_name import TRANSACTION_STATE_TOPIC
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.end_txn import EndTxnRequest
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, iter_batches
from tests.broker.cluster.test_cluster import PATIENCE_MS, client, config, create, until
from tests.broker.cluster.test_cluster_transactions import TransactionalProducer, is_stable

PARTITIONS = [TopicPartition("orders", index) for index in range(3)]
ID = "billing"


class BumpingProducer(TransactionalProducer):
    """A producer that adds no partitions by itself, and goes on with the epoch that each end tells."""

    async def init(self) -> None:
        init = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
        given = await self._until_done(self._coordinator, ApiKey.INIT_PRODUCER_ID, 5, init)
        self._producer = given.producer_id, given.producer_epoch

    def produce_request(self, tp: TopicPartition, epoch: int) -> ProduceRequest:
        records = build_batch(
            [Record(0, 1_700_000_000_000, None, b"value")],
            producer_id=self._producer[0],
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        data = PartitionProduceData(index=tp.partition, records=records)
        topics = [TopicProduceData(name="orders", partition_data=[data])]
        return ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=PATIENCE_MS, topic_data=topics)

    async def produce(self) -> None:
        for tp in PARTITIONS:
            await self._until_done(tp, ApiKey.PRODUCE, 12, self.produce_request(tp, self._producer[1]))

    def end_request(self, epoch: int, committed: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=ID, producer_id=self._producer[0], producer_epoch=epoch, committed=committed
        )

    async def finish(self, committed: bool) -> None:
        request = self.end_request(self._producer[1], committed)
        answer = await self._until_done(self._coordinator, ApiKey.END_TXN, 5, request)
        self._producer = answer.producer_id, answer.producer_epoch

    async def late_produce(self, epoch: int) -> ErrorCode:
        answer: Any = await self._ask(PARTITIONS[0], ApiKey.PRODUCE, 12, self.produce_request(PARTITIONS[0], epoch))
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def late_end(self, epoch: int, committed: bool) -> ErrorCode:
        answer: Any = await self._ask(self._coordinator, ApiKey.END_TXN, 5, self.end_request(epoch, committed))
        return ErrorCode(answer.error_code)


def epochs(cluster: Cluster, producer: BumpingProducer, tp: TopicPartition) -> list[tuple[int, bool]]:
    """The epoch of each batch of the leader's log, and whether it is a marker."""
    leader = producer.leader(tp)
    assert leader is not None
    log = leader.replicas.partitions[tp].log
    read = log.read(0, max_bytes=1_000_000, end_offset=log.log_end_offset)
    return [(header.producer_epoch, header.is_control) for header, _ in iter_batches(b"".join(read.parts))]


@asynccontextmanager
async def bumping_producer() -> AsyncIterator[tuple[Cluster, BumpingProducer]]:
    """A producer without a transaction yet, in a cluster that has its topic."""
    async with Cluster(config()) as cluster:
        await create(cluster, partitions=len(PARTITIONS))
        connections: dict[int, PeerConnection] = {}
        connection = await client(cluster.brokers[0])
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[ID])
        await connection.request(ApiKey.FIND_COORDINATOR, 4, find, timeout_ms=PATIENCE_MS)
        await until(lambda: all(TRANSACTION_STATE_TOPIC in broker.image.topics for broker in cluster.brokers))
        producer = BumpingProducer(cluster, ID, connections)
        await producer.init()
        yield cluster, producer
        for each in (connection, *connections.values()):
            each.close()


async def test_each_transaction_has_an_epoch_and_what_is_late_reaches_no_other() -> None:
    async with bumping_producer() as (cluster, producer):
        for nth in range(3):
            assert producer._producer[1] == nth
            await producer.produce()
            await producer.finish(committed=nth != 1)
        await producer.produce()
        assert await producer.late_end(0, committed=True) == ErrorCode.PRODUCER_FENCED
        assert await producer.late_end(2, committed=True) == ErrorCode.PRODUCER_FENCED
        assert await producer.late_produce(0) == ErrorCode.INVALID_PRODUCER_EPOCH
        await producer.finish(committed=True)
        assert await producer.late_end(3, committed=True) == ErrorCode.NONE, "the answer may have been lost"
        await until(lambda: all(is_stable(cluster, tp) for tp in PARTITIONS))
        for tp in PARTITIONS:
            expected = [each for nth in range(4) for each in ((nth, False), (nth + 1, True))]
            assert epochs(cluster, producer, tp) == expected


async def test_a_producer_that_aborts_at_once_after_each_commit_is_never_fenced() -> None:
    async with bumping_producer() as (cluster, producer):
        for _ in range(5):
            await producer.produce()
            await producer.finish(committed=True)
            assert await producer.late_end(producer._producer[1], committed=False) == ErrorCode.NONE
            await producer.init()
        await until(lambda: all(is_stable(cluster, tp) for tp in PARTITIONS))
