"""The requests of the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup), by the kind of their group.

Most are about classic groups (`classic/`). While a group goes from one protocol to the other (KIP-848), its members of
the classic protocol are in a consumer group (`consumer/classic_members.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.classic_groups import ClassicGroups
from purgatorio.broker.group.classic.member import JoinReply, SyncReply
from purgatorio.broker.group.consumer.classic_members import ClassicMembers
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.routing.request import RequestContext
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.join_group import JoinGroupRequest
from purgatorio.protocol.messages.leave_group import MemberIdentity
from purgatorio.protocol.messages.sync_group import SyncGroupRequest


class ClassicRequests:
    """Finds the group of a request, once, and hands both to what handles groups of its kind.

    Every method raises CoordinatorError with the error code of the answer.
    """

    def __init__(self, coordinator: GroupCoordinator, groups: ClassicGroups, members: ClassicMembers) -> None:
        self._coordinator = coordinator
        self._groups = groups
        self._members = members

    def join(self, ctx: RequestContext, request: JoinGroupRequest, reply: JoinReply) -> None:
        """Let a member join; answers now, or when its rebalance is complete."""
        shard, group = self._find(request.group_id)
        if _has_consumers(group):
            self._members.join(shard, group, ctx, request, reply)
        else:
            self._groups.join(shard, group, ctx, request, reply)

    def sync(self, ctx: RequestContext, request: SyncGroupRequest, reply: SyncReply) -> None:
        """Give a member its assignment; answers now, or when the assignment is committed."""
        shard, group = self._find(request.group_id)
        if _has_consumers(group):
            self._members.sync(shard, group, ctx, request, reply)
        else:
            self._groups.sync(group, request, reply, client=ctx.client_id or "")

    def heartbeat(self, request: HeartbeatRequest) -> None:
        """Count a sign of life of a member; REBALANCE_IN_PROGRESS if the member has to join again."""
        shard, group = self._find(request.group_id)
        if _has_consumers(group):
            self._members.heartbeat(shard, group, request)
        else:
            self._groups.heartbeat(group, request)

    def leave(self, group_id: str, leaving: Sequence[MemberIdentity]) -> list[ErrorCode]:
        """Remove members; returns an error code for each. If this raises, none was removed."""
        shard, group = self._find(group_id)
        if _has_consumers(group):
            return self._members.leave(shard, group, leaving)
        return self._groups.leave(group, leaving)

    def _find(self, group_id: str) -> tuple[GroupShard, Group | None]:
        if not group_id:
            raise CoordinatorError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        shard = self._coordinator.shard_of(group_id)
        return shard, shard.groups.get(group_id)


def _has_consumers(group: Group | None) -> TypeGuard[ConsumerGroup]:
    """Whether it is a consumer group with members. An empty one gives way to the protocol of the member that comes."""
    return isinstance(group, ConsumerGroup) and not group.is_empty
