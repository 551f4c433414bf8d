"""The end of a cluster with a folder for data: what is kept, and where."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations.control import topic_control
from purgatorio.admin.operations.control.beginning import Beginning
from purgatorio.admin.operations.control.data_folder import DataFolder
from purgatorio.admin.operations.control.files import FileSteps
from purgatorio.admin.operations.control.importing import InitialTopic, NotImported
from purgatorio.broker.cluster.decisions import decided_for_all
from purgatorio.broker.cluster.snapshots import Snapshot
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.store import Decision, decide
from purgatorio.broker.replica.partition import Partition
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.admin.operations.control.saved import in_batches

ORDERS = TopicPartition("orders", 0)
SINGLE = TopicPartition("single", 0)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataFolder]:
    folder = DataFolder(tmp_path / "data")
    yield folder
    folder.close()


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A cluster whose brokers are not fenced while a test runs: the lease of a killed one is never over."""
    config = ClusterConfig(port=0, broker={"broker_session_timeout_ms": 60_000, "replica_fetch_wait_max_ms": 120_000})
    async with Cluster(config, admin=False) as running:
        yield running


async def append(cluster: Cluster, tp: TopicPartition, count: int = 1, replicas: int = 3) -> None:
    """Append records with acks=all, each as a batch."""
    if tp.topic not in cluster.store.image.topics:
        await topic_control.create(cluster, tp.topic, 1, replicas, {}, random.Random())
    for number in range(count):
        batch = build_batch([Record(0, 5, None, b"%d" % number)])
        (result,) = await topic_control.append(cluster, [(tp, batch)], "test")
        assert not result.error_code


async def keep(cluster: Cluster, data: DataFolder, began_with: Snapshot | None) -> str | None:
    return await Beginning(snapshot=began_with, data=data).keep(cluster)


def leader_of(cluster: Cluster, tp: TopicPartition) -> int:
    state = cluster.store.image.partition(*tp)
    assert state is not None
    return state.leader


def replicas_of(cluster: Cluster, tp: TopicPartition) -> list[Partition]:
    return [replica for broker in cluster.brokers if (replica := broker.replica(tp)) is not None]


def count(snapshot: Snapshot | None, tp: TopicPartition = ORDERS) -> int:
    assert snapshot is not None
    return len(snapshot.logs[tp].batches)


async def next_leader_epoch(cluster: Cluster, tp: TopicPartition) -> None:
    """Have the leader lead in the next epoch, as one that was elected anew does."""
    image = cluster.store.image
    state = image.partition(*tp)
    assert state is not None
    later = replace(state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)
    change: Decision[None] = lambda image: (image.with_partitions({tuple(tp): later}), None)  # noqa: E731
    await decided_for_all(cluster.network, change, "no", "the epoch")


class FullDisk(FileSteps):
    """Has no space for the content of files."""

    def write(self, path: Path, parts: Iterable[bytes]) -> None:
        super().write(path, [])
        raise OSError(errno.ENOSPC, "No space left on device", str(path))


def beside(data: DataFolder) -> Snapshot | None:
    """Return what was written beside the folder's own state."""
    (path,) = (each for each in data.path.iterdir() if each.name.startswith("kept-"))
    folder = DataFolder(path)
    try:
        return folder.read()
    finally:
        folder.close()


async def test_all_is_kept(cluster: Cluster, data: DataFolder) -> None:
    await append(cluster, ORDERS, 2)
    assert await keep(cluster, data, None) is None
    assert count(data.read()) == 2


async def test_a_partition_that_no_broker_has_loses_no_other_one(cluster: Cluster, data: DataFolder) -> None:
    await append(cluster, ORDERS, 3)
    await append(cluster, SINGLE, replicas=1)
    await cluster.kill_broker(leader_of(cluster, SINGLE))
    why = await keep(cluster, data, None)
    assert why == (
        f"not all data was kept: no replica that lives and was in sync had single-0; the rest is in {data.path}"
    )
    assert count(data.read()) == 3
    assert count(data.read(), SINGLE) == 0


