"""Tests of clusters that begin with the tier of an earlier one: after an end in order, and after a kill."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations.control import tier_keeping
from purgatorio.admin.operations.control.beginning import NO_BEGINNING, Beginning, with_tier
from purgatorio.admin.operations.control.tier_keeping import TierKeeper, earlier_cluster
from purgatorio.broker.cluster.snapshots import best_replicas
from purgatorio.broker.log.errors import MemoryExhausted
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.node.broker_maker import TierUnusable
from purgatorio.broker.tier import claim, obstore_store
from purgatorio.broker.tier.claim import ClaimLost, StoreClaim
from purgatorio.broker.tier.names import SegmentName
from purgatorio.broker.tier.store import MemoryStore, Refused
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from purgatorio.purgatory.clock import ManualClock
from tests.broker.cluster.test_cluster import ORDERS, PATIENCE_MS, client, config, leader_of, until
from tests.broker.cluster.test_cluster_tier import produce, read_all
from tests.broker.replica.tiered import TIERED, record_batch
from tests.error_log import ErrorLog

AUDIT = TopicPartition("audit", 0)

Begin = Callable[..., AbstractAsyncContextManager[tuple[Cluster, str]]]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """The store of every location, which outlives clusters."""
    made = MemoryStore()
    monkeypatch.setattr(obstore_store, "open_store", lambda location: made)
    return made


@asynccontextmanager
async def begun(store: MemoryStore, **settings: Any) -> AsyncIterator[tuple[Cluster, str]]:
    """A cluster that begins with what the store has, and what is said of that; it is killed at the end."""
    configured = config(tier_location="there").model_copy(update=settings)
    cluster = Cluster(configured, admin=False, cluster_id=await earlier_cluster(store))
    cluster.beginning, said = await with_tier(NO_BEGINNING, cluster)
    try:
        await cluster.start()
        yield cluster, said
    finally:
        await cluster.kill_all()
        await cluster.stop()


def keeper_of(cluster: Cluster) -> TierKeeper:
    assert isinstance(cluster.beginning, Beginning)
    assert cluster.beginning.tier is not None
    return cluster.beginning.tier


async def create(cluster: Cluster, name: str, *, is_tiered: bool) -> None:
    connection = await client(cluster.brokers[0])
    configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in TIERED.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=-1, configs=configs if is_tiered else [])
    request = CreateTopicsRequest(topics=[topic])
    response = await connection.request(ApiKey.CREATE_TOPICS, 7, request, timeout_ms=PATIENCE_MS)
    assert response.topics[0].error_code == ErrorCode.NONE
    connection.close()
    await until(lambda: all(name in broker.image.topics and broker.replicas.is_current for broker in cluster.brokers))


async def commit(cluster: Cluster, group: str, offset: int) -> None:
    """Commit an offset of orders-0."""
    coordinator = await coordinator_of(cluster, group)
    connection = await client(coordinator)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    request = OffsetCommitRequest(group_id=group, topics=[topic])
    response = await connection.request(ApiKey.OFFSET_COMMIT, 8, request, timeout_ms=PATIENCE_MS)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
    connection.close()


async def coordinator_of(cluster: Cluster, group: str) -> Broker:
    connection = await client(cluster.brokers[0])
    while True:
        request = FindCoordinatorRequest(key=group)
        found = await connection.request(ApiKey.FIND_COORDINATOR, 2, request, timeout_ms=PATIENCE_MS)
        if found.error_code == ErrorCode.NONE:
            break
    connection.close()
    broker = cluster.broker(found.node_id)
    await until(lambda: any(shard.is_active for shard in broker.groups.coordinator.shards))
    return broker


async def committed(cluster: Cluster, group: str) -> int:
    shards = (await coordinator_of(cluster, group)).groups.coordinator.shards
    return next(each.offsets.groups[group]["orders"][0].offset for each in shards if group in each.offsets.groups)


async def copy(cluster: Cluster) -> None:
    tiering = leader_of(cluster).tiering
    assert tiering is not None
    await tiering.round()


async def test_a_cluster_that_was_stopped_in_order_comes_back_whole(store: MemoryStore) -> None:
    async with begun(store) as (cluster, said):
        assert said == ""
        await create(cluster, "orders", is_tiered=True)
        await create(cluster, "audit", is_tiered=False)
        await produce(leader_of(cluster), 7)
        await commit(cluster, "billing", 5)
        image = cluster.store.image
        assert await keeper_of(cluster).end(await cluster.kill_all()) is None
    before = image.topics["orders"]
    async with begun(store) as (cluster, said):
        assert (
            said == "1 topic came back from the tier: orders (7 records, whole); audit was not tiered and begins empty"
        )
        topic = cluster.store.image.topics["orders"]
        assert cluster.cluster_id == image.cluster_id
        assert (topic.topic_id, topic.configs) == (before.topic_id, before.configs)
        assert topic.partitions[0].leader_epoch > before.partitions[0].leader_epoch
        assert await read_all(leader_of(cluster)) == list(range(7))
        assert await committed(cluster, "billing") == 5
        await produce(leader_of(cluster), 2)
        assert leader_of(cluster).replicas.partitions[ORDERS].log.log_end_offset == 9


async def test_a_cluster_that_was_killed_comes_back_with_what_was_copied(store: MemoryStore) -> None:
    async with begun(store) as (cluster, _):
        await create(cluster, "orders", is_tiered=True)
        await produce(leader_of(cluster), 7)
        await commit(cluster, "billing", 7)
        await commit(cluster, "shipping", 3)
        await until(lambda: all(each.replicas.partitions[ORDERS].high_watermark == 7 for each in cluster.brokers))
        await copy(cluster)
        await keeper_of(cluster).keep()
        next_producer_id = cluster.store.image.next_producer_id
    folder = next(key for key in store.objects if key.endswith(".log")).rpartition("/")[0]
    unfinished = f"{folder}/{SegmentName(6, 0, 1, '0' * 32)}.log"
    store.objects[unfinished] = b"of a copy that was killed"
    async with begun(store) as (cluster, said):
        assert said.startswith(
            "1 topic came back from the tier: orders (6 records, 1 lost). The cluster before was not"
        )
        for broker in cluster.brokers:
            log = broker.replicas.partitions[ORDERS].log
            assert (log.log_start_offset, log.local_start_offset, log.log_end_offset) == (0, 6, 6)
        assert await committed(cluster, "billing") == 6, "no offset is behind the end"
        assert await committed(cluster, "shipping") == 3
        assert cluster.store.image.next_producer_id >= next_producer_id + 1_000_000_000
        assert cluster.claim is not None
        assert cluster.claim.number == 2
        await produce(leader_of(cluster), 3)
        await copy(cluster)
        assert unfinished not in store.objects
        await keeper_of(cluster).keep()
        kept = [key for key in store.objects if key.startswith("clusters/")]
        assert [key.rpartition("/")[2] for key in sorted(kept)] == ["0000000002-snapshot-1", "0000000002.json"]
    async with begun(store, brokers=1) as (cluster, said):
        assert said.startswith("1 topic came back from the tier: orders (8 records, 1 lost).")
        assert cluster.store.image.topics["orders"].partitions[0].replicas == (1,)
        assert cluster.store.image.topics["orders"].partitions[0].leader_epoch == 202


async def test_what_cannot_be_read_is_refused_in_words(store: MemoryStore) -> None:
    async with begun(store) as (cluster, _):
        await create(cluster, "orders", is_tiered=True)
        await keeper_of(cluster).keep()
    (key,) = (key for key in store.objects if key.startswith("clusters/") and key.endswith(".json"))
    content = store.objects[key]
    store.objects[key] = json.dumps({**json.loads(content), "format": 2}).encode()
    with pytest.raises(TierUnusable, match=r"was written by a newer version .*; begin with that version"):
        async with begun(store):
            pass
    store.objects[key] = content.replace(b'"orders"', b'"orderz"')
    with pytest.raises(TierUnusable, match=r"in the memory store is damaged: .*; begin with another --tier$"):
        async with begun(store):
            pass
    store.objects["clusters/another/0000000001.json"] = content
    with pytest.raises(
        TierUnusable, match=r"the memory store has 2 clusters, .*; give the new one its own location, or remove"
    ):
        await earlier_cluster(store)


async def test_a_store_that_refuses_at_the_end_is_named_with_what_is_not_whole(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with begun(store) as (cluster, _):
        await create(cluster, "orders", is_tiered=True)
        await produce(leader_of(cluster), 3)

        async def refuse(*args: Any, **kwargs: Any) -> None:
            raise Refused("the disk is full")

        monkeypatch.setattr(store, "put", refuse)
        said = await keeper_of(cluster).end(await cluster.kill_all())
        assert said == "not all is in the tier, of orders-0 only what was copied before: the disk is full"


async def test_a_topic_that_cannot_be_copied_at_the_end_keeps_no_other_one_from_it(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with begun(store) as (cluster, _):
        await create(cluster, "audit", is_tiered=True)
        await create(cluster, "orders", is_tiered=True)
        await produce(leader_of(cluster), 7)
        await commit(cluster, "billing", 5)
        audit = leader_of(cluster, AUDIT).replicas.partitions[AUDIT]
        audit.log.append_as_leader(record_batch(), leader_epoch=audit.leader_epoch, wall_ms=1_700_000_000_000)
        put = store.put

        async def refuse_audit(key: str, parts: Sequence[Buffer], *, create: bool) -> None:
            if audit.topic_id.hex() in key:
                raise Refused("it is too large")
            await put(key, parts, create=create)

        monkeypatch.setattr(store, "put", refuse_audit)
        said = await keeper_of(cluster).end(await cluster.kill_all())
        assert said == "not all is in the tier, of audit-0 only what was copied before: it is too large"
        monkeypatch.setattr(store, "put", put)
    async with begun(store) as (cluster, said):
        assert said.endswith("The cluster before was not stopped in order; if it still runs, it copies nothing more")
        assert await read_all(leader_of(cluster)) == list(range(7))
        assert await committed(cluster, "billing") == 5


async def test_a_marker_for_which_there_is_no_room_at_the_end_keeps_nothing_from_being_copied(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def abort(log: Log) -> int:
        raise MemoryExhausted("no room")

    async with begun(store) as (cluster, _):
        await create(cluster, "orders", is_tiered=True)
        await produce(leader_of(cluster), 7)
        monkeypatch.setattr(tier_keeping, "abort_transactions", abort)
        assert await keeper_of(cluster).end(await cluster.kill_all()) == "not all is in the tier: no room"
    async with begun(store) as (cluster, _):
        assert await read_all(leader_of(cluster)) == list(range(7))


async def test_partitions_are_looked_at_in_turns(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    turn, looked_at = 0, list[int]()

    def in_turn(*args: Any) -> Iterator[Any]:
        for each in best_replicas(*args):
            looked_at.append(turn)
            yield each

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async with begun(store) as (cluster, _):
        for name in ("orders", "audit"):
            await create(cluster, name, is_tiered=False)
        monkeypatch.setattr(tier_keeping, "PARTITIONS_AT_ONCE", 1)
        monkeypatch.setattr(tier_keeping, "best_replicas", in_turn)
        counting = asyncio.create_task(count_turns())
        await keeper_of(cluster).keep()
        counting.cancel()
    assert len(looked_at) == len(set(looked_at)) == 2


async def test_a_claim_that_is_lost_while_offsets_are_written_is_noticed_before_the_metadata(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "CHECK_MS", 0)
    async with begun(store) as (cluster, _):
        await create(cluster, "orders", is_tiered=True)
        await commit(cluster, "billing", 0)
        put = store.put

        async def put_and_claim(key: str, parts: Sequence[Buffer], *, create: bool) -> None:
            await put(key, parts, create=create)
            if "-snapshot-" in key:
                monkeypatch.setattr(store, "put", put)
                await StoreClaim(store, cluster.clock, cluster.cluster_id, "another").hold()

        monkeypatch.setattr(store, "put", put_and_claim)
        with pytest.raises(ClaimLost):
            await keeper_of(cluster).keep()
        assert not [key for key in store.objects if key.startswith("clusters/") and key.endswith(".json")]


async def test_nothing_is_written_while_nothing_changes(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async with begun(store) as (cluster, _):
        keeper = keeper_of(cluster)
        await keeper.keep()
        before = dict(store.objects)

        async def unexpected(*args: Any, **kwargs: Any) -> None:
            raise AssertionError

        monkeypatch.setattr(store, "put", unexpected)
        await keeper.keep()
        assert store.objects == before


async def test_of_two_clusters_that_live_the_later_one_has_the_tier(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "CHECK_MS", 0)
    async with begun(store) as (first, _):
        await create(first, "orders", is_tiered=True)
        await produce(leader_of(first), 3)
        await copy(first)
        await keeper_of(first).keep()
        async with begun(store) as (second, said):
            assert said.endswith("if it still runs, it copies nothing more")
            await produce(leader_of(second), 3)
            await copy(second)
            await keeper_of(second).keep()
            before = dict(store.objects)
            await produce(leader_of(first), 4)
            await copy(first)
            tiering = leader_of(first).tiering
            assert tiering is not None
            assert tiering.trouble.startswith("another cluster has claimed the memory store for ")
            await create(first, "carts", is_tiered=True)
            with pytest.raises(ClaimLost):
                await keeper_of(first).keep()
            said_at_end = await keeper_of(first).end(await first.kill_all())
            assert said_at_end is not None
            assert said_at_end.startswith(
                "not all is in the tier, of orders-0 only what was copied before: another clu"
            )
            assert store.objects == before
            assert len(await read_all(leader_of(second), 5)) == 5


async def test_a_damaged_segment_is_named_before_anything_is_deleted(store: MemoryStore) -> None:
    async with begun(store) as (cluster, _):
        await create(cluster, "orders", is_tiered=True)
        await produce(leader_of(cluster), 7)
        assert await keeper_of(cluster).end(await cluster.kill_all()) is None
    keys = sorted(key for key in store.objects if key.endswith(".log"))
    assert len(keys) == 4
    store.objects[keys[1]] = store.objects[keys[1]][:-1]
    before = len(store.objects)
    with pytest.raises(
        TierUnusable, match=r"a segment of orders-0 that cannot be used, .*; remove its \.json and \.log to"
    ):
        async with begun(store):
            pass
    assert len(store.objects) == before + 1, "one more claim"
    for key in (keys[1], keys[1].replace(".log", ".json")):
        del store.objects[key]
    async with begun(store) as (_, said):
        assert said == "1 topic came back from the tier: orders (3 records, 4 lost)"


class Watched(MemoryStore):
    """A store that remembers what it had after each write and each deletion, as a process may be killed there."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[dict[str, bytes]] = []

    async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
        await super().put(key, parts, create=create)
        self.states.append(dict(self.objects))

    async def delete(self, key: str) -> None:
        await super().delete(key)
        self.states.append(dict(self.objects))


