"""A member joins with the id that it is given; the leader of the group shares the partitions out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from purgatorio.client.client import Coordinator, Refused
from purgatorio.client.group import (
    JOINS,
    ClassicProtocol,
    GroupMembership,
    Partition,
    assigned,
    committed_offsets,
    consumer_heartbeat,
    heartbeat,
    leave,
    offset_commit,
)
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from purgatorio.protocol.messages.find_coordinator import Coordinator as Found
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from purgatorio.protocol.messages.heartbeat import HeartbeatResponse
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from purgatorio.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.client.brokers import Brokers, Patient

TOPIC_ID = bytes(15) + b"\1"


def in_turn(members: Sequence[str], generation: int) -> dict[str, list[Partition]]:
    return {member: [("orders", nth), ("orders", nth + 10)] for nth, member in enumerate(members)}


class Group:
    """A coordinator with one member, and perhaps another that does not answer."""

    def __init__(self, leader: str = "m-1", sync: ErrorCode = ErrorCode.NONE) -> None:
        self.leader = leader
        self.sync = sync
        self.asked: list[Any] = []

    async def ask(self, request: Any) -> Any:
        self.asked.append(request)
        if isinstance(request, SyncGroupRequest):
            own = [each.assignment for each in request.assignments if each.member_id == request.member_id]
            return SyncGroupResponse(error_code=self.sync, assignment=own[0] if own else b"")
        assert isinstance(request, JoinGroupRequest)
        if not request.member_id:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m-1")
        members = [JoinGroupResponseMember(member_id=each, metadata=b"") for each in ("m-1", "m-0")]
        return JoinGroupResponse(
            generation_id=4, protocol_name="roundrobin", leader=self.leader, member_id="m-1", members=members
        )

    async def join(self) -> tuple[ErrorCode, list[Partition], GroupMembership]:
        me = GroupMembership("g")
        code, partitions = await ClassicProtocol(("orders",), in_turn, 1_000, 2_000).join(self.ask, me)
        return code, partitions, me


async def test_the_leader_of_a_group_joins_with_the_id_that_it_is_given_and_assigns() -> None:
    code, partitions, me = await Group().join()
    assert (code, partitions) == (ErrorCode.NONE, [("orders", 1), ("orders", 11)])
    assert (me.generation, me.member_id, me.identity) == (4, "m-1", "m-1")


async def test_another_member_assigns_nothing() -> None:
    group = Group(leader="m-0")
    assert (await group.join())[:2] == (ErrorCode.NONE, [])
    assert group.asked[-1].assignments == []


async def test_a_refusal_leaves_the_generation() -> None:
    code, partitions, me = await Group(sync=ErrorCode.REBALANCE_IN_PROGRESS).join()
    assert (code, partitions, me.generation) == (ErrorCode.REBALANCE_IN_PROGRESS, [], -1)


async def test_heartbeats_commits_and_the_end_say_who_the_member_is() -> None:
    me, asked = GroupMembership("g", 4, "m-1", "i"), list[Any]()

    async def ask(request: Any) -> Any:
        asked.append(request)
        return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)

    assert await heartbeat(ask, me) is ErrorCode.REBALANCE_IN_PROGRESS
    await leave(ask, me)
    beat, leaving = asked
    assert (beat.generation_id, beat.member_id, beat.group_instance_id) == (4, "m-1", "i")
    assert (leaving.members[0].member_id, leaving.members[0].group_instance_id) == ("m-1", "i")
    commit = offset_commit(me, {("orders", 0): 9})
    assert (commit.generation_id_or_member_epoch, commit.topics[0].partitions[0].committed_offset) == (4, 9)


def test_a_heartbeat_of_the_new_protocol_names_topics_by_id() -> None:
    me = GroupMembership("g", member_id="m-1")
    request = consumer_heartbeat(me, JOINS, [(TOPIC_ID, 3)], topics=["orders"], rebalance_timeout_ms=5)
    assert request.topic_partitions == [TopicPartitions(topic_id=TOPIC_ID, partitions=[3])]
    assert consumer_heartbeat(me, 1, None).topic_partitions is None
    topics = [TopicPartitions(topic_id=TOPIC_ID, partitions=[0, 3])]
    answer = ConsumerGroupHeartbeatResponse(assignment=Assignment(topic_partitions=topics))
    assert assigned(answer) == [(TOPIC_ID, 0), (TOPIC_ID, 3)]
    assert assigned(ConsumerGroupHeartbeatResponse()) is None


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT])
async def test_committed_offsets_are_returned_or_refused(code: ErrorCode) -> None:
    brokers = Brokers()
    part = OffsetFetchResponsePartitions(partition_index=0, committed_offset=9, error_code=code)
    topic = OffsetFetchResponseTopics(name="orders", partitions=[part])
    brokers.set(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[Found(node_id=1, host="one", port=1)]))
    group = OffsetFetchResponseGroup(group_id="g", topics=[topic])
    brokers.set(OffsetFetchRequest, OffsetFetchResponse(groups=[group]))
    asking = committed_offsets(Coordinator(Patient(brokers), "g"), "g", [("orders", 0)])
    if code:
        with pytest.raises(Refused):
            await asking
    else:
        assert await asking == {("orders", 0): 9}
