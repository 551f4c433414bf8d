"""Three brokers with a tier, over real sockets: a read is held, seen and let go; followers begin behind what it has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations.control.group_control import GroupControl
from purgatorio.admin.operations.control.offset_resets import ResetTarget
from purgatorio.admin.operations.records import ReadRecords
from purgatorio.broker.causes.kinds import FAULT, REMOTE_FETCH, SHARE_FETCH
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.cluster.errors import ClusterUnavailable
from purgatorio.broker.layers.faults import parse_fault
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica import tiering
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.tier import obstore_store
from purgatorio.broker.tier.store import Refused, Unavailable
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from purgatorio.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from purgatorio.protocol.messages.delete_topics import DeleteTopicsRequest
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from purgatorio.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.messages.share_acknowledge import AcknowledgementBatch
from purgatorio.protocol.messages.share_fetch import FetchPartition as SharePartition
from purgatorio.protocol.messages.share_fetch import FetchTopic as ShareTopic
from purgatorio.protocol.messages.share_fetch import ShareFetchRequest
from purgatorio.protocol.records import iter_batches
from tests.broker.cluster.test_cluster import ORDERS, PATIENCE_MS, client, config, until
from tests.broker.cluster.test_cluster_share_groups import ask, find, heartbeat
from tests.broker.replica.tiered import TIERED, record_batch
from tests.broker.tier.stores import TestStore


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> TestStore:
    """The store of the location "memory"."""
    made = TestStore()
    monkeypatch.setattr(obstore_store, "open_store", lambda location: made)
    return made


@pytest.fixture
async def cluster(store: TestStore) -> AsyncIterator[Cluster]:
    """A cluster with orders-0, of which only the tier has the first four batches of seven."""
    async with Cluster(config(tier_location="memory", replica_fetch_wait_max_ms=20)) as running:
        await fill(running)
        yield running


async def fill(running: Cluster) -> None:
    """Create orders-0, of which only the tier has the first four batches of seven then."""
    connection = await client(running.brokers[0])
    configs = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in TIERED.items()]
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=3, configs=configs)
    request = CreateTopicsRequest(topics=[topic])
    response = await connection.request(ApiKey.CREATE_TOPICS, 7, request, timeout_ms=PATIENCE_MS)
    assert response.topics[0].error_code == ErrorCode.NONE, response.topics[0].error_message
    connection.close()
    await until(lambda: all(broker.replica(ORDERS) is not None for broker in running.brokers))
    await produce(leader_of(running), 7)
    await until(lambda: all(high_watermark(broker) == 7 for broker in running.brokers))
    await copy(running)


def leader_of(cluster: Cluster) -> Broker:
    return next(broker for broker in cluster.brokers if (replica := broker.replica(ORDERS)) and replica.is_leader)


def high_watermark(broker: Broker) -> int:
    replica = broker.replica(ORDERS)
    return -1 if replica is None else replica.high_watermark


async def produce(leader: Broker, count: int) -> None:
    connection = await client(leader)
    for _ in range(count):
        data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=record_batch())])
        request = ProduceRequest(acks=-1, timeout_ms=PATIENCE_MS, topic_data=[data])
        response = await connection.request(ApiKey.PRODUCE, 9, request, timeout_ms=PATIENCE_MS)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    connection.close()


async def copy(cluster: Cluster) -> None:
    """Let the leader copy, the followers ask it what is copied, and all replicas delete."""
    for broker in (leader_of(cluster), *cluster.brokers):
        assert broker.tiering is not None
        await broker.tiering.round()
    replicas = [replica for broker in cluster.brokers if (replica := broker.replica(ORDERS))]
    await until(lambda: not any(replica.log.awaits_copy for replica in replicas))
    for broker in cluster.brokers:
        for _ in broker.replicas.retention_steps():
            pass


async def fetch(broker: Broker, offset: int) -> PartitionData:
    connection = await client(broker)
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=1_000_000, topics=[FetchTopic(topic="orders", partitions=[wanted])]
    )
    response = await connection.request(ApiKey.FETCH, 11, request, timeout_ms=PATIENCE_MS)
    connection.close()
    data: PartitionData = response.responses[0].partitions[0]
    return data


async def read_all(broker: Broker, count: int = 7) -> list[int]:
    """Read from the log's start to its end, as a consumer does."""
    offsets: list[int] = []
    while len(offsets) < count:
        data: Any = await fetch(broker, len(offsets))
        assert data.error_code == ErrorCode.NONE
        offsets += [header.base_offset for header, _ in iter_batches(data.records)]
    return offsets


