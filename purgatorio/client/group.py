"""Groups: how a member joins by the classic protocol or that of KIP-848, stays, leaves, and commits offsets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from purgatorio.client.client import Coordinator, Partition, by_topic, check
from purgatorio.late import dataclass
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
from purgatorio.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from purgatorio.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NOT_MEMBER: Final = -1
"""The generation of a client that is no member."""
JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
"""The member epochs of heartbeats that begin and end a membership (KIP-848)."""
LOST: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
"""With these errors a member of KIP-848 has lost its partitions, and has to join again."""
STRUCT_VERSION: Final = 1
"""Of subscriptions and assignments."""

Ask = Callable[..., Awaitable[Any]]
"""Asks the coordinator, as `Coordinator.ask`."""
Key = tuple[bytes, int]
"""A partition by topic id and index."""
AssignTopics = Callable[[Mapping[str, Sequence[str]]], Awaitable[Mapping[str, Sequence[Partition]]]]
"""Shares the partitions of topics among members, given the topics that each subscribes to."""
Assign = Callable[[Sequence[str], int], Mapping[str, Sequence[Partition]]]
"""Shares the partitions among members, given their ids in order and the generation."""


@dataclass(slots=True)
class GroupMembership:
    """The identity that a member sends.

    Attributes:
        generation: or its member epoch (KIP-848); below 1: it is no member.
        instance_id: that of a static member (KIP-345).
    """

    group: str
    generation: int = NOT_MEMBER
    member_id: str = ""
    instance_id: str | None = None

    @property
    def identity(self) -> str:
        """The name of a static member that it keeps, or else its member id."""
        return self.instance_id or self.member_id


# --- the classic protocol ---


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """How members of a group join; `assign` is what the leader of the group does, if all members are alike.

    Attributes:
        assign_topics: what it does if they are not, or None.
    """

    topics: tuple[str, ...]
    assign: Assign
    session_timeout_ms: int
    rebalance_timeout_ms: int
    assignor: str = "roundrobin"
    assign_topics: AssignTopics | None = None

    async def join(self, ask: Ask, me: GroupMembership) -> tuple[ErrorCode, list[Partition]]:
        """Join, and synchronise; return the error, if the coordinator refuses, and the partitions assigned."""
        answer = await ask(self._join_request(me))
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            me.member_id = answer.member_id
            answer = await ask(self._join_request(me))
        if answer.error_code:
            return ErrorCode(answer.error_code), []
        me.member_id = answer.member_id
        request = SyncGroupRequest(
            group_id=me.group,
            generation_id=answer.generation_id,
            member_id=me.member_id,
            group_instance_id=me.instance_id,
            protocol_type=answer.protocol_type,
            protocol_name=answer.protocol_name,
        )
        if answer.leader == me.member_id and not answer.skip_assignment:
            if self.assign_topics is None:
                members = sorted(each.member_id for each in answer.members)
                shares = self.assign(members, answer.generation_id)
            else:
                shares = await self.assign_topics(
                    {each.member_id: SUBSCRIPTION.decode(each.metadata).topics for each in answer.members}
                )
            request.assignments = [
                SyncGroupRequestAssignment(member_id=member_id, assignment=_encoded(partitions))
                for member_id, partitions in shares.items()
            ]
        synced = await ask(request)
        if synced.error_code:
            return ErrorCode(synced.error_code), []
        me.generation = answer.generation_id
        return ErrorCode.NONE, assignment_of(synced.assignment)

    def _join_request(self, me: GroupMembership) -> JoinGroupRequest:
        subscription = SUBSCRIPTION.encode(ConsumerProtocolSubscription(topics=[*self.topics]), STRUCT_VERSION)
        return JoinGroupRequest(
            group_id=me.group,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=me.member_id,
            group_instance_id=me.instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=self.assignor, metadata=subscription)],
        )


def _encoded(partitions: Sequence[Partition]) -> bytes:
    topics = [
        TopicPartitions(topic=topic, partitions=[*indexes])
        for topic, indexes in by_topic(dict.fromkeys(partitions)).items()
    ]
    return ASSIGNMENT.encode(ConsumerProtocolAssignment(assigned_partitions=topics), STRUCT_VERSION)


def assignment_of(assignment: Any) -> list[Partition]:
    """Return the partitions in a member's assignment, as consumers have it; raises ProtocolError for another one."""
    topics = ASSIGNMENT.decode(assignment).assigned_partitions if assignment else ()
    return [(topic.topic, index) for topic in topics for index in topic.partitions]


