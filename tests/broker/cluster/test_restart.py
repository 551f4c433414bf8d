"""The rolling restart: what it waits for, for how long, and in which order."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from purgatorio.broker.cluster.errors import NotInSync
from purgatorio.broker.cluster.restart import (
    IN_SYNC_POLL_MS,
    not_in_sync,
    rolling_restart,
    wait_until_in_sync,
)
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import BrokerIncarnation, BrokerRegistration, ClusterImage, PartitionState, Topic
from purgatorio.purgatory.clock import ManualClock
from tests.endpoints import plaintext


class Scripted:
    """Brokers that note each stop and each start."""

    def __init__(self, image: ClusterImage) -> None:
        self.clock = ManualClock()
        self.image = image
        self.broker_ids = [1, 2]
        self.done: list[str] = []

    async def stop_broker(self, broker_id: int) -> None:
        self.done.append(f"stop {broker_id}")

    async def start_broker(self, broker_id: int) -> None:
        self.done.append(f"start {broker_id}")


def image_of(*isr: BrokerIncarnation, fenced: bool = False) -> ClusterImage:
    """Brokers 1 and 2 with the epochs 11 and 12, and a partition that both hold."""
    state = PartitionState(1, 0, (1, 2), isr)
    image = ClusterImage(1, "test").with_topics([Topic("orders", bytes(16), (state,))])
    for broker_id in (1, 2):
        image = image.with_broker(BrokerRegistration(broker_id, 10 + broker_id, plaintext("h", 1)))
    return image.with_broker(replace(image.brokers[2], fenced=True)) if fenced else image


FULL = image_of(BrokerIncarnation(1, 11), BrokerIncarnation(2, 12))


@pytest.mark.parametrize(
    ("image", "lacks"),
    [
        (FULL, 0),
        (image_of(BrokerIncarnation(1, 11)), 1),
        (image_of(BrokerIncarnation(1, 11), BrokerIncarnation(2, 9)), 1),
        (image_of(BrokerIncarnation(1, 11), BrokerIncarnation(2, 12), fenced=True), 1),
        (ClusterImage(1, "test"), 0),
    ],
    ids=["full", "one left", "an earlier incarnation", "fenced", "no topic"],
)
def test_only_present_incarnations_of_live_brokers_are_in_sync(image: ClusterImage, lacks: int) -> None:
    assert not_in_sync(image) == [TopicPartition("orders", 0)] * lacks


async def test_the_wait_ends_when_all_replicas_are_in_sync() -> None:
    cluster = Scripted(image_of(BrokerIncarnation(1, 11)))
    waiting = asyncio.create_task(wait_until_in_sync(cluster, 1_000))
    await cluster.clock.run_for(900)
    assert not waiting.done()
    cluster.image = FULL
    await cluster.clock.run_for(IN_SYNC_POLL_MS)
    assert waiting.done()
    await waiting


async def test_the_wait_has_a_limit_and_names_the_partitions() -> None:
    cluster = Scripted(image_of(BrokerIncarnation(1, 11)))
    waiting = asyncio.create_task(wait_until_in_sync(cluster, 1_000))
    await cluster.clock.run_for(1_000 + IN_SYNC_POLL_MS)
    with pytest.raises(NotInSync, match=r"not fully in sync after 1 s: orders-0") as failed:
        await waiting
    assert failed.value.partitions == (TopicPartition("orders", 0),)


async def test_every_broker_waits_for_the_one_before() -> None:
    cluster = Scripted(FULL)

    async def wait(restarting: object, time_limit_ms: int) -> None:
        cluster.done.append(f"wait {time_limit_ms}")

    await rolling_restart(cluster, time_limit_ms=7, wait=wait)
    assert cluster.done == ["wait 7", "stop 1", "start 1", "wait 7", "stop 2", "start 2", "wait 7"]


async def test_brokers_after_one_that_does_not_get_in_sync_are_not_touched() -> None:
    cluster = Scripted(FULL)

    async def wait(restarting: object, time_limit_ms: int) -> None:
        if cluster.done:
            raise NotInSync([TopicPartition("orders", 0)], time_limit_ms)

    with pytest.raises(NotInSync):
        await rolling_restart(cluster, wait=wait)
    assert cluster.done == ["stop 1", "start 1"]
