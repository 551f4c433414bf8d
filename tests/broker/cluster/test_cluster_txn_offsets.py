"""Offsets in transactions, over real sockets: they survive the coordinator of their group, whichever way the end is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from purgatorio.protocol.messages.end_txn import EndTxnRequest
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from purgatorio.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.cluster.test_cluster import PATIENCE_MS, client, config, create

TRANSACTIONAL_ID = "billing-1"
RETRY_SECONDS = 0.005


class Application:
    """A transactional producer that asks the coordinators which the newest image names, and retries as clients do."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._connections: dict[int, PeerConnection] = {}
        self.producer_id = self.producer_epoch = -1

    def coordinator(self, topic_name: str, name: str) -> Broker | None:
        """The running broker that leads the partition of a group or a transactional id."""
        topic = self._cluster.store.image.topics[topic_name]
        leader = topic.partitions[coordinator_partition(name, len(topic.partitions))].leader
        return next((each for each in self._cluster.brokers if each.broker_id == leader and each.is_running), None)

    async def create_topics(self) -> None:
        """Have both topics of coordinators created."""
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
            await self._ask(self._cluster.brokers[0], ApiKey.FIND_COORDINATOR, 4, request)

    async def _ask(self, broker: Broker, key: ApiKey, version: int, request: object) -> Any:
        connection = self._connections.get(broker.broker_id)
        if connection is None:
            connection = self._connections[broker.broker_id] = await client(broker)
        return await connection.request(key, version, request, timeout_ms=PATIENCE_MS)

    async def _until_accepted(
        self, of: tuple[str, str], key: ApiKey, version: int, request: object, code_of: Callable[[Any], int]
    ) -> Any:
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while True:
                broker = self.coordinator(*of)
                if broker is not None:
                    response = await self._ask(broker, key, version, request)
                    code = ErrorCode(code_of(response))
                    if code == ErrorCode.NONE:
                        return response
                    assert code.retriable, code
                await asyncio.sleep(RETRY_SECONDS)

    async def _of_transactions(self, key: ApiKey, version: int, request: object) -> Any:
        of = TRANSACTION_STATE_TOPIC, TRANSACTIONAL_ID
        return await self._until_accepted(of, key, version, request, lambda response: int(response.error_code))

    async def init(self) -> None:
        request = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
        response = await self._of_transactions(ApiKey.INIT_PRODUCER_ID, 4, request)
        self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch

    @property
    def _producer(self) -> dict[str, Any]:
        return {
            "transactional_id": TRANSACTIONAL_ID,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }

    async def commit_offset(self, group_id: str, offset: int, *, version: int) -> None:
        """Send an offset to the transaction; from version 5 on the group's coordinator adds its partition itself."""
        if version < 5:
            added = AddOffsetsToTxnRequest(**self._producer, group_id=group_id)
            await self._of_transactions(ApiKey.ADD_OFFSETS_TO_TXN, 3, added)
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        topics = [TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])]
        request = TxnOffsetCommitRequest(**self._producer, group_id=group_id, topics=topics)
        of = OFFSETS_TOPIC, group_id
        await self._until_accepted(
            of, ApiKey.TXN_OFFSET_COMMIT, version, request, lambda each: int(each.topics[0].partitions[0].error_code)
        )

    async def end(self, *, committed: bool, version: int) -> None:
        response = await self._of_transactions(
            ApiKey.END_TXN, version, EndTxnRequest(**self._producer, committed=committed)
        )
        if version >= 5:
            self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch

    async def stable_offset(self, group_id: str) -> int:
        """The committed offset, as soon as a coordinator tells it and no transaction may change it; -1: none."""
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)], require_stable=True
        )
        of = OFFSETS_TOPIC, group_id

        def code_of(response: Any) -> int:
            (group,) = response.groups
            codes = [each.error_code for topic in group.topics for each in topic.partitions]
            return next(filter(None, [group.error_code, *codes]), 0)

        response = await self._until_accepted(of, ApiKey.OFFSET_FETCH, 9, request, code_of)
        topics = response.groups[0].topics
        return int(topics[0].partitions[0].committed_offset) if topics else -1

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


@pytest.mark.parametrize(("committed", "offset"), [(True, 7), (False, 3)])
@pytest.mark.parametrize(("commit_version", "end_version"), [(3, 3), (5, 5)])
async def test_offsets_in_a_transaction_survive_the_coordinator_of_their_group(
    committed: bool, offset: int, commit_version: int, end_version: int
) -> None:
    async with Cluster(config()) as cluster:
        await create(cluster)
        application = Application(cluster)
        await application.create_topics()
        other = application.coordinator(TRANSACTION_STATE_TOPIC, TRANSACTIONAL_ID)
        names = (f"group-{number}" for number in range(60))
        group_id = next(each for each in names if application.coordinator(OFFSETS_TOPIC, each) is not other)
        await application.init()
        await application.commit_offset(group_id, 3, version=commit_version)
        await application.end(committed=True, version=end_version)
        await application.commit_offset(group_id, 7, version=commit_version)
        killed = application.coordinator(OFFSETS_TOPIC, group_id)
        assert killed is not None
        await cluster.kill_broker(killed.broker_id)
        await application.end(committed=committed, version=end_version)
        assert await application.stable_offset(group_id) == offset
        assert application.coordinator(OFFSETS_TOPIC, group_id) is not killed
        application.close()