async def heartbeat(ask: Ask, me: GroupMembership) -> ErrorCode:
    """Send a heartbeat; return the answer's error."""
    request = HeartbeatRequest(
        group_id=me.group, generation_id=me.generation, member_id=me.member_id, group_instance_id=me.instance_id
    )
    return ErrorCode((await ask(request)).error_code)


async def leave(ask: Ask, me: GroupMembership) -> None:
    """Leave the group."""
    leaving = MemberIdentity(member_id=me.member_id, group_instance_id=me.instance_id)
    await ask(LeaveGroupRequest(group_id=me.group, members=[leaving]))


# --- the protocol of KIP-848 ---


def consumer_heartbeat(
    me: GroupMembership,
    epoch: int,
    owned: Iterable[Key] | None,
    *,
    topics: Sequence[str] | None = None,
    rebalance_timeout_ms: int = -1,
) -> ConsumerGroupHeartbeatRequest:
    """Build a heartbeat; that which joins gives the topics, the timeout, and that it owns nothing."""
    parts = None
    if owned is not None:
        parts = [TopicIdPartitions(topic_id=topic_id, partitions=[index]) for topic_id, index in owned]
    return ConsumerGroupHeartbeatRequest(
        group_id=me.group,
        member_id=me.member_id,
        member_epoch=epoch,
        instance_id=me.instance_id,
        rebalance_timeout_ms=rebalance_timeout_ms,
        subscribed_topic_names=None if topics is None else [*topics],
        topic_partitions=parts,
    )


def assigned(answer: Any) -> list[Key] | None:
    """Return what the answer to a heartbeat of a consumer or a share group assigns; None: the same as before."""
    if answer.assignment is None:
        return None
    topics = answer.assignment.topic_partitions
    return [(bytes(topic.topic_id), index) for topic in topics for index in topic.partitions]


# --- offsets ---


def offset_commit(me: GroupMembership, offsets: Mapping[Any, int]) -> OffsetCommitRequest:
    """Build the request that commits offsets of partitions."""
    return OffsetCommitRequest(
        group_id=me.group,
        generation_id_or_member_epoch=me.generation,
        member_id=me.member_id,
        group_instance_id=me.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
                ],
            )
            for (topic, index), offset in offsets.items()
        ],
    )


def offset_fetch(
    group: str, partitions: Iterable[Partition], *, me: GroupMembership | None = None, stable: bool = False
) -> OffsetFetchRequest:
    """Build the request for the committed offsets of partitions.

    Args:
        me: the member that asks, if the coordinator is to check it (KIP-848).
        stable: refuse offsets that an open transaction may change (KIP-447).
    """
    named = [*partitions]
    asked = OffsetFetchRequestGroup(
        group_id=group,
        topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[index]) for topic, index in named],
    )
    if me is not None:
        asked.member_id, asked.member_epoch = me.member_id, me.generation
    return OffsetFetchRequest(
        group_id=group,
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[index]) for topic, index in named],
        groups=[asked],
        require_stable=stable,
    )


async def committed_offsets(
    coordinator: Coordinator,
    group: str,
    partitions: Iterable[Partition],
    *,
    me: GroupMembership | None = None,
    stable: bool = False,
) -> dict[Partition, int]:
    """Return the committed offsets of partitions; -1: there is none.

    Raises:
        Refused: the broker does not give them now.
        FAILURES: it did not answer.
    """
    return _offsets_in(await coordinator.ask(offset_fetch(group, partitions, me=me, stable=stable)))


async def all_committed_offsets(coordinator: Coordinator, group: str) -> dict[Partition, int]:
    """Return all committed offsets of a group; raises as `committed_offsets`."""
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
    )
    return _offsets_in(await coordinator.ask(request))


def _offsets_in(response: OffsetFetchResponse) -> dict[Partition, int]:
    # Before version 8 the response itself is about the only group.
    answer: OffsetFetchResponse | OffsetFetchResponseGroup = response.groups[0] if response.groups else response
    check(answer.error_code)
    offsets = {}
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code)
            offsets[topic.name, each.partition_index] = each.committed_offset
    return offsets
