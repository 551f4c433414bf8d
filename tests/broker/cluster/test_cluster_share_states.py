"""States of share partitions in a cluster, over real sockets: they survive the broker that coordinated them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.metadata.topic_name import SHARE_GROUP_STATE_TOPIC
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.share.persister import ShareState
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
    InitializeStateTopic,
)
from purgatorio.protocol.share_state import RecordState, SharePartitionKey, StateBatch
from tests.broker.cluster.test_cluster import PATIENCE_MS, client, config, create, until

PARTITIONS = 20
QUICK = {"share_persister_retry_backoff_ms": 50, "share_persister_retry_backoff_max_ms": 200}
"""So that a test does not wait a second for a coordinator that is elected meanwhile."""
MORE = {"share_persister_max_retries": 100}
KILLED_TO_READ_MS = 2_000
"""The bar of a killed coordinator, in time in which the brokers ran; here their session timeout is 0.4 s."""


def acked(offset: int) -> StateBatch:
    return StateBatch(
        first_offset=offset, last_offset=offset, delivery_state=RecordState.ACKNOWLEDGED, delivery_count=1
    )


async def asked(ask: Callable[..., None], *arguments: Any, **named: Any) -> tuple[ErrorCode, ShareState | None]:
    """Call a persister and wait until it is done."""
    done: asyncio.Future[tuple[ErrorCode, ShareState | None]] = asyncio.get_running_loop().create_future()

    def answered(error_code: ErrorCode, state: ShareState | None = None) -> None:
        done.set_result((error_code, state))

    ask(*arguments, **named, done=answered)
    async with asyncio.timeout(PATIENCE_MS / 1000):
        return await done


async def read(broker: Broker, key: SharePartitionKey) -> ShareState:
    error_code, state = await asked(broker.coordinators.persister.read, key, leader_epoch=0)
    assert error_code == ErrorCode.NONE
    assert state is not None
    return state


async def write(broker: Broker, key: SharePartitionKey, offsets: Sequence[int]) -> ErrorCode:
    error_code, _ = await asked(
        broker.coordinators.persister.write,
        key,
        state_epoch=1,
        leader_epoch=0,
        start_offset=0,
        delivery_complete_count=len(offsets),
        batches=[acked(offset) for offset in offsets],
    )
    return error_code


def keys_of(cluster: Cluster) -> list[SharePartitionKey]:
    topic_id = cluster.store.image.topics["orders"].topic_id
    return [SharePartitionKey("billing", topic_id, partition) for partition in range(PARTITIONS)]


def coordinator_of(cluster: Cluster, key: SharePartitionKey) -> int:
    topic = cluster.store.image.topics[SHARE_GROUP_STATE_TOPIC]
    return topic.partitions[coordinator_partition(str(key), len(topic.partitions))].leader


async def initialize(broker: Broker, keys: Sequence[SharePartitionKey]) -> None:
    persister = broker.coordinators.persister
    codes = await asyncio.gather(*(asked(persister.initialize, key, state_epoch=1, start_offset=0) for key in keys))
    assert codes == [(ErrorCode.NONE, None)] * len(keys)


async def test_each_broker_reaches_all_states_the_first_call_creates_their_topic() -> None:
    async with Cluster(config(**QUICK)) as cluster:
        await create(cluster, partitions=PARTITIONS)
        keys = keys_of(cluster)
        await initialize(cluster.brokers[0], keys)
        assert {coordinator_of(cluster, key) for key in keys} == {1, 2, 3}
        for nth, broker in enumerate(cluster.brokers):
            assert set(await asyncio.gather(*(write(broker, key, [2 * nth]) for key in keys))) == {ErrorCode.NONE}
        for broker in cluster.brokers:
            states = await asyncio.gather(*(read(broker, key) for key in keys))
            assert [state.batches for state in states] == [(acked(0), acked(2), acked(4))] * PARTITIONS
        summary = cluster.brokers[0].coordinators.persister.summary
        assert await asked(summary, keys[0]) == (ErrorCode.NONE, ShareState(1, 0, 0, 1))
        assert await asked(cluster.brokers[1].coordinators.persister.delete, keys[0]) == (ErrorCode.NONE, None)
        assert await asked(summary, keys[0]) == (ErrorCode.NONE, ShareState(0, 0, -1, -1))
        assert all(broker.coordinators.persister.under_way == 0 for broker in cluster.brokers)


async def test_when_a_coordinator_is_killed_others_have_every_acknowledged_write() -> None:
    async with Cluster(config(**QUICK, **MORE)) as cluster:
        await create(cluster, partitions=PARTITIONS)
        keys = keys_of(cluster)
        leader = cluster.brokers[0]
        await initialize(leader, keys)
        written: dict[SharePartitionKey, list[int]] = {key: [] for key in keys}
        is_over = False

        async def write_on(key: SharePartitionKey) -> None:
            offset = 0
            while not is_over:
                if await write(leader, key, [offset]) == ErrorCode.NONE:
                    written[key].append(offset)
                offset += 2

        async with asyncio.TaskGroup() as tasks:
            for key in keys:
                tasks.create_task(write_on(key))
            await until(lambda: min(map(len, written.values())) >= 3)
            killed = next(each for each in (coordinator_of(cluster, key) for key in keys) if each != leader.broker_id)
            before_ms = cluster.lease_clock.now_ms()
            await cluster.kill_broker(killed)
            orphans = [key for key in keys if coordinator_of(cluster, key) == killed]
            counts = {key: len(written[key]) for key in orphans}
            await until(lambda: all(len(written[key]) > counts[key] + 2 for key in orphans))
            took_ms = cluster.lease_clock.now_ms() - before_ms
            is_over = True
        assert orphans
        for key in keys:
            assert coordinator_of(cluster, key) != killed
            state = await read(cluster.brokers[-1], key)
            found = {batch.first_offset for batch in state.batches}
            assert set(written[key]) <= found, "an acknowledged write is lost"
        assert took_ms < KILLED_TO_READ_MS


async def test_a_stopped_broker_leaves_no_call_open() -> None:
    async with Cluster(config(**QUICK)) as cluster:
        await create(cluster, partitions=PARTITIONS)
        await initialize(cluster.brokers[0], keys_of(cluster))
        broker = cluster.brokers[2]
        calls = [asyncio.ensure_future(write(broker, key, [0])) for key in keys_of(cluster)]
        await asyncio.sleep(0)
        await cluster.stop_broker(3)
        codes = {await call for call in calls}
        assert codes <= {ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert broker.coordinators.persister.under_way == 0


@pytest.mark.parametrize("level", [0, 1])
async def test_share_groups_can_be_switched_off(level: int) -> None:
    async with Cluster(config(share_version=level)) as cluster:
        await create(cluster)
        connection = await client(cluster.brokers[0])

        async def ask(key: ApiKey, version: int, request: Any) -> Any:
            return await connection.request(key, version, request, timeout_ms=PATIENCE_MS)

        topic = InitializeStateTopic(
            topic_id=cluster.store.image.topics["orders"].topic_id, partitions=[InitializeStatePartition(partition=0)]
        )
        find = FindCoordinatorRequest(key_type=2, coordinator_keys=["g:ESIzRFVmd4iZqrvM3e7_AA:3"])
        found = (await ask(ApiKey.FIND_COORDINATOR, 6, find)).coordinators[0].error_code
        request = InitializeShareGroupStateRequest(group_id="billing", topics=[topic])
        answer = await ask(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, request)
        code = answer.results[0].partitions[0].error_code
        hello = ApiVersionsRequest(client_software_name="app", client_software_version="1")
        features = (await ask(ApiKey.API_VERSIONS, 4, hello)).finalized_features
        told = [each.max_version_level for each in features if each.name == "share.version"]
        connection.close()
    if level:
        assert (found, told) == (ErrorCode.NONE, [1])
        assert code in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)
    else:
        assert (found, code, told) == (ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION, [])


async def test_a_snapshot_of_the_cluster_has_the_states() -> None:
    async with Cluster(config(**QUICK)) as cluster:
        await create(cluster, partitions=3)
        keys = keys_of(cluster)[:3]
        await initialize(cluster.brokers[0], keys)
        assert [await write(cluster.brokers[0], key, [0]) for key in keys] == [ErrorCode.NONE] * 3
        snapshot = cluster.snapshot()
        assert [await write(cluster.brokers[0], key, [2]) for key in keys] == [ErrorCode.NONE] * 3
        await cluster.restore(snapshot)
        for broker in cluster.brokers:
            assert [(await read(broker, key)).batches for key in keys] == [(acked(0),)] * 3
