"""The delayed operations of a rebalance: its joins wait for the other members, and then its members have to sync.

That they have to ask for their assignment in time is KAFKA-12890.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from purgatorio.broker.causes.cause import FirstMembersToJoin, MembersToJoin, MembersToSync
from purgatorio.broker.causes.words import MAX_NAMED, shortened
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.member import GroupState
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode
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
        complete: begins the next generation, and answers the parked joins.
        refuse: answers the parked joins with an error code.
    """

    __slots__ = ("_complete", "_held_by", "_refuse", "group")

    def __init__(
        self,
        group: ClassicGroup,
        delay_ms: int,
        *,
        complete: Callable[[ClassicGroup], None],
        refuse: Callable[[ClassicGroup, ErrorCode], None],
    ) -> None:
        super().__init__(delay_ms)
        self.group = group
        self._complete = complete
        self._refuse = refuse
        self._held_by: tuple[str, ...] | None = None

    def try_complete(self) -> bool:
        """Complete if all members have joined, or the group is dead."""
        group = self.group
        return (group.has_all_joined or group.state is GroupState.DEAD) and self.force_complete()

    def on_complete(self) -> None:
        """Begin the next generation."""
        last = self.group.last_joined
        self._held_by = self._waits_for() or (() if last is None else (self.group.label(last),))
        self._complete(self.group)

    def on_shutdown(self) -> None:
        """Answer the parked joins with NOT_COORDINATOR: the clients look for another broker."""
        self._refuse(self.group, ErrorCode.NOT_COORDINATOR)

    def on_error(self, error: Exception) -> None:
        """Answer the joins that are still parked with UNKNOWN_SERVER_ERROR."""
        self._refuse(self.group, ErrorCode.UNKNOWN_SERVER_ERROR)

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
        again: parks the next operation, whose delay and rest these are.
    """

    __slots__ = ("_again", "_rest_ms")

    def __init__(
        self,
        group: ClassicGroup,
        delay_ms: int,
        rest_ms: int,
        *,
        complete: Callable[[ClassicGroup], None],
        refuse: Callable[[ClassicGroup, ErrorCode], None],
        again: Callable[[ClassicGroup, int], None],
    ) -> None:
        super().__init__(group, delay_ms, complete=complete, refuse=refuse)
        self._rest_ms = rest_ms
        self._again = again

    def try_complete(self) -> bool:
        """Wait on, unless there is no delay or the group is dead."""
        return (self.delay_ms <= 0 or self.group.state is GroupState.DEAD) and self.force_complete()

    def on_complete(self) -> None:
        """Wait again if members have come meanwhile, or else begin the first generation."""
        if self.group.has_newcomers and self._rest_ms > 0 and self.group.is_alive:
            self._again(self.group, self._rest_ms)
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
        expired: removes the members that have not synced, which makes the others join again.
        refuse: answers the parked syncs with an error code.
    """

    __slots__ = ("_expired", "_generation", "_held_by", "_refuse", "group")

    def __init__(
        self,
        group: ClassicGroup,
        delay_ms: int,
        *,
        expired: Callable[[ClassicGroup, int], None],
        refuse: Callable[[ClassicGroup, ErrorCode], None],
    ) -> None:
        super().__init__(delay_ms)
        self.group = group
        self._generation = group.generation
        self._expired = expired
        self._refuse = refuse
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
        self._expired(self.group, self._generation)

    def on_shutdown(self) -> None:
        """Answer the parked syncs with NOT_COORDINATOR: the clients look for another broker."""
        self._refuse(self.group, ErrorCode.NOT_COORDINATOR)

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
