"""A group of any kind, as the coordinator of offsets and administrators see it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.memory import GROUP_BYTES, GroupMemory, text_bytes
from purgatorio.protocol.consumer_offsets import Key
from purgatorio.protocol.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from purgatorio.protocol.errors import ErrorCode

GroupType = Literal["classic", "consumer", "share"]
"""The protocol of a group: that of JoinGroup, of ConsumerGroupHeartbeat (KIP-848), or of ShareGroupHeartbeat
(KIP-932)."""


class Group(ABC):
    """A group as its partition of ``__consumer_offsets`` defines it.

    Attributes:
        memory: what the group keeps; its shard's counts it while the group is there.
    """

    __slots__ = ("group_id", "memory")

    type: ClassVar[GroupType]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.memory = GroupMemory()
        self.memory.change(GROUP_BYTES + text_bytes(group_id))

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state, as ListGroups names it: Empty, Stable, …"""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """``consumer``, ``connect``, …; empty for a group that has only offsets."""

    @property
    @abstractmethod
    def member_count(self) -> int:
        """How many members the group has."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @property
    def gives_way(self) -> bool:
        """Whether the group may be replaced by one of another kind, and is forgotten if it has no offsets."""
        return self.is_empty

    @abstractmethod
    def record_keys(self) -> list[Key]:
        """Return the keys of the records of the group without members, but for its offsets."""

    @abstractmethod
    def subscribes_to(self, topic: str) -> bool:
        """Return whether a member consumes the topic, as far as the coordinator knows."""

    @abstractmethod
    def check_commit(self, member_id: str, instance_id: str | None, generation_or_epoch: int, version: int) -> None:
        """Check that this member may commit offsets now, and count the commit as a sign of life.

        Args:
            member_id: the member; empty with generation −1 for a client that assigns partitions itself.
            instance_id: the static member's name; None for a dynamic member.
            generation_or_epoch: the generation, or the member epoch under KIP-848.

        Raises:
            CoordinatorError: with the error code for all partitions of the request.
        """

    def check_txn_commit(self, member_id: str, instance_id: str | None, generation_or_epoch: int) -> None:
        """Check that offsets of a transaction may be committed now (KIP-447).

        A client without a membership may commit at any time: it relies on the fencing of its transactional id. That the
        group rebalances is no reason to refuse.

        Args:
            member_id, instance_id, generation_or_epoch: as in `check_commit`.

        Raises:
            CoordinatorError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION or STALE_MEMBER_EPOCH.
        """
        has_membership = generation_or_epoch >= 0 or member_id or instance_id is not None
        if has_membership and (generation_or_epoch >= 0 or not self.is_empty):
            self._check_member(member_id, instance_id, generation_or_epoch)

    @abstractmethod
    def _check_member(self, member_id: str, instance_id: str | None, generation_or_epoch: int) -> None:
        """Check that this is a member, in the current generation or its current epoch.

        Raises:
            CoordinatorError: as `check_txn_commit`.
        """

    @abstractmethod
    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check that this member may read committed offsets; None: the request names no member.

        Raises:
            CoordinatorError: with the error code for the group.
        """

    @abstractmethod
    def check_delete(self) -> None:
        """Check that the group may be deleted.

        Raises:
            CoordinatorError: NON_EMPTY_GROUP, or GROUP_ID_NOT_FOUND for a group that is dead.
        """

    def check_offset_delete(self) -> None:
        """Check that committed offsets of the group may be deleted; those of topics that members consume may not.

        Raises:
            CoordinatorError: NON_EMPTY_GROUP for members that are no consumers, whose topics are unknown.
        """
        if not self.is_empty and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            message = f"group {self.group_id!r} has members of type {self.protocol_type}"
            raise CoordinatorError(ErrorCode.NON_EMPTY_GROUP, message)

    @abstractmethod
    def offset_expires_from_ms(self, topic: str, commit_ms: int) -> int | None:
        """Return the wall time from which the retention of a committed offset counts; None: it does not expire now."""