async def test_a_read_is_held_and_seen_and_let_go_and_every_record_comes(cluster: Cluster, store: TestStore) -> None:
    leader = leader_of(cluster)
    store.gate.clear()
    fetching = asyncio.create_task(read_all(leader))
    waiting = leader.purgatory_of(REMOTE_FETCH)
    await until(lambda: waiting.num_delayed == 1)
    (operation,) = waiting.operations()
    assert in_words(operation.causes).startswith("waits for orders-0 [0, 2) to come back from the memory store: ")
    assert operation.client == "test"
    store.gate.set()
    assert await fetching == list(range(7))


async def test_a_fault_rule_holds_a_read_and_is_named_where_it_waits(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    parsed = parse_fault({"tier": "get", "topic": "orders", "broker": leader.broker_id, "hold": True, "name": "slow"})
    rule = cluster.faults.add(parsed)
    fetching = asyncio.create_task(read_all(leader))
    await until(lambda: rule.held == 1)
    (operation,) = leader.purgatory_of(FAULT).operations()
    assert list(map(str, operation.keys)) == ["slow", "orders-0"]
    assert in_words(operation.causes) == "tier get: slow holds it until it is released"
    cluster.faults.remove(rule.id)
    assert await fetching == list(range(7))


async def test_a_short_object_is_read_again_and_never_skipped(cluster: Cluster) -> None:
    rule = cluster.faults.add(parse_fault({"tier": "get", "truncate_bytes": 50, "count": 2}))
    assert await read_all(leader_of(cluster)) == list(range(7))
    assert rule.fired == 2


async def share_fetch(connection: PeerConnection, topic_id: bytes, epoch: int, done: list[tuple[int, int]]) -> Any:
    """Fetch as member "a" of group "jobs", and acknowledge what it had before."""
    acknowledged = [
        AcknowledgementBatch(first_offset=each[0], last_offset=each[1], acknowledge_types=[1]) for each in done
    ]
    wanted = SharePartition(partition_index=0, acknowledgement_batches=acknowledged)
    request = ShareFetchRequest(
        group_id="jobs",
        member_id="a",
        share_session_epoch=epoch,
        max_wait_ms=PATIENCE_MS,
        min_bytes=1,
        max_records=100,
        batch_size=100,
        topics=[ShareTopic(topic_id=topic_id, partitions=[wanted])],
    )
    response = await connection.request(ApiKey.SHARE_FETCH, 1, request, timeout_ms=PATIENCE_MS)
    (answer,) = response.responses[0].partitions
    assert (answer.error_code, answer.acknowledge_error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in answer.acquired_records]


async def test_a_share_group_waits_for_a_held_read_and_gets_every_record_once(
    cluster: Cluster, store: TestStore
) -> None:
    earliest = AlterableConfig(name="share.auto.offset.reset", value="earliest")
    group = AlterConfigsResource(resource_type=32, resource_name="jobs", configs=[earliest])
    request = IncrementalAlterConfigsRequest(resources=[group])
    answer = await ask(cluster.brokers[0], ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message
    await find(cluster)
    await heartbeat(cluster, "a", 0, "orders")
    leader = leader_of(cluster)
    topic_id = leader.image.topics["orders"].topic_id
    connection = await client(leader)
    store.gate.clear()
    first = asyncio.create_task(share_fetch(connection, topic_id, 0, []))
    waiting = leader.purgatory_of(SHARE_FETCH)
    await until(
        lambda: any("to come back from the memory store" in in_words(each.causes) for each in waiting.operations())
    )
    assert not [lock for share in leader.coordinators.led_shares.partitions for lock in share.locks()]
    store.gate.set()
    got = await first
    while got[-1][1] < 6:
        got += await share_fetch(connection, topic_id, len(got), [got[-1][:2]])
    connection.close()
    assert got == [(0, 1, 1), (2, 3, 1), (4, 6, 1)]


async def test_operators_read_what_only_the_tier_has_and_look_up_its_times(cluster: Cluster) -> None:
    operator: Any = SimpleNamespace(cluster=cluster)
    answer = await ReadRecords("orders", offset=1, limit=4).run(operator)
    assert [each["offset"] for each in answer["records"]] == [1, 2, 3, 4]
    ((index, records),) = await ReadRecords("orders").read(operator)
    assert (index, [each.offset for each in records]) == (0, list(range(7)))
    await find(cluster)
    control = GroupControl(cluster, lambda: cluster.store.image)
    (reset,) = await control.reset_offsets("billing", "orders", None, ResetTarget(timestamp_ms=1_700_000_000_000))
    assert reset.after == 0


async def test_followers_keep_no_more_than_the_leader(cluster: Cluster) -> None:
    logs = [replica.log for broker in cluster.brokers if (replica := broker.replica(ORDERS))]
    assert [(log.log_start_offset, log.local_start_offset, log.log_end_offset) for log in logs] == [(0, 4, 7)] * 3


async def test_a_broker_that_comes_back_empty_begins_behind_the_tier_and_can_lead(cluster: Cluster) -> None:
    others = [broker.broker_id for broker in cluster.brokers if broker is not leader_of(cluster)]
    for broker_id in (*others, leader_of(cluster).broker_id):
        await cluster.kill_broker(broker_id)
        await cluster.start_broker(broker_id)
        broker = cluster.broker(broker_id)
        await until(lambda broker=broker: in_sync(broker))  # type: ignore[misc]
        replica = broker.replica(ORDERS)
        assert replica is not None
        assert (replica.log.log_start_offset, replica.log.local_start_offset) == (0, 4)
    assert await read_all(leader_of(cluster)) == list(range(7))


def in_sync(broker: Broker) -> bool:
    replica = broker.replica(ORDERS)
    return replica is not None and broker.broker_id in replica.isr and replica.log.log_end_offset == 7


def test_a_folder_that_cannot_be_used_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(location: str) -> None:
        raise Refused(f"{location} is on a full disk")

    monkeypatch.setattr(obstore_store, "open_store", refuse)
    with pytest.raises(ValueError, match=r"^tier\.location: /x is on a full disk$"):
        Cluster(config(tier_location="/x"))


async def test_a_deleted_topic_leaves_nothing_in_the_store_though_its_leader_is_dead(
    cluster: Cluster, store: TestStore
) -> None:
    await cluster.kill_broker(leader_of(cluster).broker_id)
    await until(lambda: cluster.store.image.controller_id in {broker.broker_id for broker in cluster.brokers})
    controller = cluster.broker(cluster.store.image.controller_id)
    await until(lambda: controller.image.controller_id == controller.broker_id)
    assert controller.sweep is not None
    await controller.sweep.sweep()
    connection = await client(controller)
    request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=PATIENCE_MS)
    response = await connection.request(ApiKey.DELETE_TOPICS, 5, request, timeout_ms=PATIENCE_MS)
    assert response.responses[0].error_code == ErrorCode.NONE
    connection.close()
    await until(lambda: "orders" not in controller.image.topics)
    await controller.sweep.sweep()
    assert [key for key in store.objects if "/claims/" not in key] == []


async def delete_before(leader: Broker, offset: int) -> int:
    """Delete records as a client does; return the low watermark."""
    connection = await client(leader)
    wanted = DeleteRecordsTopic(name="orders", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    request = DeleteRecordsRequest(topics=[wanted], timeout_ms=PATIENCE_MS)
    response = await connection.request(ApiKey.DELETE_RECORDS, 2, request, timeout_ms=PATIENCE_MS)
    connection.close()
    result = response.topics[0].partitions[0]
    assert result.error_code == ErrorCode.NONE
    low_watermark: int = result.low_watermark
    return low_watermark


def described(folder: Path, start_offset: int) -> Path:
    return next(folder.glob(f"*/*/0/{start_offset:020d}-*.json"))


def has_leader(cluster: Cluster) -> bool:
    return any((replica := broker.replica(ORDERS)) and replica.is_leader for broker in cluster.brokers)


async def test_files_of_deleted_records_go_though_the_leader_dies_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setattr(tiering, "UNHEARD_MS", 0)  # the first leader is dead
    async with Cluster(config(tier_location=str(tmp_path), replica_fetch_wait_max_ms=20)) as running:
        await fill(running)

        def files(end: str) -> list[int]:
            return sorted(int(path.name.partition("-")[0]) for path in tmp_path.glob(f"*/*/0/*{end}"))

        assert (files(".log"), files(".json")) == ([0, 2, 4], [0, 2, 4])
        first = leader_of(running)
        assert first.tiering is not None
        assert await delete_before(first, 3) == 3
        await first.tiering.round()
        assert (files(".log"), files(".json")) == ([2, 4], [2, 4])
        (data,) = [await fetch(first, 3)]
        assert [header.base_offset for header, _ in iter_batches(data.records or [])] == [3]
        assert await delete_before(first, 6) == 6
        described(tmp_path, 2).unlink()  # so far came the leader with its deletions
        await running.kill_broker(first.broker_id)
        await until(lambda: has_leader(running))
        second = leader_of(running)
        await until(lambda: len(second.replica(ORDERS).isr) == 2)  # type: ignore[union-attr]
        assert second.tiering is not None
        for _ in range(2):  # it lists, and deletes
            await second.tiering.round()
        assert (files(".log"), files(".json")) == ([], [])
        assert (await fetch(second, 5)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await fetch(second, 6)).error_code == ErrorCode.NONE


# --- snapshots ---


async def test_a_snapshot_names_what_the_tier_has_and_a_restored_cluster_reads_it(
    cluster: Cluster, store: TestStore
) -> None:
    snapshot = cluster.snapshot()
    await produce(leader_of(cluster), 4)
    await copy(cluster)
    assert len(store.objects) > 8
    await cluster.restore(snapshot)
    leader = leader_of(cluster)
    assert await read_all(leader) == list(range(7))
    assert high_watermark(leader) == 7, "what came after the snapshot is not there"
    logs = [replica.log for broker in cluster.brokers if (replica := broker.replica(ORDERS))]
    assert [(log.log_start_offset, log.local_start_offset, log.log_end_offset) for log in logs] == [(0, 4, 7)] * 3
    await produce(leader, 4)
    await copy(cluster)
    at = 0
    while at < 11:
        at = await next_offset(leader, at)
    assert at == 11


async def test_what_the_tier_has_lost_since_a_snapshot_is_said_and_the_log_begins_behind_it(
    cluster: Cluster, store: TestStore, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = cluster.snapshot()
    for end in (".log", ".json"):
        del store.objects[store.key(end)]
    await cluster.restore(snapshot)
    leader = leader_of(cluster)
    replica = leader.replica(ORDERS)
    assert replica is not None
    assert (replica.log.log_start_offset, replica.log.local_start_offset) == (2, 4)
    assert (await fetch(leader, 0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert await next_offset(leader, 2) > 2
    assert "the tier has no more what a snapshot had there" in caplog.text
    assert "[0, 2)" in caplog.text


async def test_a_snapshot_is_not_restored_while_the_tier_does_not_say_what_it_has(
    cluster: Cluster, store: TestStore
) -> None:
    snapshot = cluster.snapshot()
    store.troubles["list"] = [Unavailable("503")] * 100
    with pytest.raises(ClusterUnavailable, match=r"^the tier does not say what it has of orders-0: 503$"):
        await cluster.restore(snapshot)
    store.troubles.clear()
    assert await read_all(leader_of(cluster)) == list(range(7)), "the cluster is as it was"


async def test_a_snapshot_waits_for_a_new_leader_to_list_the_tier(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    replica = leader.replica(ORDERS)
    assert replica is not None
    assert leader.tiering is not None
    leader.tiering.remote_of(replica).listed_in_epoch = -1
    with pytest.raises(ClusterUnavailable, match=r"what the tier has of orders-0; try again$"):
        cluster.snapshot()
    await leader.tiering.round()
    assert cluster.snapshot()


async def next_offset(broker: Broker, offset: int) -> int:
    """Read from an offset; return the one after what came."""
    data: Any = await fetch(broker, offset)
    assert data.error_code == ErrorCode.NONE
    return max(header.last_offset for header, _ in iter_batches(data.records)) + 1
