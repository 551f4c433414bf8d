"""The states of a classic group with the table of their transitions, and a member of such a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from purgatorio.broker.group.delayed_heartbeat import DelayedHeartbeat
from purgatorio.broker.group.memory import ENTRY_BYTES, MEMBER_BYTES, TEXT_BYTES, text_bytes
from purgatorio.late import dataclass
from purgatorio.protocol.messages.join_group import JoinGroupResponse
from purgatorio.protocol.messages.sync_group import SyncGroupResponse


class GroupState(Enum):
    """The state of a classic group; the values are Kafka's names."""

    EMPTY = "Empty"
    """No members; perhaps committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The members shall join again; their joins are parked until all have, or the rebalance timeout is over."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The members know their generation, and wait for the assignment that the leader sends with its sync."""
    STABLE = "Stable"
    """The assignment is committed."""
    DEAD = "Dead"
    """This broker does not coordinate the group any more, or the group was deleted."""


TRANSITIONS: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}
"""From each state, those that may follow."""


JoinReply = Callable[[JoinGroupResponse], None]
"""Answers one JoinGroup request; called once."""


SyncReply = Callable[[SyncGroupResponse], None]
"""Answers one SyncGroup request; called once."""


Protocols = tuple[tuple[str, bytes], ...]
"""The names of the assignors that a member supports, in the order of its preference, each with its subscription."""


def protocols_bytes(protocols: Protocols) -> int:
    """Return the bytes that a member's protocols take."""
    return sum(ENTRY_BYTES + text_bytes(name) + TEXT_BYTES + len(metadata) for name, metadata in protocols)


@dataclass(slots=True, eq=False, kw_only=True)
class ClassicGroupMember:
    """A member of a classic group.

    Attributes:
        member_id: the id that the coordinator gave it; a static member that comes back gets another one.
        instance_id: the name of a static member (KIP-345); None for a dynamic one.
        client_host: its address, as Kafka writes it: ``/127.0.0.1``.
        rebalance_timeout_ms: how long a rebalance waits for it to join again.
        session_timeout_ms: how long it may be silent.
        assignment: the bytes that the leader assigned to it in this generation.
        is_new: it has joined, and no rebalance is completed since. A new member's parked join is no sign of life, since
            its client may have given up and come again under another id (KAFKA-7610).
        session: its session; None only while it is being added or removed.
        counted_bytes: what its group has counted for it.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    join: JoinReply | None = None
    sync: SyncReply | None = None
    session: DelayedHeartbeat | None = None
    counted_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """The bytes that it takes: those that its client has sent, and its assignment."""
        own_bytes = MEMBER_BYTES + len(self.assignment) + protocols_bytes(self.protocols)
        return own_bytes + text_bytes(self.member_id, self.instance_id, self.client_id, self.client_host)

    def metadata(self, protocol: str | None) -> bytes:
        """Return its subscription for an assignor; empty if it does not support that one."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def counts_as_alive(self) -> bool:
        """Return whether it waits for an answer of this broker, so that it need not send heartbeats."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def beat(self) -> None:
        """Count a request as a sign of life."""
        if self.session is not None:
            self.session.beat()
