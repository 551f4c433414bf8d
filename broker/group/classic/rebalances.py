"""Rebalances of classic groups, and the sessions of their members.

A rebalance is prepared when the members change, and completed when all have joined again, or the rebalance timeout is
over. It begins a generation, in which the leader's sync brings the assignment (`syncs`).

One delayed operation stands for all parked joins of a group, another one for the syncs of a generation. That members
have to ask for their assignment in time is KAFKA-12890.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from purgatorio.broker.causes.cause import FirstMembersToJoin, MembersToJoin, MembersToSync
from purgatorio.broker.causes.words import MAX_NAMED, listed, shortened
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.member import ClassicGroupMember, GroupState
from purgatorio.broker.group.classic.records import group_record
from purgatorio.broker.group.delayed_heartbeat import DelayedHeartbeat, MemberKey
from purgatorio.broker.group.history import MAX_DEPARTED, Departed, Rebalance
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.time.long_work import Steps
from purgatorio.late import dataclass
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.join_group import JoinGroupResponse
from purgatorio.protocol.messages.sync_group import SyncGroupResponse
from purgatorio.purgatory import DelayedOperation

_SYNCING = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


@dataclass(frozen=True, slots=True)
class JoinKey:
    """The watch key of a group's rebalance: checked when a member joins, leaves, or is removed."""

    group_id: str

    def __str__(self) -> str:
        return f"join of {shortened(self.group_id)}"


class DelayedJoin(DelayedOperation):
    """Waits until all members have joined again; at the deadline, the rebalance goes on with those that have.

    One operation stands for all parked joins of the group.

    Args:
        group: the group, which prepares a rebalance.
        rebalances: begins the next generation, and answers the parked joins.
    """

    __slots__ = ("_held_by", "_rebalances", "group")

    def __init__(self, group: ClassicGroup, delay_ms: int, rebalances: Rebalances) -> None:
        super().__init__(delay_ms)
        self.group = group
        self._rebalances = rebalances
        self._held_by: tuple[str, ...] | None = None

    def try_complete(self) -> bool:
        """Complete if all members have joined, or the group is dead."""
        group = self.group
        return (group.has_all_joined or group.state is GroupState.DEAD) and self.force_complete()

    def on_complete(self) -> None:
        """Begin the next generation."""
        last = self.group.last_joined
        self._held_by = self._waits_for() or (() if last is None else (self.group.label(last),))
        self._rebalances.complete(self.group)

    def on_shutdown(self) -> None:
        """Answer the parked joins with NOT_COORDINATOR: the clients look for another broker."""
        self._rebalances.answer_joins(self.group, ErrorCode.NOT_COORDINATOR)

    def on_error(self, error: Exception) -> None:
        """Answer the joins that are still parked with UNKNOWN_SERVER_ERROR."""
        self._rebalances.answer_joins(self.group, ErrorCode.UNKNOWN_SERVER_ERROR)

    def causes(self) -> Sequence[MembersToJoin | FirstMembersToJoin]:
        """Return the members that have not joined again."""
        group = self.group
        members, more_count = group.awaited([member for member in group.members.values() if member.join is None])
        if not members and not group.pending:
            return ()
        return (MembersToJoin(group.group_id, members, more_count, len(group.pending)),)

    def held_by(self) -> tuple[str, ...]:
        """Return the first members that have not joined again; after the answer, if all had, the one that was last."""
        return self._waits_for() if self._held_by is None else self._held_by

    def _waits_for(self) -> tuple[str, ...]:
        group = self.group
        if group.joined_count == len(group.members):
            return ()
        absent = [member for member in group.members.values() if member.join is None]
        return tuple(group.label(member) for member in absent[:MAX_NAMED])


class InitialDelayedJoin(DelayedJoin):
    """Waits a fixed time for the first members of an empty group, so that they make one rebalance together (KIP-134).

    If a member has come meanwhile, another such operation follows, as long as the rebalance timeout allows.

    Args:
        rest_ms: the rest of the rebalance timeout after this delay.
    """

    __slots__ = ("_rest_ms",)

    def __init__(self, group: ClassicGroup, delay_ms: int, rest_ms: int, rebalances: Rebalances) -> None:
        super().__init__(group, delay_ms, rebalances)
        self._rest_ms = rest_ms

    def try_complete(self) -> bool:
        """Wait on, unless there is no delay or the group is dead."""
        return (self.delay_ms <= 0 or self.group.state is GroupState.DEAD) and self.force_complete()

    def on_complete(self) -> None:
        """Wait again if members have come meanwhile, or else begin the first generation."""
        if self.group.has_newcomers and self._rest_ms > 0 and self.group.is_alive:
            self._rebalances.await_first_members(self.group, self._rest_ms)
        else:
            super().on_complete()

    def causes(self) -> Sequence[FirstMembersToJoin]:
        """Return that the delay is not over."""
        return (FirstMembersToJoin(self.group.group_id, len(self.group.members)),)