async def test_a_process_that_is_killed_at_any_step_of_its_end_leaves_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Watched()
    monkeypatch.setattr(obstore_store, "open_store", lambda location: store)
    async with begun(store) as (cluster, _):
        await create(cluster, "orders", is_tiered=True)
        await produce(leader_of(cluster), 7)
        await commit(cluster, "billing", 7)
        await keeper_of(cluster).keep()
        store.states.clear()
        assert await keeper_of(cluster).end(await cluster.kill_all()) is None
    ends = []
    for state in store.states:
        left = MemoryStore()
        left.objects = state
        monkeypatch.setattr(obstore_store, "open_store", lambda location, left=left: left)
        after = Cluster(config(tier_location="there"), admin=False, cluster_id=await earlier_cluster(left))
        assert after.claim is not None
        restart = await TierKeeper(after, after.claim).read()
        assert restart is not None
        ends.append(restart.snapshot.logs[ORDERS].end_offset)
        offsets = [log for tp, log in restart.snapshot.logs.items() if tp.topic == "__consumer_offsets" and log.batches]
        assert len(offsets) == 1
        for broker in after.brokers:
            broker.store.close()
    assert ends == sorted(ends)
    assert (ends[0], ends[-1]) == (0, 7)
    assert "whole" in restart.said


async def test_it_keeps_on_and_leaves_time_between(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, error_log: ErrorLog
) -> None:
    async with begun(store) as (cluster, _):
        clock, keeper, slept = ManualClock(), keeper_of(cluster), list[float]()
        answers = iter([(50, None), (400, Refused("no")), (0, AssertionError("a bug")), (0, ClaimLost("gone"))])

        async def keep() -> None:
            took_ms, error = next(answers)
            clock.advance_ms(took_ms)
            if error is not None:
                raise error

        async def sleep(delay_ms: float) -> None:
            slept.append(delay_ms)

        monkeypatch.setattr(clock, "sleep", sleep)
        monkeypatch.setattr(cluster, "clock", clock)
        monkeypatch.setattr(keeper, "keep", keep)
        await keeper.run()
        error_log.expect("a bug")
        assert slept == [1_000, 4_000, 1_000]
        monkeypatch.undo()
