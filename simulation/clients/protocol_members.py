"""Simulated members of consumer groups: of classic ones, which rebalance eagerly, and of the new protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from purgatorio.protocol.messages.consumer_group_heartbeat import TopicPartitions as TopicIdPartitions
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from purgatorio.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from purgatorio.simulation.clients.clients import NETWORK_ERRORS, REQUEST_TIMEOUT_MS, Unavailable
from purgatorio.simulation.clients.group_members import NOT_MEMBER, GroupMember
from purgatorio.simulation.clients.plans import REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS
from purgatorio.simulation.history.history import GroupBeat

JOIN_VERSION: Final = 9
SYNC_VERSION: Final = 5
HEARTBEAT_VERSION: Final = 4
LEAVE_VERSION: Final = 5
STRUCT_VERSION: Final = 1
ASSIGNOR: Final = "rotate"
CONSUMER_HEARTBEAT_VERSION: Final = 1
JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
LOST: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
"""With these errors a member has lost its partitions, and has to join again."""


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


class ConsumerMember(GroupMember):
    """A member by ConsumerGroupHeartbeat; it keeps its partitions until the coordinator asks for them."""

    NAMES_ITSELF = True

    def _request(self, epoch: int, owned: Iterable[TopicPartition] | None) -> ConsumerGroupHeartbeatRequest:
        topics = None
        if owned is not None:
            ids = self._shared.topic_ids
            topics = [TopicIdPartitions(topic_id=ids[tp.topic], partitions=[tp.partition]) for tp in sorted(owned)]
        return ConsumerGroupHeartbeatRequest(
            group_id=self._shared.plan.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self._instance_id,
            topic_partitions=topics,
        )

    async def _join(self) -> None:
        if not self._member_id:
            self._member_id = f"{self._client.name}-{self._rng.getrandbits(32):08x}"
        await self._heartbeat(self._full(JOINS, []))

    def _full(self, epoch: int, owned: Iterable[TopicPartition]) -> ConsumerGroupHeartbeatRequest:
        request = self._request(epoch, owned)
        request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
        request.subscribed_topic_names = sorted(self._shared.topic_ids)
        return request

    async def _beat(self) -> None:
        try:
            await self._heartbeat(self._request(self._generation, self.owned))
        except (*NETWORK_ERRORS, Unavailable):
            # The coordinator may have moved the member on: a full heartbeat brings the assignment again.
            await self._lost_coordinator()
            self._coordinator = await self._client.coordinator(self._shared.plan.group_id)
            await self._heartbeat(self._full(self._generation, self.owned))

    async def _heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> None:
        answer = await self._ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, CONSUMER_HEARTBEAT_VERSION, request)
        code = ErrorCode(answer.error_code)
        if code in LOST:
            self._give_up(self.owned)
            self._generation = NOT_MEMBER
        elif code is not ErrorCode.NONE:
            raise Unavailable(code.name)
        else:
            await self._follow(answer)

    async def _follow(self, answer: Any) -> None:
        """Take the epoch and the assignment of an answer; partitions are committed before they are given up."""
        is_new = answer.member_epoch != self._generation
        self._generation = answer.member_epoch
        partitions = self.owned
        if answer.assignment is not None:
            names = {topic_id: name for name, topic_id in self._shared.topic_ids.items()}
            partitions = [
                TopicPartition(names[bytes(topic.topic_id)], index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            ]
        if not is_new and sorted(partitions) == sorted(self.owned):
            return
        self._told(partitions)
        revoked = [tp for tp in self.owned if tp not in partitions]
        self._take_over(partitions)
        if revoked:
            try:
                await self._commit()
            finally:
                self._give_up(revoked)

    async def _go(self) -> None:
        """Leave; a static member leaves for a while, as if it was restarted, until the faults are over."""
        member_id, generation = self._member_id, self._generation
        for_a_while = self._instance_id is not None and self._shared.is_restless()
        request = self._request(LEAVES_FOR_A_WHILE if for_a_while else LEAVES, None)
        self._give_up(self.owned)
        self._member_id, self._generation = "", NOT_MEMBER
        if member_id and generation > 0:
            await self._ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, CONSUMER_HEARTBEAT_VERSION, request)


def _encoded(partitions: Sequence[TopicPartition]) -> bytes:
    topics = [TopicPartitions(topic=tp.topic, partitions=[tp.partition]) for tp in partitions]
    return ASSIGNMENT.encode(ConsumerProtocolAssignment(assigned_partitions=topics), STRUCT_VERSION)


def _decoded(assignment: Any) -> list[TopicPartition]:
    if not assignment:
        return []
    topics = ASSIGNMENT.decode(assignment).assigned_partitions
    return [TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions]