@dataclass(frozen=True, slots=True)
class SyncKey:
    """The watch key of a generation's syncs: checked when a member syncs or is removed, or the generation ends."""

    group_id: str

    def __str__(self) -> str:
        return f"sync of {shortened(self.group_id)}"


class DelayedSync(DelayedOperation):
    """Waits until each member of a generation has sent its sync, or the generation is over.

    Args:
        group: the group, at the beginning of a generation.
        rebalances: removes the members that have not synced, which makes the others join again; answers the syncs.
    """

    __slots__ = ("_generation", "_held_by", "_rebalances", "group")

    def __init__(self, group: ClassicGroup, delay_ms: int, rebalances: Rebalances) -> None:
        super().__init__(delay_ms)
        self.group = group
        self._generation = group.generation
        self._rebalances = rebalances
        self._held_by: tuple[str, ...] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the generation has ended."""
        return self.group.generation != self._generation or self.group.state not in _SYNCING

    def try_complete(self) -> bool:
        """Complete if all have synced, or the generation is over."""
        return (not self.group.unsynced or self.is_over) and self.force_complete()

    def on_complete(self) -> None:
        """Answer no request: the syncs are answered by the leader's assignment, or by the next rebalance."""
        self._held_by = self._waits_for()

    def on_expiration(self) -> None:
        """Remove the members that have not synced."""
        self._rebalances.syncs_expired(self.group, self._generation)

    def on_shutdown(self) -> None:
        """Answer the parked syncs with NOT_COORDINATOR: the clients look for another broker."""
        self._rebalances.answer_syncs(self.group, ErrorCode.NOT_COORDINATOR)

    def causes(self) -> Sequence[MembersToSync]:
        """Return the members that have not synced."""
        group = self.group
        if self.is_over or not group.unsynced:
            return ()
        members, more_count = group.awaited([group.members[member_id] for member_id in group.unsynced])
        leader = None
        if group.leader_id is not None and group.leader_id in group.unsynced:
            leader = group.named(group.members[group.leader_id])
        return (MembersToSync(group.group_id, group.generation, leader, members, more_count),)

    def held_by(self) -> tuple[str, ...]:
        """Return the first members that have not synced."""
        return self._waits_for() if self._held_by is None else self._held_by

    def _waits_for(self) -> tuple[str, ...]:
        group = self.group
        if self.is_over:
            return ()
        unsynced = list(group.unsynced)[:MAX_NAMED]
        return tuple(group.label(group.members[member_id]) for member_id in unsynced)


logger = get_logger(__name__)

COST_OF_ANSWER: Final = 20
"""The cost of answering a member (see `LongWork`)."""
MAX_REASON: Final = 255
"""The most characters of a client's reason that are logged (KIP-800)."""
NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60_000
"""The session of a member until its first rebalance is complete: its client waits for the join, and sends nothing
(KAFKA-7610)."""


def join_error(member_id: str, error_code: ErrorCode) -> JoinGroupResponse:
    """Return the answer to a join that failed."""
    return JoinGroupResponse(error_code=error_code, protocol_name=None, member_id=member_id)


