"""A group whose partitions the coordinator assigns, as its records define it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, Protocol, TypeVar

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.delayed_heartbeat import DelayedHeartbeat
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.memory import MEMBER_BYTES, text_bytes
from purgatorio.broker.group.modern.partitions import Partitions, partitions_bytes
from purgatorio.protocol.errors import ErrorCode


class Subscription(Protocol):
    """What the record of a member says, whatever the group's protocol."""

    client_id: str
    client_host: str
    subscribed_topic_names: list[str]


class Assigned(Protocol):
    """What a member has been assigned, and its epoch."""

    @property
    def epoch(self) -> int:
        """The epoch of the target assignment that the member has reached; 0 before the first."""
        ...

    @property
    def previous_epoch(self) -> int:
        """The epoch before."""
        ...

    @property
    def held(self) -> Partitions:
        """The partitions that the member has."""
        ...


class ModernMember(Protocol):
    """A member of such a group.

    Attributes:
        counted_bytes: what its group has counted for its subscription.
        session: ends when the member is taken for dead; None while its broker loads it.
    """

    member_id: str
    counted_bytes: int
    session: DelayedHeartbeat | None

    @property
    def subscription(self) -> Subscription:
        """Its last record; a change replaces it."""
        ...

    @property
    def current(self) -> Assigned:
        """What it has been assigned."""
        ...


M = TypeVar("M", bound=ModernMember)


class SubscriptionCounts:
    """The topics that members name, each with the number of those members.

    Attributes:
        names: by topic; a topic need not exist.
    """

    __slots__ = ("names",)

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def copy(self) -> SubscriptionCounts:
        """Return counts that can be changed without changing these."""
        copied = type(self)()
        copied.names = dict(self.names)
        return copied

    def add(self, subscription: Any) -> None:
        """Count a member in."""
        self._change(subscription, 1)

    def remove(self, subscription: Any) -> None:
        """Count a member out."""
        self._change(subscription, -1)

    def _change(self, subscription: Any, change: int) -> None:
        for name in dict.fromkeys(subscription.subscribed_topic_names):
            count(self.names, name, change)


def count(counts: dict[str, int], name: str, change: int) -> None:
    """Change a count; one that is 0 is left out."""
    counts[name] = counts.get(name, 0) + change
    if counts[name] <= 0:
        del counts[name]


class ModernGroup(Group, Generic[M]):
    """A group whose partitions the coordinator assigns. Only the methods that apply records change it.

    Attributes:
        epoch: grows when members, subscriptions or topics change.
        metadata_hash: tells whether the subscribed topics have changed since that epoch began.
        target_epoch: the epoch that the target assignment was made for; lower than `epoch` if there is none yet.
        target: what each member shall have.
        members: by member id, in the order of joining.
        is_metadata_stale: whether a subscribed topic may have changed since `metadata_hash`; the next heartbeat checks.
        assigned_ms: when the target assignment was made, by the clock's monotonic time; None: before this was loaded.
        appended: counts the group's appends to the log.
        committed: `appended`, as of the last append that is known to be committed.
    """

    __slots__ = (
        "appended",
        "assigned_ms",
        "committed",
        "epoch",
        "is_metadata_stale",
        "members",
        "metadata_hash",
        "target",
        "target_epoch",
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target: dict[str, Partitions] = {}
        self.members: dict[str, M] = {}
        self.is_metadata_stale = True
        self.appended = self.committed = 0
        self.assigned_ms: int | None = None

    # --- what others ask ---

    @property
    @abstractmethod
    def counts(self) -> SubscriptionCounts:
        """How many members subscribe to what."""

    @property
    @abstractmethod
    def is_stable(self) -> bool:
        """Whether every member has what it shall have; until then members send heartbeats more often."""

    @abstractmethod
    def subscribed_topics(self) -> frozenset[str]:
        """Return the names of the topics that members subscribe to, in whatever way; they need not exist."""

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def check_delete(self) -> None:
        """Check that the group may be deleted.

        Raises:
            CoordinatorError: NON_EMPTY_GROUP.
        """
        if self.members:
            raise CoordinatorError(ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id} has {len(self.members)} members")

    def known(self, member_id: str) -> M:
        """Return a member.

        Raises:
            CoordinatorError: UNKNOWN_MEMBER_ID.
        """
        member = self.members.get(member_id)
        if member is None:
            raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is no member of group {self.group_id}")
        return member

    # --- what records say ---

    @abstractmethod
    def put_member(self, member_id: str, subscription: Any) -> None:
        """Apply a member's subscription; it may be a new member."""

    @abstractmethod
    def remove_member(self, member_id: str) -> None:
        """Remove a member, with all that it holds; one that is unknown, too."""

    @abstractmethod
    def put_current_record(self, member_id: str, value: Any) -> None:
        """Apply what a member has been assigned; None: nothing is known of it."""

    def put_target(self, member_id: str, partitions: Partitions | None) -> None:
        """Apply what a member shall have; None: nothing is known of it."""
        before = self.target.pop(member_id, None)
        if before is not None:
            self.memory.change(-text_bytes(member_id) - partitions_bytes(before))
        if partitions is not None:
            self.target[member_id] = partitions
            self.memory.change(text_bytes(member_id) + partitions_bytes(partitions))

    def put_target_epoch(self, epoch: int) -> None:
        """Apply the epoch of the target assignment."""
        self.target_epoch = epoch

    # --- for the two kinds ---

    def _member(self, member_id: str) -> M:
        """Return a member; a new one if it is unknown."""
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = self._new_member(member_id)
            self.memory.change(MEMBER_BYTES + text_bytes(member_id))
        return member

    @abstractmethod
    def _new_member(self, member_id: str) -> M:
        """Make a member of which nothing is known."""

    def _count_subscription(self, member: M, size_bytes: int) -> None:
        """Count the memory of a member's subscription."""
        self.memory.change(size_bytes - member.counted_bytes)
        member.counted_bytes = size_bytes

    def _count_removed(self, member: M) -> None:
        """Count no memory any more for a member that is gone."""
        own_bytes = MEMBER_BYTES + text_bytes(member.member_id) + member.counted_bytes
        self.memory.change(-own_bytes - partitions_bytes(member.current.held))
