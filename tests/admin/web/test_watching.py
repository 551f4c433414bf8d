"""A real cluster with parked requests, which a user watches and expires over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch

TIMEOUT_MS = 20_000


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(ClusterConfig(port=0, admin_port=0), seed=1) as running:
        yield running


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=cluster.admin_url.replace("localhost", "127.0.0.1")) as asking:
        yield asking


@pytest.fixture
async def producer(cluster: Cluster) -> AsyncIterator[PeerConnection]:
    """A connection to broker 1, which leads one partition of the topic."""
    peer = PeerConnection(cluster.clock, client_id="test")
    await peer.connect(*cluster.brokers[0].address)
    topics = CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=3, replication_factor=3)])
    answer: CreateTopicsResponse = await peer.request(ApiKey.CREATE_TOPICS, 5, topics, timeout_ms=TIMEOUT_MS)
    assert answer.topics[0].error_code == ErrorCode.NONE
    yield peer
    peer.close()


def produce_request(partition: int) -> ProduceRequest:
    batch = build_batch([Record(0, 1_700_000_000_000, None, b"hello", ())])
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[TopicProduceData(name="orders", partition_data=[data])]
    )


async def parked_produce(client: httpx.AsyncClient, missing: str) -> dict[str, Any]:
    """The operation in broker 1's Produce purgatory, as soon as it misses just this."""
    async with asyncio.timeout(10):
        while True:
            state = (await client.get("/api/v1/state")).json()
            for operation in state["brokers"][0]["purgatories"][0]["operations"]:
                if operation["missing"] == missing:
                    found: dict[str, Any] = operation
                    return found


async def test_a_produce_that_waits_is_seen_with_the_follower_it_waits_for_and_can_be_expired(
    cluster: Cluster, client: httpx.AsyncClient, producer: PeerConnection
) -> None:
    led = next(partition.tp for partition in cluster.brokers[0].partitions if partition.is_leader)
    assert (await client.get("/readyz")).json() == {"ready": True, "missing": []}
    request = produce_request(led.partition)
    first: ProduceResponse = await producer.request(ApiKey.PRODUCE, 9, request, timeout_ms=TIMEOUT_MS)
    assert first.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    assert (await client.post("/api/v1/brokers/3/follower", json={"held": True})).status_code == 200
    waiting = asyncio.create_task(producer.request(ApiKey.PRODUCE, 9, request, timeout_ms=TIMEOUT_MS))
    operation = await parked_produce(client, f"{led}: broker 3 is at 1 of 2")
    assert operation["keys"] == [str(led)]

    path = f"/api/v1/brokers/1/purgatories/Produce/operations/{operation['id']}/expire"
    assert (await client.post(path, json={})).status_code == 200
    second: ProduceResponse = await waiting
    assert second.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    finished = (await client.get("/api/v1/finished?limit=1000")).json()["finished"]
    ended = next(row for row in finished if (row["kind"], row["id"]) == ("produce", operation["id"]))
    assert (ended["broker"], ended["outcome"], ended["detail"]) == (1, "expired", operation["missing"])
    assert (ended["client"], ended["held_by"]) == (operation["client"], [3])
    series = 'delayedproducemetrics_expires_total{broker="1",topic="orders"} 1.0'
    assert series in (await client.get("/metrics")).text


async def test_every_purgatory_is_shown_and_counted(cluster: Cluster, client: httpx.AsyncClient) -> None:
    names = ["Produce", "Fetch", "ShareFetch", "DeleteRecords", "topic", "ElectLeader", "Rebalance", "Heartbeat"]
    names += ["Transaction", "TransactionTimeout"]
    state = (await client.get("/api/v1/state")).json()
    metrics = (await client.get("/metrics")).text
    for broker in state["brokers"]:
        assert [purgatory["name"] for purgatory in broker["purgatories"]] == names
        for name in names:
            labels = f'{{broker="{broker["id"]}",delayedOperation="{name}"}}'
            for gauge in ("purgatorysize", "numdelayedoperations"):
                assert f"kafka_server_delayedoperationpurgatory_{gauge}{labels} " in metrics


async def test_a_topic_that_is_not_created_while_the_metadata_are_out_of_reach_is_seen_and_can_be_expired(
    cluster: Cluster, client: httpx.AsyncClient, producer: PeerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.brokers[0].store, "submit", lambda *args, **kwargs: None)
    topics = CreateTopicsRequest(topics=[CreatableTopic(name="payments", num_partitions=1, replication_factor=3)])
    asking = asyncio.create_task(producer.request(ApiKey.CREATE_TOPICS, 5, topics, timeout_ms=TIMEOUT_MS))
    path = "/api/v1/brokers/1/purgatories/topic"
    async with asyncio.timeout(10):
        while not (operations := (await client.get(path)).json()["operations"]):
            pass
    (operation,) = operations
    assert (operation["kind"], operation["keys"]) == ("topic", ["payments"])
    assert operation["missing"] == "the metadata store has not decided yet"
    assert (await client.post(f"{path}/operations/{operation['id']}/expire", json={})).status_code == 200
    answer: CreateTopicsResponse = await asking
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
