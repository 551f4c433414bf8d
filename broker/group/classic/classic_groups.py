"""The classic groups of one broker: the requests of their members, and their coming and going with their partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from purgatorio.broker.causes.words import shortened
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.joins import Join, Joins, join_of
from purgatorio.broker.group.classic.member import GroupState, JoinReply, SyncReply
from purgatorio.broker.group.classic.rebalances import MAX_REASON, JoinKey, Rebalances, SyncKey
from purgatorio.broker.group.classic.records import group_record
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.routing.request import RequestContext
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.join_group import JoinGroupRequest
from purgatorio.protocol.messages.leave_group import MemberIdentity
from purgatorio.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

PROTOCOLS_PER_MEMBER: Final = 4
"""A member's protocols may total four times the largest record; the record of a group has one protocol of each."""

MAX_REASONS: Final = 3
"""The most members of a request whose reasons are logged."""


class ClassicGroups:
    """Handles the requests of classic groups' members.

    Attributes:
        rebalances: adds and removes members.
    """

    def __init__(self, services: GroupServices, coordinator: GroupCoordinator) -> None:
        self._services = services
        self._coordinator = coordinator
        self.rebalances = Rebalances(services)
        self._joins = Joins(services, self.rebalances)
        self._syncs = Syncs(services, self.rebalances)

    # --- requests ---

    def join(
        self, shard: GroupShard, group: Group | None, ctx: RequestContext, request: JoinGroupRequest, reply: JoinReply
    ) -> None:
        """Let a member join its group, which is made if there is none; answers now, or when its rebalance is complete.

        Raises:
            CoordinatorError: with the error code of the answer.
        """
        if group is not None and not isinstance(group, ClassicGroup) and group.gives_way and not request.member_id:
            # An empty group takes the protocol of the member that comes.
            group = None if self._coordinator.discard(shard, group) else group
        if group is None:
            shard.check_group_count(self._services.config.max_groups)
            group = ClassicGroup(request.group_id, shard, state_ms=self._services.clock.wall_ms())
        if not isinstance(group, ClassicGroup):
            raise CoordinatorError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {request.group_id} uses another group protocol"
            )
        self._joins.join(group, self.read_join(shard, ctx, request, reply))

    def read_join(self, shard: GroupShard, ctx: RequestContext, request: JoinGroupRequest, reply: JoinReply) -> Join:
        """Return a join, with copies of its bytes, unless these are too large for a record of the group.

        Raises:
            CoordinatorError: GROUP_MAX_SIZE_REACHED. Kafka lets the member join, and then can write no generation with
                it: all members' syncs fail.
        """
        limit_bytes = self._services.log.max_batch_bytes(shard.tp)
        metadata_bytes = [len(protocol.metadata) for protocol in request.protocols]
        if max(metadata_bytes, default=0) > limit_bytes or sum(metadata_bytes) > PROTOCOLS_PER_MEMBER * limit_bytes:
            message = f"a member of group {shortened(request.group_id)} tells {sum(metadata_bytes)} bytes of metadata"
            raise CoordinatorError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        return join_of(ctx, request, reply)

    def sync(self, group: Group | None, request: SyncGroupRequest, reply: SyncReply, *, client: str) -> None:
        """Give a member its assignment; answers now, or when the leader's assignment is committed.

        Raises:
            CoordinatorError: with the error code of the answer.
        """
        self._syncs.sync(_known(group, request.group_id), request, reply, client=client)

    def heartbeat(self, group: Group | None, request: HeartbeatRequest) -> None:
        """Count a sign of life of a member.

        Raises:
            CoordinatorError: with the error code of the answer; REBALANCE_IN_PROGRESS if the member has to join again.
        """
        group = _known(group, request.group_id)
        member = group.find(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        member.beat()
        if group.state is GroupState.PREPARING_REBALANCE:
            raise CoordinatorError(ErrorCode.REBALANCE_IN_PROGRESS, "the members have to join again")

    def leave(self, group: Group | None, leaving: Sequence[MemberIdentity]) -> list[ErrorCode]:
        """Remove members.

        Returns:
            An error code for each.

        Raises:
            CoordinatorError: none was removed: with the error code of the answer.
        """
        if not isinstance(group, ClassicGroup):
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        return _leave(self.rebalances, group, leaving)

    # --- with the partition (see `GroupLifecycle`) ---

    def loaded(self, shard: GroupShard, group: Group) -> None:
        """Begin new sessions of all members: their heartbeats went to another broker. A group too large rebalances."""
        assert isinstance(group, ClassicGroup)
        for member in group.members.values():
            self.rebalances.start_session(group, member)
        if len(group.members) > self._services.config.max_size:
            self.rebalances.prepare(group, "group too large")

    def unloaded(self, shard: GroupShard, group: Group) -> None:
        """Answer all parked joins and syncs with NOT_COORDINATOR, and end all sessions."""
        assert isinstance(group, ClassicGroup)
        if group.state is GroupState.DEAD:
            return
        group.move_to(GroupState.DEAD, self._services.clock.wall_ms())
        self.rebalances.answer_joins(group, ErrorCode.NOT_COORDINATOR)
        self.rebalances.answer_syncs(group, ErrorCode.NOT_COORDINATOR)
        for member in group.members.values():
            if member.session is not None:
                member.session.end()
        for session in group.pending.values():
            session.end()
        purgatory = self._services.rebalance_purgatory
        purgatory.check_and_complete(JoinKey(group.group_id), "unloaded")
        purgatory.check_and_complete(SyncKey(group.group_id), "unloaded")


class Syncs:
    """Handles the syncs of one broker's classic groups."""

    def __init__(self, services: GroupServices, rebalances: Rebalances) -> None:
        self._services = services
        self._rebalances = rebalances

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, reply: SyncReply, *, client: str = "") -> None:
        """Give a member its assignment: now, or when that of the leader is committed.

        Raises:
            CoordinatorError: with the error code of the answer.
        """
        member = group.find(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        _check_protocol(group, request)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise CoordinatorError(ErrorCode.REBALANCE_IN_PROGRESS, "the members have to join again")
        member.beat()
        if group.unsynced.pop(member.member_id, "") is None and not group.unsynced:
            self._rebalances.check_syncs(group, "sync")
        if group.state is GroupState.STABLE:
            reply(self._rebalances.assignment_of(group, member))
            return
        before, member.sync = member.sync, reply
        if before is not None:  # its client has asked again
            before(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        if member.member_id == group.leader_id:
            self._write(group, request.assignments, client)

    def _write(self, group: ClassicGroup, given: Sequence[SyncGroupRequestAssignment], client: str) -> None:
        """Write the generation with its assignment; when it is committed the group is stable.

        The leader may have left out members, which then get nothing to do. If the assignment is too large for a record,
        or there is no memory for it, all syncs are answered with an error, and the members join again.
        """
        generation = group.generation
        assignments: dict[str, bytes] = {}

        def done(error_code: ErrorCode) -> None:
            is_over = group.generation != generation or group.state is not GroupState.COMPLETING_REBALANCE
            if is_over or not group.is_alive:
                return
            if error_code:
                self._rebalances.answer_syncs(group, error_code)
                self._rebalances.changed(group, "assignment not written", error_code.name)
                return
            for member in group.members.values():
                group.assign(member, assignments.get(member.member_id, b""))
            group.move_to(GroupState.STABLE, self._services.clock.wall_ms())
            self._rebalances.answer_syncs(group)

        given_bytes = sum(len(each.assignment) for each in given)
        metadata_bytes = sum(len(member.metadata(group.protocol)) for member in group.members.values())
        if given_bytes + metadata_bytes > self._services.log.max_batch_bytes(group.shard.tp):
            done(ErrorCode.UNKNOWN_SERVER_ERROR)  # as in Kafka, where the append fails
            return
        try:
            self._services.check_room(given_bytes)
        except CoordinatorError as error:
            done(error.error_code)
            return
        assignments.update((each.member_id, bytes(each.assignment)) for each in given)
        record = group_record(group, assignments)
        group.is_logged |= self._services.log.append(group.shard.tp, [record], done, client=client)


def _known(group: Group | None, group_id: str) -> ClassicGroup:
    if not isinstance(group, ClassicGroup):
        raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no classic group {group_id}")
    return group


def _leave(rebalances: Rebalances, group: ClassicGroup, leaving: Sequence[MemberIdentity]) -> list[ErrorCode]:
    """Remove members, after which one rebalance is prepared for those that stay.

    Returns:
        An error code for each: NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.

    Raises:
        CoordinatorError: COORDINATOR_NOT_AVAILABLE: the group is dead.
    """
    if group.state is GroupState.DEAD:
        raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {group.group_id} is dead")
    if group.state is GroupState.STABLE:
        rebalances.note_departed(group)
    results = []
    reasons = []
    for each in leaving:
        try:
            reasons += _leave_one(rebalances, group, each)
            results.append(ErrorCode.NONE)
        except CoordinatorError as error:
            results.append(error.error_code)
    if reasons:
        rebalances.changed(group, "leave", "; ".join(reasons[:MAX_REASONS]))
    return results


def _leave_one(rebalances: Rebalances, group: ClassicGroup, leaving: MemberIdentity) -> list[str]:
    """Remove one member; returns why the others have to rebalance, or nothing for an id that has not joined yet."""
    instance_id = leaving.group_instance_id
    member_id = leaving.member_id
    if not member_id and instance_id is not None:
        member_id = group.instances.get(instance_id, "")
    if instance_id is None and member_id in group.pending:
        rebalances.drop_pending(group, member_id, "leave")
        return []
    member = group.find(member_id, instance_id)
    reason = f"member {shortened(member_id)}: {(leaving.reason or 'no reason given')[:MAX_REASON]}"
    rebalances.drop(group, member)
    return [reason]


def _check_protocol(group: ClassicGroup, request: SyncGroupRequest) -> None:
    """Check the type and the protocol that a sync names (KIP-559); null: it names none.

    Raises:
        CoordinatorError: INCONSISTENT_GROUP_PROTOCOL.
    """
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (None, group.protocol):
        raise CoordinatorError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group is {group.protocol_type}, and uses {group.protocol}"
        )
