"""JoinGroup: members come into a classic group, and come again in each rebalance."""

from __future__ import annotations

from typing import Final

from purgatorio.broker.causes.words import shortened
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.member import ClassicGroupMember, GroupState, JoinReply, Protocols, protocols_bytes
from purgatorio.broker.group.classic.rebalances import MAX_REASON, Rebalances, join_error
from purgatorio.broker.group.classic.records import group_record
from purgatorio.broker.group.memory import MEMBER_BYTES, text_bytes
from purgatorio.broker.group.services import GroupServices, random_uuid
from purgatorio.broker.routing.request import RequestContext
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.join_group import JoinGroupRequest

MEMBER_ID_REQUIRED_VERSION: Final = 4
"""The first version in which a new dynamic member has to join a second time, with the id that it got (KIP-394)."""
SKIP_ASSIGNMENT_VERSION: Final = 9
"""The first version whose answer can keep a returning static leader from assigning (KIP-814)."""


@dataclass(frozen=True, slots=True)
class Join:
    """One JoinGroup request.

    Attributes:
        member_id: empty for a new member.
        instance_id: the static member's name; None for a dynamic one.
        client_host: the client's address, as Kafka writes it.
        session_timeout_ms: how long the member may be silent.
        rebalance_timeout_ms: how long a rebalance may wait for it.
        reason: why it joins, in the client's words (KIP-800).
    """

    version: int
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str
    reply: JoinReply


def join_of(ctx: RequestContext, request: JoinGroupRequest, reply: JoinReply) -> Join:
    """Return a request as the group needs it, with copies of its bytes."""
    timeout_ms = request.rebalance_timeout_ms
    return Join(
        version=ctx.api_version,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.session.host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms < 0 else timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        reason=(request.reason or "no reason given")[:MAX_REASON],
        reply=reply,
    )