class Rebalances:
    """Adds and removes members of classic groups, and rebalances the groups."""

    def __init__(self, services: GroupServices) -> None:
        self._services = services

    # --- rebalances ---

    def changed(self, group: ClassicGroup, cause: str, detail: str = "") -> None:
        """Prepare a rebalance because the members have changed; if one is prepared already, check whether all joined.

        Args:
            cause: why, for observers, who count operations by it: one of a few words.
            detail: more about it, for the log: which member, and the client's own reason.
        """
        if group.state is GroupState.PREPARING_REBALANCE:
            self.check_joins(group, cause)
        elif group.state is not GroupState.DEAD:
            self.prepare(group, cause, detail)

    def check_joins(self, group: ClassicGroup, cause: str) -> None:
        """Complete the rebalance if all members have joined."""
        self._services.rebalance_purgatory.check_and_complete(JoinKey(group.group_id), cause)

    def check_syncs(self, group: ClassicGroup, cause: str) -> None:
        """End the wait for syncs if all members have synced, or their generation is over."""
        self._services.rebalance_purgatory.check_and_complete(SyncKey(group.group_id), cause)

    def prepare(self, group: ClassicGroup, cause: str, detail: str = "") -> None:
        """Ask all members to join again: they learn it from their heartbeats, and from their syncs."""
        logger.info(
            "group rebalances",
            group=shortened(group.group_id),
            generation=group.generation,
            members=len(group.members),
            cause=cause,
            detail=detail,
        )
        began = Rebalance(self._services.clock.now_ms(), group.generation, len(group.members), cause, detail)
        self._services.history.note(group.group_id, began)
        before = group.state
        group.unsynced = {}
        group.move_to(GroupState.PREPARING_REBALANCE, self._services.clock.wall_ms())
        if before is GroupState.COMPLETING_REBALANCE:
            self.answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self.check_syncs(group, "rebalance")
        if before is GroupState.EMPTY:
            self.await_first_members(group, group.rebalance_timeout_ms)
        else:
            self._await_joins(group)

    def _await_joins(self, group: ClassicGroup) -> None:
        operation = DelayedJoin(group, group.rebalance_timeout_ms, self)
        self._park(operation, group)

    def await_first_members(self, group: ClassicGroup, rest_ms: int) -> None:
        """Wait for more members of a group that was empty, for a part of the rest of its rebalance timeout."""
        group.has_newcomers = False
        delay_ms = min(self._services.config.initial_rebalance_delay_ms, rest_ms)
        operation = InitialDelayedJoin(group, delay_ms, rest_ms - delay_ms, self)
        self._park(operation, group)

    def _park(self, operation: DelayedJoin, group: ClassicGroup) -> None:
        last = group.last_joined
        operation.client = "" if last is None else last.client_id
        self._services.rebalance_purgatory.try_complete_else_watch(operation, (JoinKey(group.group_id),))

    def complete(self, group: ClassicGroup) -> None:
        """Begin the next generation with the members that have joined, and with static ones that have not (8220)."""
        if not group.is_alive:
            return
        members = group.members.values()
        absent = [member for member in members if member.join is None and member.instance_id is None]
        self._drop_all(group, absent, "they have not joined again")
        if group.members and not self._elect_leader(group):
            self._await_joins(group)  # static members only, and none has joined: they keep their partitions for now
            return
        group.next_generation(self._services.clock.wall_ms())
        group.last_joined = None
        if group.members:
            self._answer_generation(group)
        else:
            self._write_empty(group)

    def _elect_leader(self, group: ClassicGroup) -> bool:
        """Replace a leader that has not joined by the oldest member that has; returns whether there is one."""
        leader = None if group.leader_id is None else group.members.get(group.leader_id)
        if leader is None or leader.join is None:
            leader = next((member for member in group.members.values() if member.join is not None), None)
        if leader is None:
            return False
        group.leader_id = leader.member_id
        return True

    def _answer_generation(self, group: ClassicGroup) -> None:
        """Answer all joins; the members have the rebalance timeout to ask for their assignment."""
        replies = []
        for member in group.members.values():
            member.is_new = False
            group.assign(member, b"")
            if member.session is not None:
                member.session.session_timeout_ms = member.session_timeout_ms
                member.session.beat()
            reply = group.take_join(member)
            if reply is not None:
                replies.append((reply, self.generation_of(group, member)))
        operation = DelayedSync(group, group.rebalance_timeout_ms, self)
        self._services.rebalance_purgatory.try_complete_else_watch(operation, (SyncKey(group.group_id),))
        self._send(replies)

    def _send(self, answers: Sequence[tuple[Callable[[Any], None], Any]]) -> None:
        """Send the answers of parked requests; of very many, the later ones in later turns of the event loop."""

        def steps() -> Steps:
            for reply, response in answers:
                reply(response)
                yield COST_OF_ANSWER

        self._services.work.begin(steps())

    @staticmethod
    def generation_of(group: ClassicGroup, member: ClassicGroupMember) -> JoinGroupResponse:
        """Return the answer to the join of a member: the present generation, to the leader with all members."""
        is_leader = member.member_id == group.leader_id
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader_id or "",
            member_id=member.member_id,
            members=group.listed_members() if is_leader else [],
        )

    def _write_empty(self, group: ClassicGroup) -> None:
        def done(error_code: ErrorCode) -> None:
            if error_code:
                # A coordinator that loads the group finds its last members, whose sessions then end.
                logger.warning("an empty group was not written", group=shortened(group.group_id), error=error_code.name)

        record = group_record(group, {})
        group.is_logged |= self._services.log.append(group.shard.tp, [record], done)
        logger.info("group is empty", group=shortened(group.group_id), generation=group.generation)

    def syncs_expired(self, group: ClassicGroup, generation: int) -> None:
        """Remove the members that have a generation and have not asked for their assignment (KAFKA-12890)."""
        if not group.is_alive or generation != group.generation or not group.unsynced:
            return
        self._drop_all(group, [group.members[member_id] for member_id in group.unsynced], "they have not synced")
        self.changed(group, "no sync")

    # --- answers of parked requests ---

    def answer_joins(self, group: ClassicGroup, error_code: ErrorCode) -> None:
        """Answer all parked joins with an error."""
        for member in list(group.members.values()):
            self.answer_join(group, member, error_code)

    @staticmethod
    def answer_join(group: ClassicGroup, member: ClassicGroupMember, error_code: ErrorCode) -> None:
        """Answer a member's parked join, if there is one, with an error."""
        reply = group.take_join(member)
        if reply is not None:
            reply(join_error(member.member_id, error_code))

    def answer_syncs(self, group: ClassicGroup, error_code: ErrorCode = ErrorCode.NONE) -> None:
        """Answer all parked syncs, with an error or with the assignments; the answer begins their sessions anew."""
        answers = []
        for member in group.members.values():
            reply, member.sync = member.sync, None
            if reply is not None:
                member.beat()
                response = SyncGroupResponse(error_code=error_code) if error_code else self.assignment_of(group, member)
                answers.append((reply, response))
        self._send(answers)

    @staticmethod
    def assignment_of(group: ClassicGroup, member: ClassicGroupMember) -> SyncGroupResponse:
        """Return the answer to the sync of a member."""
        return SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
        )

    # --- members ---

    def start_session(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Begin the session of a member."""
        timeout_ms = NEW_MEMBER_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        member.session = DelayedHeartbeat(
            self._services.heartbeat_purgatory,
            MemberKey(group.group_id, member.member_id),
            timeout_ms,
            expired=partial(self._session_over, group, member),
            counts_as_alive=member.counts_as_alive,
        ).start(member.client_id)

    def rename(self, group: ClassicGroup, member: ClassicGroupMember, member_id: str) -> None:
        """Give a static member another id; requests with the old one are fenced from now on (KIP-345)."""
        self.answer_join(group, member, ErrorCode.FENCED_INSTANCE_ID)
        sync, member.sync = member.sync, None
        if sync is not None:
            sync(SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        if member.session is not None:
            member.session.end()
        group.rename(member, member_id)
        self.start_session(group, member)

    def add_pending(self, group: ClassicGroup, member_id: str, session_timeout_ms: int, client: str) -> None:
        """Expect the member to which this id is given; if it does not join in time, the group does not wait for it."""
        self.keep(group)
        session = DelayedHeartbeat(
            self._services.heartbeat_purgatory,
            MemberKey(group.group_id, member_id),
            session_timeout_ms,
            expired=partial(self.drop_pending, group, member_id, "session over"),
        )
        group.expect(member_id, session.start(client))

    def drop_pending(self, group: ClassicGroup, member_id: str, cause: str) -> None:
        """Expect a member no more; the others may have waited for it alone (KAFKA-7909)."""
        session = group.expect_no_more(member_id)
        if session is None:
            return
        session.end()
        if not group.is_alive:
            return
        if group.state is GroupState.PREPARING_REBALANCE:
            self.check_joins(group, cause)
        self._forget_unused(group)

    def _drop_all(self, group: ClassicGroup, members: Sequence[ClassicGroupMember], reason: str) -> None:
        if members:
            logger.info(
                "members removed",
                group=shortened(group.group_id),
                count=len(members),
                members=listed([group.label(each) for each in members[:MAX_NAMED]], max(0, len(members) - MAX_NAMED)),
                reason=reason,
            )
        for member in members:
            self.drop(group, member)

    @staticmethod
    def drop(group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Remove a member, and answer its parked requests; the caller then calls `changed`."""
        group.remove(member.member_id)
        session, member.session = member.session, None
        if session is not None:
            session.end()
        join, member.join = member.join, None
        if join is not None:
            join(join_error(member.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
        sync, member.sync = member.sync, None
        if sync is not None:
            sync(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))

    def _session_over(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        if group.is_alive and group.members.get(member.member_id) is member:
            logger.info("session is over", group=shortened(group.group_id), member=shortened(member.member_id))
            self.drop(group, member)
            self.changed(group, "session over", f"member {shortened(member.member_id)}")

    def note_departed(self, group: ClassicGroup) -> None:
        """Keep what the members of a stable group own, before some of them leave."""
        some = islice(group.members.values(), MAX_DEPARTED)
        members = tuple((each.member_id, each.client_id, each.assignment) for each in some)
        self._services.history.note_departed(group.group_id, Departed(self._services.clock.now_ms(), members))

    @staticmethod
    def keep(group: ClassicGroup) -> None:
        """Put a new group, which a first request has just made, into its shard."""
        if group.group_id not in group.shard.groups:
            group.shard.put(group)

    def _forget_unused(self, group: ClassicGroup) -> None:
        """Forget a group that was made for a member which never joined."""
        is_unused = group.is_empty and not group.pending and not group.is_logged
        if (
            is_unused
            and group.shard.groups.get(group.group_id) is group
            and not group.shard.offsets.knows(group.group_id)
        ):
            group.shard.remove(group.group_id)
            self._services.history.forget(group.group_id)
