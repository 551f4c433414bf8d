"""Share groups in a cluster, over real sockets: their members survive the broker that coordinated them."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations.control.group_control import GroupControl, expire_member
from purgatorio.admin.operations.control.offset_resets import ResetTarget
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC
from purgatorio.broker.node.broker import Broker
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_groups import DeleteGroupsRequest
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.list_groups import ListGroupsRequest
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.broker.cluster.test_cluster import PATIENCE_MS, client, config, create, until

TRY_AGAIN = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


async def ask(broker: Broker, key: ApiKey, version: int, request: Any) -> Any:
    connection = await client(broker)
    try:
        return await connection.request(key, version, request, timeout_ms=PATIENCE_MS)
    finally:
        connection.close()


def coordinator_id(cluster: Cluster) -> int:
    topic = cluster.store.image.topics[OFFSETS_TOPIC]
    return topic.partitions[coordinator_partition("jobs", len(topic.partitions))].leader


def coordinator(cluster: Cluster) -> Broker:
    return next(broker for broker in cluster.brokers if broker.broker_id == coordinator_id(cluster))


async def find(cluster: Cluster) -> None:
    """Ask for the coordinator until there is one."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["jobs"])
    while (await ask(cluster.brokers[0], ApiKey.FIND_COORDINATOR, 6, request)).coordinators[0].error_code:
        pass


async def heartbeat(cluster: Cluster, member_id: str, epoch: int, *topics: str) -> ShareGroupHeartbeatResponse:
    """Send a heartbeat to the coordinator, until it has loaded the group."""
    names = list(topics) if epoch == 0 else None
    request = ShareGroupHeartbeatRequest(
        group_id="jobs", member_id=member_id, member_epoch=epoch, subscribed_topic_names=names
    )
    while True:
        answer = await ask(coordinator(cluster), ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)
        if answer.error_code not in TRY_AGAIN:
            assert isinstance(answer, ShareGroupHeartbeatResponse)
            return answer


def numbers(answer: ShareGroupHeartbeatResponse) -> list[int] | None:
    if answer.assignment is None:
        return None
    return sorted(number for topic in answer.assignment.topic_partitions for number in topic.partitions)


async def test_the_first_answer_has_the_assignment_and_the_next_coordinator_keeps_the_members() -> None:
    async with Cluster(config()) as cluster:
        await create(cluster, partitions=3)
        await find(cluster)
        first = await heartbeat(cluster, "a", 0, "orders")
        assert (first.error_code, numbers(first)) == (ErrorCode.NONE, [0, 1, 2])
        second = await heartbeat(cluster, "b", 0, "orders")
        assert second.member_epoch > first.member_epoch
        moved = await heartbeat(cluster, "a", first.member_epoch)
        assert moved.member_epoch == second.member_epoch
        assert sorted([*(numbers(moved) or ()), *(numbers(second) or ())]) == [0, 1, 2]
        before = coordinator(cluster).broker_id
        await cluster.kill_broker(before)
        await until(lambda: coordinator_id(cluster) != before)
        for member_id in "ab":
            kept = await heartbeat(cluster, member_id, second.member_epoch)
            assert (kept.error_code, kept.member_epoch, numbers(kept)) == (ErrorCode.NONE, second.member_epoch, None)


async def test_a_share_group_is_listed_expired_and_deleted_with_its_states() -> None:
    async with Cluster(config()) as cluster:
        await create(cluster, partitions=3)
        await find(cluster)
        await heartbeat(cluster, "a", 0, "orders")
        broker = coordinator(cluster)
        listed = await ask(broker, ApiKey.LIST_GROUPS, 5, ListGroupsRequest(types_filter=["share"]))
        assert [(each.group_id, each.group_state, each.group_type) for each in listed.groups] == [
            ("jobs", "Stable", "share")
        ]
        delete = DeleteGroupsRequest(groups_names=["jobs"])
        assert (await ask(broker, ApiKey.DELETE_GROUPS, 2, delete)).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        assert expire_member(cluster, "jobs", None) == "a"
        shard = broker.groups.coordinator.shard_of("jobs")
        await until(lambda: shard.groups["jobs"].is_empty)
        await GroupControl(cluster, lambda: cluster.store.image).delete("jobs")
        assert "jobs" not in shard.groups


async def test_offsets_of_a_share_group_are_not_reset_as_those_of_others() -> None:
    async with Cluster(config()) as cluster:
        await create(cluster)
        await find(cluster)
        await heartbeat(cluster, "a", 0, "orders")
        control = GroupControl(cluster, lambda: cluster.store.image)
        with pytest.raises(OperationRefused, match="jobs is a share group, which commits no offsets"):
            await control.reset_offsets("jobs", "orders", None, ResetTarget(to="latest"))
