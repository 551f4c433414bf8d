"""A group whose partitions the coordinator assigns, as its records define it, and the groups of each topic."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, Protocol, TypeVar

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.delayed_heartbeat import DelayedHeartbeat
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.memory import MEMBER_BYTES, text_bytes
from purgatorio.broker.group.modern.partitions import NO_PARTITIONS, Partitions, partitions_bytes
from purgatorio.broker.metadata.delta import TopicDelta, changed_topics
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.protocol.errors import ErrorCode

NAME_BYTES: Final = 500
"""A subscribed topic, besides its name: in the subscription, the group's counts and the index of topics."""


class Subscription(Protocol):
    """The fields that the records of members have in each kind of group."""

    client_id: str
    client_host: str
    subscribed_topic_names: list[str]


class ModernGroupMember(Protocol):
    """A member of such a group.

    Attributes:
        subscription: its last record, a `Subscription`; a change replaces it.
        current: its assignment, with its epoch.
        counted_bytes: the bytes that its group has counted for its subscription.
        session: ends when the member is taken for dead; None while its broker loads it.
    """

    member_id: str
    subscription: Any
    current: Any
    counted_bytes: int
    session: DelayedHeartbeat | None


M = TypeVar("M", bound=ModernGroupMember)


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
        metadata_hash: of the subscribed topics when that epoch began, by which a change is noticed.
        target_epoch: the epoch that the target assignment was made for; lower than `epoch` if there is none yet.
        target: the partitions that each member shall have, by member id.
        members: by member id, in the order of joining.
        is_metadata_stale: whether a subscribed topic may have changed since `metadata_hash`; the next heartbeat checks.
        assigned_ms: when the target assignment was made, by the clock's monotonic time; None: before this was loaded.
        appended: counts the group's appends to the log.
        committed: `appended`, as of the last append that is known to be committed.
    """

    __slots__ = (
        "_behind",
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
        self._behind: int | None = None  # the members that do not have what they shall have; None: to be counted

    # --- for others ---

    @property
    @abstractmethod
    def counts(self) -> SubscriptionCounts:
        """The topics that members subscribe to, each with the number of those members."""

    @property
    def is_stable(self) -> bool:
        """Whether every member has what it shall have; until then members send heartbeats more often."""
        if self._behind is None:
            self._behind = sum(self._is_behind(member) for member in self.members.values())
        return not self._behind and self.epoch == self.target_epoch

    @property
    def is_stale(self) -> bool:
        """Whether the next heartbeat shall look whether an epoch is due."""
        return self.is_metadata_stale

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
            raise self.unknown(member_id)
        return member

    def unknown(self, name: str) -> CoordinatorError:
        """Return the refusal of a member that the group does not have."""
        return CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID, f"{name!r} is no member of group {self.group_id}")

    # --- for records ---

    def put_member(self, member_id: str, subscription: Any) -> None:
        """Apply a member's subscription; it may be a new member."""
        member = self._member(member_id)
        self.counts.remove(member.subscription)
        member.subscription = subscription
        self.counts.add(subscription)
        size_bytes = self.subscription_bytes(subscription)
        self.memory.change(size_bytes - member.counted_bytes)
        member.counted_bytes = size_bytes

    def remove_member(self, member_id: str) -> None:
        """Remove a member, with all that it holds; one that is unknown, too."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self.counts.remove(member.subscription)
        self._moves(member, NO_PARTITIONS)
        own_bytes = MEMBER_BYTES + text_bytes(member_id) + member.counted_bytes
        self.memory.change(-own_bytes - partitions_bytes(member.current.held))
        if self._behind is not None:
            self._behind -= self._is_behind(member)

    @abstractmethod
    def put_current_record(self, member_id: str, value: Any) -> None:
        """Apply a member's assignment; None: nothing is known of it."""

    def put_current(self, member_id: str, current: Any) -> None:
        """Apply a member's assignment."""
        member = self._member(member_id)
        was_behind = self._is_behind(member)
        self._moves(member, current.held)
        self.memory.change(partitions_bytes(current.held) - partitions_bytes(member.current.held))
        member.current = current
        if self._behind is not None:
            self._behind += self._is_behind(member) - was_behind

    def put_target(self, member_id: str, partitions: Partitions | None) -> None:
        """Apply a member's target; None: nothing is known of it."""
        before = self.target.pop(member_id, None)
        if before is not None:
            self.memory.change(-text_bytes(member_id) - partitions_bytes(before))
        if partitions is not None:
            self.target[member_id] = partitions
            self.memory.change(text_bytes(member_id) + partitions_bytes(partitions))

    def put_target_epoch(self, epoch: int) -> None:
        """Apply the epoch of the target assignment."""
        self.target_epoch = epoch
        self._behind = None

    def _member(self, member_id: str) -> M:
        """Return a member; a new one if it is unknown."""
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = self._new_member(member_id)
            self.memory.change(MEMBER_BYTES + text_bytes(member_id))
            if self._behind is not None:
                self._behind += self._is_behind(member)
        return member

    # --- by kind ---

    @abstractmethod
    def _new_member(self, member_id: str) -> M:
        """Make a member of which nothing is known."""

    @abstractmethod
    def subscription_bytes(self, subscription: Any) -> int:
        """Return the bytes that a member's subscription takes."""

    @abstractmethod
    def _is_behind(self, member: M) -> bool:
        """Whether a member does not have what the target assignment gives it."""

    def _moves(self, member: M, held: Partitions) -> None:
        """Note that a member has other partitions from now on."""