async def test_a_leader_that_was_killed_just_before_the_end_is_done_without(cluster: Cluster, data: DataFolder) -> None:
    """The metadata name it as the leader until its lease is over."""
    await append(cluster, ORDERS, 3)
    await cluster.kill_broker(leader_of(cluster, ORDERS))
    assert leader_of(cluster, ORDERS) not in [broker.broker_id for broker in cluster.brokers]
    assert await keep(cluster, data, None) is None
    assert count(data.read()) == 3


async def test_of_two_replicas_in_sync_the_longer_one_is_kept(cluster: Cluster, data: DataFolder) -> None:
    """It may have records that the leader acknowledged with acks=1."""
    await append(cluster, ORDERS)
    leader = leader_of(cluster, ORDERS)
    shorter, longer = (broker for broker in cluster.brokers if broker.broker_id != leader)
    shorter.gate.hold()
    batch = build_batch([Record(0, 5, None, b"more")])
    cluster.broker(leader).replicas.append([(ORDERS, batch)], acks=1, timeout_ms=1, done=lambda _: None)
    replica = longer.replica(ORDERS)
    assert replica is not None
    while replica.log.log_end_offset < 2:  # noqa: ASYNC110 - a follower's fetch has no event
        await asyncio.sleep(0)
    await cluster.kill_broker(leader)
    assert await keep(cluster, data, None) is None
    assert count(data.read()) == 2


async def test_a_broker_that_came_back_without_its_records_is_not_asked_for_them(
    cluster: Cluster, data: DataFolder
) -> None:
    await append(cluster, SINGLE, 2, replicas=1)
    before = cluster.snapshot()
    data.write(before)
    leader = leader_of(cluster, SINGLE)
    await cluster.stop_broker(leader)
    await cluster.start_broker(leader)
    await append(cluster, ORDERS)
    why = await keep(cluster, data, before)
    assert why is not None
    assert why.startswith(
        "not all data was kept: no replica that lives and was in sync had single-0; "
        f"{data.path} is as it was, and the rest is in {data.path}/kept-"
    )
    assert data.read() == in_batches(before)
    assert count(beside(data)) == 1


async def test_a_folder_is_not_replaced_by_a_cluster_that_did_not_get_all_of_it(
    cluster: Cluster, data: DataFolder
) -> None:
    """A reset that failed left a part, which an orderly end wrote over the folder."""
    await append(cluster, ORDERS, 2)
    before = cluster.snapshot()
    data.write(before)
    cluster.beginning = Beginning([InitialTopic("bills"), InitialTopic("odd", configs={"cleanup.polcy": "x"})], before)
    with pytest.raises(NotImported):
        await cluster.reset()
    why = await keep(cluster, data, before)
    assert why is not None
    assert why.startswith("not all data was kept: the cluster did not get all that it was to begin with; ")
    assert data.read() == in_batches(before)
    left = beside(data)
    assert left is not None
    assert sorted(left.topics) == ["bills", "orders"]


async def test_records_that_were_deleted_at_the_start_of_a_partition_are_not_missed(
    cluster: Cluster, data: DataFolder
) -> None:
    """By retention, by the memory cap, or by a client."""
    await append(cluster, ORDERS, 3)
    before = cluster.snapshot()
    data.write(before)
    for replica in replicas_of(cluster, ORDERS):
        replica.log.advance_log_start(1)
    assert await keep(cluster, data, before) is None
    assert count(data.read()) == 2


async def test_a_folder_is_not_replaced_after_an_unclean_election(cluster: Cluster, data: DataFolder) -> None:
    await append(cluster, ORDERS, 3)
    before = cluster.snapshot()
    data.write(before)
    for replica in replicas_of(cluster, ORDERS):
        replica.log.truncate_to(1)
    why = await keep(cluster, data, before)
    assert why is not None
    assert "records at the end of orders-0 were lost since the start" in why
    assert data.read() == in_batches(before)
    assert count(beside(data)) == 1