class Joins:
    """Handles the joins of one broker's classic groups."""

    def __init__(self, services: GroupServices, rebalances: Rebalances) -> None:
        self._services = services
        self._rebalances = rebalances

    def join(self, group: ClassicGroup, join: Join) -> None:
        """Let a member join, or join again; answers now, or when the rebalance is complete.

        Args:
            group: the group; a new one comes into its shard with its first member.

        Raises:
            CoordinatorError: with the error code of the answer.
        """
        self._check(group, join)
        if join.member_id:
            self._known_id(group, join)
        elif join.instance_id is not None and join.instance_id in group.instances:
            self._static_member_returns(group, join, group.members[group.instances[join.instance_id]])
        else:
            self._new_member(group, join)

    def _check(self, group: ClassicGroup, join: Join) -> None:
        config = self._services.config
        if not config.min_session_timeout_ms <= join.session_timeout_ms <= config.max_session_timeout_ms:
            raise CoordinatorError(
                ErrorCode.INVALID_SESSION_TIMEOUT, f"a session timeout of {join.session_timeout_ms} ms is not allowed"
            )
        if join.member_id and group.group_id not in group.shard.groups:
            raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group.group_id}")
        if group.state is GroupState.DEAD:
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {group.group_id} is dead")
        if not self._has_room(group, join):
            self._rebalances.drop_pending(group, join.member_id, "group full")
            raise CoordinatorError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {group.group_id} has {config.max_size} members, its maximum"
            )
        self._check_memory(group, join)
        if not group.supports(join.protocol_type, join.protocols):
            raise CoordinatorError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the members of a group need one type, and a protocol in common"
            )

    def _check_memory(self, group: ClassicGroup, join: Join) -> None:
        """Check that there is memory for the protocols of a member.

        Raises:
            CoordinatorError: GROUP_MAX_SIZE_REACHED.
        """
        member_id = join.member_id
        if not member_id and join.instance_id is not None:
            member_id = group.instances.get(join.instance_id, "")
        more_bytes = protocols_bytes(join.protocols)
        member = group.members.get(member_id)
        if member is not None:
            more_bytes -= protocols_bytes(member.protocols)
        elif join.member_id not in group.pending:
            new_id = f"{join.instance_id or join.client_id}"
            more_bytes += MEMBER_BYTES + text_bytes(new_id, join.instance_id, join.client_id, join.client_host)
        if group.group_id not in group.shard.groups:
            more_bytes += group.memory.used_bytes
        self._services.check_room(more_bytes)

    def _has_room(self, group: ClassicGroup, join: Join) -> bool:
        """Return whether the group may have this member; after a cut of the limit, the first to join again (9885)."""
        holder_id = "" if join.instance_id is None else group.instances.get(join.instance_id, "")
        member = group.members.get(join.member_id or holder_id)
        max_size = self._services.config.max_size
        if group.state is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.join is not None) or group.joined_count < max_size
        return member is not None or len(group.members) < max_size

    # --- new members ---

    def _new_member(self, group: ClassicGroup, join: Join) -> None:
        member_id = f"{join.instance_id or join.client_id}-{self._random_uuid()}"
        if join.instance_id is not None or join.version < MEMBER_ID_REQUIRED_VERSION:
            self._add(group, join, member_id)
            return
        if len(group.pending) >= self._services.config.max_size:
            raise CoordinatorError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {group.group_id} has given out too many ids"
            )
        self._rebalances.add_pending(group, member_id, join.session_timeout_ms, join.client_id)
        join.reply(join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))

    def _random_uuid(self) -> str:
        return random_uuid(self._services.rng)

    def _add(self, group: ClassicGroup, join: Join, member_id: str) -> None:
        if not group.members:
            group.protocol_type = join.protocol_type
        member = ClassicGroupMember(
            member_id=member_id,
            instance_id=join.instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.session_timeout_ms,
            protocols=join.protocols,
            is_new=True,
        )
        self._rebalances.keep(group)
        group.add(member)
        group.has_newcomers = True
        group.park_join(member, join.reply)
        self._rebalances.start_session(group, member)
        self._rebalances.changed(group, "join", f"new member {shortened(member_id)}: {join.reason}")

    # --- members with an id ---

    def _known_id(self, group: ClassicGroup, join: Join) -> None:
        if join.instance_id is None and join.member_id in group.pending:
            session = group.expect_no_more(join.member_id)
            assert session is not None, "it is pending"
            session.end()
            self._add(group, join, join.member_id)
            return
        member = group.find(join.member_id, join.instance_id)
        is_unchanged = member.protocols == join.protocols
        if group.state is GroupState.COMPLETING_REBALANCE and is_unchanged:
            # The answer to its first join may have been lost.
            self._answer_at_once(group, join, member)
        elif group.state is GroupState.STABLE and is_unchanged and group.leader_id != member.member_id:
            self._answer_at_once(group, join, member)
        else:
            self._join_again(group, join, member)

    def _answer_at_once(self, group: ClassicGroup, join: Join, member: ClassicGroupMember) -> None:
        self._update(group, join, member)
        member.beat()
        join.reply(self._rebalances.generation_of(group, member))

    def _join_again(self, group: ClassicGroup, join: Join, member: ClassicGroupMember) -> None:
        self._update(group, join, member)
        self._park(group, join, member)
        self._rebalances.changed(group, "join", f"member {shortened(member.member_id)}: {join.reason}")

    @staticmethod
    def _update(group: ClassicGroup, join: Join, member: ClassicGroupMember) -> None:
        group.update(
            member,
            join.protocols,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.session_timeout_ms,
        )

    def _park(self, group: ClassicGroup, join: Join, member: ClassicGroupMember) -> None:
        """Park a join; one that was parked before is answered: its client has asked again."""
        member.beat()
        before = group.park_join(member, join.reply)
        if before is not None:
            before(join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))

    # --- static members ---

    def _static_member_returns(self, group: ClassicGroup, join: Join, member: ClassicGroupMember) -> None:
        """Give a static member that was restarted a new id, which fences the old one (KIP-345)."""
        returned = _Returned(member)
        old_leader_id = group.leader_id
        self._rebalances.rename(group, member, f"{join.instance_id}-{self._random_uuid()}")
        self._update(group, join, member)
        member.beat()
        if group.state is GroupState.STABLE and group.vote() == group.protocol:
            self._keep_assignment(group, join, member, returned, old_leader_id or "")
            return
        # In the midst of a rebalance the leader may already have assigned to the old id (KAFKA-9801).
        self._park(group, join, member)
        self._rebalances.changed(group, "join", f"static member {shortened(join.instance_id or '')}: {join.reason}")

    def _keep_assignment(
        self, group: ClassicGroup, join: Join, member: ClassicGroupMember, returned: _Returned, old_leader_id: str
    ) -> None:
        """Answer with the present generation once the new id is committed: there is no need to rebalance.

        Before version 9, a leader gets no list and the id of the one before, so that it does not assign.
        """
        member_id = member.member_id
        response = self._rebalances.generation_of(group, member)
        if join.version >= SKIP_ASSIGNMENT_VERSION:
            response.skip_assignment = member_id == group.leader_id
        else:
            response.leader = old_leader_id
            response.members = []

        def done(error_code: ErrorCode) -> None:
            if not error_code:
                join.reply(response)
                return
            if group.is_alive and group.members.get(member_id) is member:
                returned.restore(self._rebalances, group)
            join.reply(join_error("", error_code))

        assignments = {each.member_id: each.assignment for each in group.members.values()}
        self._services.log.append(group.shard.tp, [group_record(group, assignments)], done, client=join.client_id)


class _Returned:
    """A static member before it came back: restored if its new id could not be written (KAFKA-10284)."""

    def __init__(self, member: ClassicGroupMember) -> None:
        self._member = member
        self._member_id = member.member_id
        self._protocols = member.protocols
        self._rebalance_timeout_ms = member.rebalance_timeout_ms
        self._session_timeout_ms = member.session_timeout_ms

    def restore(self, rebalances: Rebalances, group: ClassicGroup) -> None:
        """Give the member its earlier id, protocols and timeouts."""
        rebalances.rename(group, self._member, self._member_id)
        group.update(
            self._member,
            self._protocols,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            session_timeout_ms=self._session_timeout_ms,
        )
        self._member.beat()