G = TypeVar("G", bound=ModernGroup[Any])
K = TypeVar("K", str, bytes)


class TopicIndex(Generic[G, K]):
    """The groups of one kind and one broker by the topics that they have to do with; the topics need not exist.

    Args:
        topics_of: returns the topics of a group, by name or by id.
    """

    def __init__(self, topics_of: Callable[[G], frozenset[K]]) -> None:
        self._topics_of: Callable[[G], frozenset[K]] = topics_of
        self._groups: dict[K, dict[G, None]] = {}
        self._topics: dict[G, frozenset[K]] = {}

    def refresh(self, group: G) -> None:
        """Note the topics of a group that has to do with others, perhaps."""
        topics = self._topics_of(group)
        self._move(group, self._topics.get(group, frozenset()), topics)
        self._topics[group] = topics

    def forget(self, group: G) -> None:
        """Forget a group that this broker no longer coordinates, or that has ended."""
        self._move(group, self._topics.pop(group, frozenset()), frozenset())

    def groups_of(self, topic: K) -> Iterable[G]:
        """Return the groups of a topic."""
        return self._groups.get(topic, ())

    def _move(self, group: G, before: frozenset[K], after: frozenset[K]) -> None:
        for topic in sorted(before - after):
            groups = self._groups[topic]
            del groups[group]
            if not groups:
                del self._groups[topic]
        for topic in sorted(after - before):
            self._groups.setdefault(topic, {})[group] = None


class SubscriptionIndex(TopicIndex[G, str]):
    """The groups of one kind and one broker by the names of the topics that they subscribe to.

    Args:
        topics_of: returns the topics of a group.
    """

    def __init__(self, topics_of: Callable[[G], frozenset[str]]) -> None:
        super().__init__(topics_of)
        self._seen: ClusterImage | None = None

    def image_changed(self, image: ClusterImage) -> list[TopicDelta]:
        """Have groups look at their topics that were created, deleted, or have more partitions; return these."""
        before, self._seen = self._seen, image
        if before is None:
            return []
        changed = [each for each in changed_topics(before, image) if _shape(each.before) != _shape(each.after)]
        for delta in changed:
            for group in self.groups_of(delta.name):
                group.is_metadata_stale = True
        return changed


def _shape(topic: Topic | None) -> tuple[bytes, int] | None:
    """Return the properties of a topic that an assignment depends on."""
    return None if topic is None else (topic.topic_id, len(topic.partitions))
