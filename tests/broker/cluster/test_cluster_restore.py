"""A cluster that is given topics and records, however long that takes: no timer and no client meets a half of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations.control import importing, topic_control
from purgatorio.admin.operations.control.beginning import Beginning
from purgatorio.admin.operations.control.importing import InitialTopic, NotImported
from purgatorio.broker.cluster import snapshots
from purgatorio.broker.cluster.errors import ClusterUnavailable, OperationRefused
from purgatorio.broker.cluster.snapshots import SavedPartition, Snapshot
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.time.long_work import Steps
from purgatorio.broker.time.movable_clock import MovableClock
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch

BATCHES = 3
PARTITIONS = [TopicPartition("orders", number) for number in range(3)]
CONFIG = ClusterConfig(port=0, admin_port=0)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(CONFIG, MovableClock(), admin=False) as running:
        yield running


async def with_records(cluster: Cluster) -> Snapshot:
    """Make a topic with some batches; return the snapshot."""
    await topic_control.create(cluster, "orders", len(PARTITIONS), 3, {}, random.Random(0))
    for number in range(BATCHES):
        batch = build_batch([Record(0, 5, None, b"%d" % number)])
        for result in await topic_control.append(cluster, [(tp, batch) for tp in PARTITIONS], "test"):
            assert not result.error_code
    return cluster.snapshot()


async def a_snapshot() -> Snapshot:
    async with Cluster(CONFIG, admin=False) as cluster:
        return await with_records(cluster)


def slow_down(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Between two batches that are filled in, all brokers live for longer than their timers wait; counts the turns."""
    turns: list[int] = []
    clock = cluster.clock
    assert isinstance(clock, MovableClock)

    async def take(steps: Steps) -> None:
        for _ in steps:
            turns.append(len(turns))
            await clock.run_for(1_500, moving=lambda _: cluster.lease_clock.beat())

    monkeypatch.setattr(cluster.work, "take", take)
    return turns


def check_has_all(cluster: Cluster) -> None:
    """Check that each replica has all batches, and that each leader has committed them."""
    for tp in PARTITIONS:
        replicas = [broker.replica(tp) for broker in cluster.brokers]
        assert [each and each.log.log_end_offset for each in replicas] == [BATCHES] * 3
        assert [each.high_watermark for each in replicas if each is not None and each.is_leader] == [BATCHES]


async def test_no_timer_acts_on_a_partition_that_a_restore_has_half_filled(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of preferred leaders elected one of them, and followers fetched what was there."""
    snapshot = await with_records(cluster)
    turns = slow_down(cluster, monkeypatch)
    for _ in range(2):
        await cluster.restore(snapshot)
        check_has_all(cluster)
    assert len(turns) >= 2 * BATCHES


async def test_no_timer_acts_on_a_partition_that_a_start_or_a_reset_has_half_filled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(CONFIG, MovableClock(), admin=False)
    cluster.beginning = Beginning(snapshot=await a_snapshot())
    turns = slow_down(cluster, monkeypatch)
    async with cluster:
        check_has_all(cluster)
        await cluster.reset()
        check_has_all(cluster)
    assert len(turns) >= 2 * BATCHES


async def test_a_client_that_connects_during_a_restore_meets_all_topics(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not create one anew that the snapshot has, and is told of no partition without a leader."""
    snapshot = await with_records(cluster)
    lead = snapshots.lead
    asking: list[asyncio.Task[list[tuple[int, list[int]]]]] = []

    async def ask() -> list[tuple[int, list[int]]]:
        connection = PeerConnection(SystemClock(), client_id="test")
        await connection.connect(*cluster.brokers[0].address)
        topics = [MetadataRequestTopic(name="orders")]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=True)
        answer = await connection.request(ApiKey.METADATA, 9, request, timeout_ms=20_000)
        connection.close()
        return [(each.error_code, [row.error_code for row in each.partitions]) for each in answer.topics]

    async def slowly(*arguments: object) -> None:
        asking.append(asyncio.create_task(ask()))
        await asyncio.wait(asking, timeout=0.05)
        assert not asking[0].done()
        await lead(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(snapshots, "lead", slowly)
    await cluster.restore(snapshot)
    assert await asking[0] == [(0, [0, 0, 0])]
    check_has_all(cluster)


async def test_leader_epochs_do_not_go_back(cluster: Cluster) -> None:
    """A client that knows a later epoch of the same topic would take all metadata after a restore for outdated."""
    snapshot = await with_records(cluster)
    for broker_id in (1, 2, 3):
        await cluster.stop_broker(broker_id)
        await cluster.start_broker(broker_id)
    known = [state.leader_epoch for state in cluster.store.image.topics["orders"].partitions]
    await cluster.restore(snapshot)
    now = [state.leader_epoch for state in cluster.store.image.topics["orders"].partitions]
    assert all(after > before for before, after in zip(known, now, strict=True))


def damaged(snapshot: Snapshot, saved: SavedPartition) -> Snapshot:
    return replace(snapshot, logs={**snapshot.logs, PARTITIONS[1]: saved})


async def test_a_restore_that_cannot_be_filled_leaves_the_cluster_as_it_was(cluster: Cluster) -> None:
    snapshot = await with_records(cluster)
    saved = snapshot.logs[PARTITIONS[1]]
    wrong = bytearray(saved.batches[0])
    wrong[-1] ^= 1
    before = list(cluster.brokers)
    for broken, told in (
        (replace(saved, batches=(bytes(wrong),)), "orders-1 cannot be filled on broker 1: "),
        (replace(saved, end_offset=1 << 40), "orders-1 ends at 3, and should end at 1099511627776"),
    ):
        with pytest.raises(ClusterUnavailable, match=told):
            await cluster.restore(damaged(snapshot, broken))
    assert cluster.brokers == before
    assert cluster.has_begun
    check_has_all(cluster)


async def test_a_snapshot_that_needs_more_memory_than_there_is_is_refused() -> None:
    """The brokers would delete its oldest records at once."""
    snapshot = await a_snapshot()
    saved = snapshot.logs[PARTITIONS[1]]
    large = damaged(snapshot, replace(saved, batches=(bytes(20_000_000),)))
    cluster = Cluster(ClusterConfig(port=0, broker={"log_memory_bytes": 16 << 20}), admin=False)
    cluster.beginning = Beginning(snapshot=large)
    with pytest.raises(OperationRefused, match=r"needs 2\d{7} bytes of broker 1, whose log\.memory\.bytes is 16777216"):
        await cluster.start()


async def statuses(cluster: Cluster) -> int:
    """Return the status of ``GET /readyz``."""

    def ask() -> int:
        try:
            with urlopen(f"{cluster.admin_url}/readyz") as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code

    return await asyncio.to_thread(ask)


async def test_a_cluster_is_ready_when_its_imports_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    append = importing.append

    async def slowly(filled: Cluster, topics: Iterable[InitialTopic]) -> None:
        told.append(await statuses(filled))
        await append(filled, list(topics))

    monkeypatch.setattr(importing, "append", slowly)
    cluster = Cluster(CONFIG)
    cluster.beginning = Beginning([InitialTopic("orders")])
    async with cluster:
        told.append(await statuses(cluster))
        await cluster.reset()
    assert told == [503, 200, 503]


async def test_a_cluster_whose_reset_was_refused_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster(CONFIG) as cluster:
        cluster.beginning = Beginning([InitialTopic("orders", configs={"cleanup.polcy": "x"})])
        with pytest.raises(NotImported):
            await cluster.reset()
        assert await statuses(cluster) == 503
        cluster.beginning = Beginning()
        await cluster.reset()
        assert await statuses(cluster) == 200
