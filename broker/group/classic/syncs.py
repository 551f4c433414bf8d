"""SyncGroup: the leader of a classic group brings the assignment, and each member gets its own."""

from __future__ import annotations

from collections.abc import Sequence

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.member import SyncReply
from purgatorio.broker.group.classic.rebalances import Rebalances
from purgatorio.broker.group.classic.records import group_record
from purgatorio.broker.group.classic.state import GroupState
from purgatorio.broker.group.services import GroupServices
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)


class Syncs:
    """Handles the syncs of one broker's classic groups.

    Args:
        services: the log.
        rebalances: rebalances the groups.
    """

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
        or there is no memory for it, all members are told, and join again.
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
            done(ErrorCode.UNKNOWN_SERVER_ERROR)  # as in Kafka, where the append tells it
            return
        try:
            self._services.check_room(given_bytes)
        except CoordinatorError as error:
            done(error.error_code)
            return
        assignments.update((each.member_id, bytes(each.assignment)) for each in given)
        record = group_record(group, assignments)
        group.is_logged |= self._services.log.append(group.shard.tp, [record], done, client=client)


def _check_protocol(group: ClassicGroup, request: SyncGroupRequest) -> None:
    """Check what the member takes for the type and the protocol of the group (KIP-559); null: it does not tell.

    Raises:
        CoordinatorError: INCONSISTENT_GROUP_PROTOCOL.
    """
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (None, group.protocol):
        raise CoordinatorError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group is {group.protocol_type}, and uses {group.protocol}"
        )
