"""A simulated member of a classic consumer group, which rebalances eagerly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.consumer_protocol import (
    ASSIGNMENT,
    CONSUMER_PROTOCOL_TYPE,
    SUBSCRIPTION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from purgatorio.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from purgatorio.simulation.clients.clients import REQUEST_TIMEOUT_MS, Unavailable
from purgatorio.simulation.clients.group_members import NOT_MEMBER, GroupMember
from purgatorio.simulation.clients.group_plan import REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS
from purgatorio.simulation.history.history import GroupBeat

JOIN_VERSION: Final = 9
SYNC_VERSION: Final = 5
HEARTBEAT_VERSION: Final = 4
LEAVE_VERSION: Final = 5
STRUCT_VERSION: Final = 1
ASSIGNOR: Final = "rotate"


class ClassicMember(GroupMember):
    """A member by JoinGroup, SyncGroup and Heartbeat; it gives up all partitions when the group rebalances."""

    NAMES_ITSELF = False

    async def _join(self) -> None:
        subscription = ConsumerProtocolSubscription(topics=sorted(self._shared.topic_ids))
        request = JoinGroupRequest(
            group_id=self._shared.plan.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=ASSIGNOR, metadata=SUBSCRIPTION.encode(subscription, STRUCT_VERSION))
            ],
        )
        timeout_ms = REBALANCE_TIMEOUT_MS + REQUEST_TIMEOUT_MS
        answer = await self._ask(ApiKey.JOIN_GROUP, JOIN_VERSION, request, timeout_ms)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            return
        if self._is_refused(answer.error_code):
            return
        self._member_id = answer.member_id
        await self._sync(answer, timeout_ms)

    async def _sync(self, joined: Any, timeout_ms: int) -> None:
        request = SyncGroupRequest(
            group_id=self._shared.plan.group_id,
            generation_id=joined.generation_id,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
        )
        if joined.leader == self._member_id and not joined.skip_assignment:
            members = sorted(each.member_id for each in joined.members)
            request.assignments = [
                SyncGroupRequestAssignment(member_id=member_id, assignment=_encoded(partitions))
                for member_id, partitions in self._share(members, joined.generation_id).items()
            ]
        answer = await self._ask(ApiKey.SYNC_GROUP, SYNC_VERSION, request, timeout_ms)
        if self._is_refused(answer.error_code):
            return
        self._generation = joined.generation_id
        partitions = _decoded(answer.assignment)
        self._told(partitions)
        self._take_over(partitions)

    def _share(self, members: Sequence[str], generation: int) -> dict[str, list[TopicPartition]]:
        """Share the partitions among the members, in each generation differently."""
        shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        for nth, tp in enumerate(self._shared.partitions):
            shares[members[(nth + generation) % len(members)]].append(tp)
        return shares

    async def _beat(self) -> None:
        if self._generation <= 0:
            return
        generation, asked_ms = self._generation, self._client.clock.now_ms()
        request = HeartbeatRequest(
            group_id=self._shared.plan.group_id,
            generation_id=generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
        )
        answer = await self._ask(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, request)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            await self._commit()
        if self._is_refused(answer.error_code):
            return
        if self._shared.plan.protocol == "mixed":
            return  # its generation is its own member epoch: others may be ahead
        self._client.record(GroupBeat, self._shared.plan.group_id, self._client.name, generation, asked_ms)

    def _is_refused(self, error_code: int) -> bool:
        """Return whether a request was refused; the member then gives up all partitions, and joins again.

        Raises:
            Unavailable: the broker does not coordinate the group now; the member keeps its partitions.
        """
        code = ErrorCode(error_code)
        if code is ErrorCode.NONE:
            return False
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._give_up(self.owned)
            self._member_id = ""
        elif code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._give_up(self.owned)
        else:
            raise Unavailable(code.name)
        self._generation = NOT_MEMBER
        return True

    async def _go(self) -> None:
        """Leave; a static member forgets its member id instead, as if it was restarted."""
        member_id, self._member_id = self._member_id, ""
        self._give_up(self.owned)
        self._generation = NOT_MEMBER
        if not member_id or (self._instance_id is not None and self._shared.is_restless()):
            return
        leaving = MemberIdentity(member_id=member_id, group_instance_id=self._instance_id)
        request = LeaveGroupRequest(group_id=self._shared.plan.group_id, members=[leaving])
        await self._ask(ApiKey.LEAVE_GROUP, LEAVE_VERSION, request)


def _encoded(partitions: Sequence[TopicPartition]) -> bytes:
    topics = [TopicPartitions(topic=tp.topic, partitions=[tp.partition]) for tp in partitions]
    return ASSIGNMENT.encode(ConsumerProtocolAssignment(assigned_partitions=topics), STRUCT_VERSION)


def _decoded(assignment: Any) -> list[TopicPartition]:
    if not assignment:
        return []
    topics = ASSIGNMENT.decode(assignment).assigned_partitions
    return [TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions]
