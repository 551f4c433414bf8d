"""The delayed operation of a generation: its members have to ask for their assignment (KAFKA-12890)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from purgatorio.broker.causes.cause import MembersToSync
from purgatorio.broker.causes.words import MAX_NAMED, shortened
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.state import GroupState
from purgatorio.broker.purgatory import DelayedOperation
from purgatorio.protocol.errors import ErrorCode

_SYNCING = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


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
        delay_ms: the rebalance timeout.
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
