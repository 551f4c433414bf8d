"""A real cluster with transactions, which a user watches and aborts over HTTP."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch

TIMEOUT_MS = 20_000
ORDERS = TopicPartition("orders", 0)
TRANSACTIONS = 1


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(ClusterConfig(port=0, admin_port=0), seed=1) as running:
        yield running


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=cluster.admin_url.replace("localhost", "127.0.0.1")) as asking:
        yield asking


class Peers:
    """Connections to the brokers, as a client has them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.open: dict[int, PeerConnection] = {}

    async def ask(self, broker_id: int, api_key: ApiKey, version: int, request: Any) -> Any:
        peer = self.open.get(broker_id)
        if peer is None:
            peer = self.open[broker_id] = PeerConnection(self.cluster.clock, client_id="reader")
            await peer.connect(*self.broker(broker_id).address)
        return await peer.request(api_key, version, request, timeout_ms=TIMEOUT_MS)

    def broker(self, broker_id: int) -> Broker:
        return next(broker for broker in self.cluster.brokers if broker.broker_id == broker_id)

    @property
    def leader(self) -> Broker:
        state = self.cluster.brokers[0].image.partition(*ORDERS)
        assert state is not None
        return self.broker(state.leader)


@pytest.fixture
async def peers(cluster: Cluster) -> AsyncIterator[Peers]:
    """Connections to a cluster with a topic of one partition."""
    made = Peers(cluster)
    topics = CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=3)])
    answer = await made.ask(1, ApiKey.CREATE_TOPICS, 5, topics)
    assert answer.topics[0].error_code == ErrorCode.NONE
    yield made
    for peer in made.open.values():
        peer.close()


async def until(ask: Callable[[], Any]) -> Any:
    """The answer, as soon as there is one that is true."""
    async with asyncio.timeout(10):
        while not (answer := await ask()):
            pass  # to ask again takes a while
    return answer


async def begin(peers: Peers, transactional_id: str) -> int:
    """Open a transaction with a record; returns the producer id."""

    async def coordinator() -> Any:
        request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTIONS)
        found = await peers.ask(1, ApiKey.FIND_COORDINATOR, 3, request)
        return found if found.error_code == ErrorCode.NONE else None

    broker_id = (await until(coordinator)).node_id

    async def init() -> Any:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        answer = await peers.ask(broker_id, ApiKey.INIT_PRODUCER_ID, 4, request)
        return answer if answer.error_code == ErrorCode.NONE else None

    producer = await until(init)
    added = await peers.ask(
        broker_id,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
        ),
    )
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == ErrorCode.NONE
    data = PartitionProduceData(index=0, records=batch(producer.producer_id))
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(name="orders", partition_data=[data])],
    )
    produced = await peers.ask(peers.leader.broker_id, ApiKey.PRODUCE, 9, request)
    assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return int(producer.producer_id)


def batch(producer_id: int) -> bytes:
    record = Record(0, 1_700_000_000_000, None, b"paid", ())
    return build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


async def test_a_read_committed_fetch_waits_for_a_transaction_until_it_is_aborted(
    client: httpx.AsyncClient, peers: Peers
) -> None:
    await begin(peers, "billing-1")
    wanted = FetchPartition(partition=0, fetch_offset=0, current_leader_epoch=-1, partition_max_bytes=1_000)
    request = FetchRequest(
        max_wait_ms=TIMEOUT_MS,
        min_bytes=1,
        max_bytes=1_000,
        isolation_level=1,
        session_epoch=-1,
        topics=[FetchTopic(topic="orders", partitions=[wanted])],
    )
    fetch = asyncio.create_task(peers.ask(peers.leader.broker_id, ApiKey.FETCH, 11, request))

    async def missing() -> str:
        state = (await client.get("/api/v1/state")).json()
        operations = [each for broker in state["brokers"] for each in broker["purgatories"][1]["operations"]]
        return next((each["missing"] for each in operations if each["kind"] == "consumer fetch"), "")

    waits = r"orders-0 from 0 waits for the transaction of `billing-1` \(open \d\.\d s, times out in [56]\d\.\d s\)"
    assert re.search(waits, await until(missing))
    (partition,) = [each for each in (await client.get("/api/v1/state")).json()["partitions"] if not each["internal"]]
    assert (partition["last_stable_offset"], partition["high_watermark"]) == (0, 1)
    assert re.search(r"`billing-1`, open \d\.\d s, times out in [56]\d\.\d s", partition["held_by"]["says"])
    aborted = await client.post("/api/v1/transactions/billing-1/abort", json={})
    assert (aborted.status_code, aborted.json()["state"]) == (200, "aborted")
    data = (await fetch).responses[0].partitions[0]
    assert (data.last_stable_offset, len(data.aborted_transactions)) == (2, 1)
    assert (await client.get("/api/v1/state")).json()["transaction_counts"]["aborted"] == 1


async def test_a_hanging_transaction_is_found_and_ended_beside_one_that_is_known(
    client: httpx.AsyncClient, peers: Peers
) -> None:
    known = await begin(peers, "billing-1")
    hanging = known + 10_000
    peers.leader.replicas.append(
        [(ORDERS, batch(hanging))], acks=1, timeout_ms=0, done=lambda _: None, from_client=False
    )
    listed = (await client.get("/api/v1/hanging-transactions")).json()["transactions"]
    assert [(row["topic"], row["partition"], row["producer_id"]) for row in listed] == [("orders", 0, hanging)]
    body = {"topic": "orders", "partition": 0}
    refused = await client.post("/api/v1/hanging-transactions/abort", json={**body, "producer_id": known})
    assert (refused.status_code, refused.json()["error"].rpartition("; ")[2]) == (409, "abort billing-1 instead")
    ended = await client.post("/api/v1/hanging-transactions/abort", json={**body, "producer_id": hanging})
    assert ended.status_code == 200, ended.text
    assert (await client.get("/api/v1/hanging-transactions")).json()["transactions"] == []
    (open_one,) = (await client.get("/api/v1/transactions?state=Ongoing")).json()["transactions"]
    assert open_one["producer_id"] == known