async def test_records_that_a_later_leader_wrote_in_the_place_of_others_do_not_hide_the_loss(
    cluster: Cluster, data: DataFolder
) -> None:
    """An unclean election lost records that the folder has; the partition became longer than before."""
    await append(cluster, ORDERS, 3)
    before = cluster.snapshot()
    data.write(before)
    for replica in replicas_of(cluster, ORDERS):
        replica.log.truncate_to(1)
    await next_leader_epoch(cluster, ORDERS)
    await append(cluster, ORDERS, 5)
    why = await keep(cluster, data, before)
    assert why is not None
    assert "records at the end of orders-0 were lost since the start" in why
    assert data.read() == in_batches(before)
    assert count(beside(data)) == 6


async def test_records_of_a_later_leader_after_those_of_the_folder_are_kept(cluster: Cluster, data: DataFolder) -> None:
    await append(cluster, ORDERS, 3)
    before = cluster.snapshot()
    await next_leader_epoch(cluster, ORDERS)
    await append(cluster, ORDERS, 5)
    for replica in replicas_of(cluster, ORDERS):
        replica.log.advance_log_start(2)
    assert await keep(cluster, data, before) is None
    assert count(data.read()) == 6


async def test_a_folder_that_cannot_be_written_is_told_and_is_as_it_was(cluster: Cluster, data: DataFolder) -> None:
    await append(cluster, ORDERS)
    before = cluster.snapshot()
    data.write(before)
    data.close()
    full = DataFolder(data.path, FullDisk())
    assert await keep(cluster, full, before) == (
        f"the data was not kept: {data.path}/snapshot-2/0.log: no space left on device"
    )
    full.close()
    assert sorted(each.name for each in data.path.iterdir()) == ["lock", "snapshot-1", "snapshot.json"]
    assert data.read() == in_batches(before)


async def test_a_folder_that_cannot_be_written_is_told_with_what_is_missing_besides(
    cluster: Cluster, tmp_path: Path
) -> None:
    await append(cluster, SINGLE, replicas=1)
    await append(cluster, ORDERS)
    await cluster.kill_broker(leader_of(cluster, SINGLE))
    full = DataFolder(tmp_path / "full", FullDisk())
    assert await keep(cluster, full, None) == (
        "not all data was kept: no replica that lives and was in sync had single-0; the rest was not kept either: "
        f"{full.path}/snapshot-1/0.log: no space left on device"
    )
    full.close()


async def test_a_topic_that_was_deleted_or_made_anew_is_not_missed(cluster: Cluster, data: DataFolder) -> None:
    await append(cluster, ORDERS, 3)
    await append(cluster, TopicPartition("bills", 0))
    before = cluster.snapshot()
    data.write(before)
    deletion: Decision[None] = lambda image: (image.without_topics(["orders", "bills"]), None)  # noqa: E731
    await decide(cluster.brokers[0].store, deletion)
    await append(cluster, ORDERS)
    assert await keep(cluster, data, before) is None
    assert count(data.read()) == 1


async def test_a_change_of_a_broker_that_is_under_way_is_waited_for(cluster: Cluster, data: DataFolder) -> None:
    await append(cluster, ORDERS, 2)
    stopping = asyncio.create_task(cluster.stop_broker(leader_of(cluster, ORDERS)))
    await asyncio.sleep(0)
    assert await keep(cluster, data, None) is None
    assert stopping.done()
    assert count(data.read()) == 2


def test_what_is_written_beside_a_folder_twice_in_a_millisecond_has_two_names(data: DataFolder) -> None:
    nothing = Snapshot({}, {}, {}, 0, {})
    names = [data.write_beside(nothing, 1_764_000_000_000).name for _ in range(2)]
    assert names == ["kept-1764000000000", "kept-1764000000001"]
