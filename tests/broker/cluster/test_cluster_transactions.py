"""Transactions of a cluster, over real sockets: each ends on all its partitions, whichever broker is killed."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.layers.faults.rule import parse_rule
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.topic_name import TRANSACTION_STATE_TOPIC
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from purgatorio.protocol.messages.end_txn import EndTxnRequest
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, iter_batches
from tests.broker.cluster.test_cluster import PATIENCE_MS, client, config, create, until

PARTITIONS = [TopicPartition("orders", index) for index in range(6)]
PRODUCERS = 20


class TransactionalProducer:
    """One transactional id, whose requests are sent until they succeed."""

    def __init__(self, cluster: Cluster, name: str, connections: dict[int, PeerConnection]) -> None:
        self._cluster = cluster
        self._name = name
        self._connections = connections
        self._producer = (-1, -1)

    def leader(self, tp: TopicPartition) -> Broker | None:
        """The running broker that leads the partition, as the newest image says."""
        state = self._cluster.store.image.partition(*tp)
        running = (each for each in self._cluster.brokers if each.is_running)
        return next((each for each in running if state is not None and each.broker_id == state.leader), None)

    async def _ask(self, tp: TopicPartition, key: ApiKey, version: int, request: object) -> Any:
        """The answer of the partition's leader; None if there is none, or the connection to it is lost."""
        broker = self.leader(tp)
        if broker is None:
            return None
        try:
            connection = self._connections.get(broker.broker_id)
            if connection is None or connection.closed:
                connection = self._connections[broker.broker_id] = await client(broker)
            return await connection.request(key, version, request, timeout_ms=PATIENCE_MS)
        except OSError:
            return None

    async def _until_done(self, tp: TopicPartition, key: ApiKey, version: int, request: object) -> Any:
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while True:
                response = await self._ask(tp, key, version, request)
                code = ErrorCode.NOT_COORDINATOR if response is None else _code(response)
                if code == ErrorCode.NONE:
                    return response
                assert code.retriable, code
                await asyncio.sleep(0.005)

    @property
    def _coordinator(self) -> TopicPartition:
        topic = self._cluster.store.image.topics[TRANSACTION_STATE_TOPIC]
        return TopicPartition(TRANSACTION_STATE_TOPIC, coordinator_partition(self._name, len(topic.partitions)))

    async def begin(self) -> None:
        """Write a record to each partition."""
        init = InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=60_000)
        given = await self._until_done(self._coordinator, ApiKey.INIT_PRODUCER_ID, 4, init)
        self._producer = given.producer_id, given.producer_epoch
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=given.producer_id,
            v3_and_below_producer_epoch=given.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name="orders", partitions=[tp.partition for tp in PARTITIONS])
            ],
        )
        await self._until_done(self._coordinator, ApiKey.ADD_PARTITIONS_TO_TXN, 3, add)
        records = build_batch(
            [Record(0, 1_700_000_000_000, None, self._name.encode())],
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        for tp in PARTITIONS:
            data = TopicProduceData(
                name="orders", partition_data=[PartitionProduceData(index=tp.partition, records=records)]
            )
            produce = ProduceRequest(transactional_id=self._name, acks=-1, timeout_ms=PATIENCE_MS, topic_data=[data])
            await self._until_done(tp, ApiKey.PRODUCE, 11, produce)

    async def end(self, committed: bool) -> None:
        """End the transaction; its markers are written later."""
        producer_id, epoch = self._producer
        end = EndTxnRequest(
            transactional_id=self._name, producer_id=producer_id, producer_epoch=epoch, committed=committed
        )
        await self._until_done(self._coordinator, ApiKey.END_TXN, 3, end)


def _code(response: Any) -> ErrorCode:
    """The first error of a response."""
    if hasattr(response, "error_code") and not hasattr(response, "results_by_transaction"):
        return ErrorCode(response.error_code)
    if hasattr(response, "responses"):
        return ErrorCode(response.responses[0].partition_responses[0].error_code)
    codes = [
        each.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    return ErrorCode(next(filter(None, codes), 0))


async def begin_all(cluster: Cluster) -> list[TransactionalProducer]:
    await create(cluster, partitions=len(PARTITIONS))
    connection = await client(cluster.brokers[0])
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=["billing-0"])
    await connection.request(ApiKey.FIND_COORDINATOR, 4, find, timeout_ms=PATIENCE_MS)
    connection.close()
    await until(lambda: all(TRANSACTION_STATE_TOPIC in broker.image.topics for broker in cluster.brokers))
    connections: dict[int, PeerConnection] = {}
    producers = [TransactionalProducer(cluster, f"billing-{nth}", connections) for nth in range(PRODUCERS)]
    await asyncio.gather(*(producer.begin() for producer in producers))
    return producers


def is_stable(cluster: Cluster, tp: TopicPartition) -> bool:
    """Whether every record of the partition can be read under read_committed."""
    state = cluster.store.image.partition(*tp)
    for broker in cluster.brokers:
        if broker.is_running and state is not None and broker.broker_id == state.leader:
            log = broker.replicas.partitions[tp].log
            return log.last_stable_offset(log.high_watermark) == log.log_end_offset
    return False


def markers_by_producer(cluster: Cluster, tp: TopicPartition) -> dict[int, set[int]]:
    """The epochs of the markers in the leader's log."""
    state = cluster.store.image.partition(*tp)
    (leader,) = (each for each in cluster.brokers if state is not None and each.broker_id == state.leader)
    log = leader.replicas.partitions[tp].log
    read = log.read(0, max_bytes=10_000_000, end_offset=log.log_end_offset)
    found: dict[int, set[int]] = {}
    for header, _ in iter_batches(b"".join(read.parts)):
        if header.is_control:
            found.setdefault(header.producer_id, set()).add(header.producer_epoch)
    return found


@pytest.mark.parametrize("killed", [None, 0, 1, 2])
async def test_every_transaction_ends_on_all_its_partitions_whichever_broker_is_killed(killed: int | None) -> None:
    """Each broker leads partitions of the transactions, and coordinates some of them."""
    async with Cluster(config()) as cluster:
        producers = await begin_all(cluster)
        ends = [asyncio.create_task(each.end(committed=nth % 2 == 0)) for nth, each in enumerate(producers)]
        await ends[0]
        if killed is not None:
            await cluster.kill_broker(cluster.brokers[killed].broker_id)
        await asyncio.gather(*ends)
        await until(lambda: all(is_stable(cluster, tp) for tp in PARTITIONS))
        for tp in PARTITIONS:
            assert len(markers_by_producer(cluster, tp)) == PRODUCERS
        for producer in producers:
            for connection in producer._connections.values():
                connection.close()


async def test_a_marker_that_its_leader_refuses_waits_in_a_purgatory() -> None:
    async with Cluster(config()) as cluster:
        producers = await begin_all(cluster)
        rule = cluster.faults.add(parse_rule({"api": "WriteTxnMarkers", "error": "NOT_ENOUGH_REPLICAS"}))
        await asyncio.gather(*(each.end(committed=True) for each in producers))

        def waits() -> list[str]:
            return [
                in_words(operation.causes)
                for broker in cluster.brokers
                for purgatory in broker.purgatories
                if purgatory.name == "Marker"
                for operation in purgatory.operations()
            ]

        await until(lambda: any(", with " in each for each in waits()))
        assert re.match(
            r"orders-\d: the end marker of billing-\d+(, with \d+ others?,)? waits for broker \d, which leads it: "
            r"\d+ ms, \w+ try, NOT_ENOUGH_REPLICAS",
            waits()[0],
        )
        rule.release()
        await until(lambda: all(is_stable(cluster, tp) for tp in PARTITIONS) and not waits())
        for producer in producers:
            for connection in producer._connections.values():
                connection.close()
