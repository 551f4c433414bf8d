"""Committed offsets of a cluster, over real sockets: they survive the broker that coordinated their group."""

from __future__ import annotations

import asyncio
from typing import Any

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from purgatorio.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker.cluster.test_cluster import PATIENCE_MS, client, config, create

GROUPS = [f"group-{number}" for number in range(60)]
COMMITS = 5
NEXT_COORDINATOR_MS = 2_000
"""The bar of a killed coordinator, in time in which the brokers ran; here their session timeout is 0.4 s."""


class Client:
    """Asks the coordinator of each group, and retries as consumers do."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._connections: dict[int, PeerConnection] = {}

    async def _connection(self, broker: Broker) -> PeerConnection:
        connection = self._connections.get(broker.broker_id)
        if connection is None:
            connection = self._connections[broker.broker_id] = await client(broker)
        return connection

    async def ask(self, broker: Broker, key: ApiKey, version: int, request: object) -> Any:
        connection = await self._connection(broker)
        return await connection.request(key, version, request, timeout_ms=PATIENCE_MS)

    async def create_offsets_topic(self) -> None:
        await self.ask(
            self._cluster.brokers[0], ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["x"])
        )

    def coordinator_of(self, group_id: str) -> Broker | None:
        """The running broker that leads the group's partition, as the newest image says."""
        topic = self._cluster.store.image.topics[OFFSETS_TOPIC]
        leader = topic.partitions[coordinator_partition(group_id, len(topic.partitions))].leader
        return next((each for each in self._cluster.brokers if each.broker_id == leader and each.is_running), None)

    async def commit(self, group_id: str, offset: int) -> None:
        """Commit until it is acknowledged."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name="orders", partitions=[partition])]
        request = OffsetCommitRequest(group_id=group_id, topics=topics)
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while True:
                broker = self.coordinator_of(group_id)
                if broker is not None:
                    response = await self.ask(broker, ApiKey.OFFSET_COMMIT, 9, request)
                    code = ErrorCode(response.topics[0].partitions[0].error_code)
                    if code == ErrorCode.NONE:
                        return
                    assert code.retriable, code
                await asyncio.sleep(0.005)

    async def fetch(self, group_id: str) -> int:
        """The committed offset, as soon as a coordinator tells it."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while True:
                broker = self.coordinator_of(group_id)
                if broker is not None:
                    response = await self.ask(broker, ApiKey.OFFSET_FETCH, 9, request)
                    (group,) = response.groups
                    if group.error_code == ErrorCode.NONE:
                        return int(group.topics[0].partitions[0].committed_offset)
                    assert ErrorCode(group.error_code).retriable
                await asyncio.sleep(0.005)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


async def test_when_a_coordinator_is_killed_others_have_every_acknowledged_commit() -> None:
    async with Cluster(config()) as cluster:
        await create(cluster)
        consumers = Client(cluster)
        await consumers.create_offsets_topic()
        for offset in range(1, COMMITS + 1):
            for group_id in GROUPS:
                await consumers.commit(group_id, offset)
        killed = consumers.coordinator_of(GROUPS[0])
        assert killed is not None
        orphans = [group_id for group_id in GROUPS if consumers.coordinator_of(group_id) is killed]
        await cluster.kill_broker(killed.broker_id)
        before_ms = cluster.lease_clock.now_ms()
        found = {group_id: await consumers.fetch(group_id) for group_id in orphans}
        took_ms = cluster.lease_clock.now_ms() - before_ms
        assert found == dict.fromkeys(orphans, COMMITS)
        assert took_ms < NEXT_COORDINATOR_MS
        for group_id in orphans:
            await consumers.commit(group_id, COMMITS + 1)
        assert await consumers.fetch(orphans[0]) == COMMITS + 1
        consumers.close()
