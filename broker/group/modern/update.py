"""What a request changes in a group whose partitions the coordinator assigns: the records, and the group with them.

The group itself changes when the records are in the log; until then an update overlays it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Hashable, Iterable, Iterator
from hashlib import blake2b
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

from purgatorio.broker.coordinator.coordinator_log import NewRecord
from purgatorio.broker.group.modern.assignment import AssignedMember
from purgatorio.broker.group.modern.modern_group import ModernGroup, Subscription, SubscriptionCounts
from purgatorio.broker.group.modern.partitions import NO_PARTITIONS, Partitions, to_wire
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.consumer_offsets import Key, Value, encode_key, encode_value
from purgatorio.protocol.group_records import TargetPartitions

LOOKED_UP_PER_STEP: Final = 3
"""How many different subscriptions are looked up in one step: each may have thousands of topics."""


class Change(NamedTuple):
    """One record: its key, and its value or None for a tombstone."""

    key: Key
    value: Value | None

    def encode(self) -> NewRecord:
        """Return the record as it is written."""
        return NewRecord(encode_key(self.key), None if self.value is None else encode_value(self.value))


class RecordTypes(NamedTuple):
    """The records of one kind of group, which have the same fields in both."""

    group_key: type[Any]
    group_value: type[Any]
    member_key: type[Any]
    target_epoch_key: type[Any]
    target_epoch_value: type[Any]
    target_key: type[Any]
    target_value: type[Any]
    current_key: type[Any]


class Recordable(Protocol):
    """What a member has been assigned, as its record has it."""

    def record(self) -> Any:
        """Return the value of its record."""
        ...


G = TypeVar("G", bound=ModernGroup[Any])
S = TypeVar("S", bound=Subscription)


class ModernUpdate(Generic[G, S]):
    """The changes that one request makes to a group.

    Args:
        group: the group; not changed.

    Attributes:
        types: the records of this kind of group.
        changes: the records, in the order in which they are written.
        moved: the ids of the members that have other partitions than before, or are in another epoch.
        begins_epoch: whether there is a new epoch of the group.
        epoch, target_epoch: those of the group, as they will be.
    """

    types: ClassVar[RecordTypes]

    def __init__(self, group: G, image: ClusterImage) -> None:
        self.group = group
        self.changes: list[Change] = []
        self.moved: list[str] = []
        self.begins_epoch = False
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self._group_id = group.group_id
        self._image = image
        self._put: dict[str, S] = {}
        self._removed: dict[str, None] = {}
        self._targets: dict[str, Partitions] = {}

    # --- members ---

    def put_member(self, member_id: str, subscription: S) -> None:
        """Add a member, or change its subscription."""
        self._put[member_id] = subscription
        self._change(self.types.member_key(group_id=self._group_id, member_id=member_id), subscription)

    def remove_member(self, member_id: str) -> None:
        """Remove a member, with its assignments."""
        self._removed[member_id] = None
        for key in (self.types.current_key, self.types.target_key, self.types.member_key):
            self._change(key(group_id=self._group_id, member_id=member_id), None)

    def put_current(self, member_id: str, current: Recordable) -> None:
        """Change what a member has been assigned."""
        self.moved.append(member_id)
        self._change(self.types.current_key(group_id=self._group_id, member_id=member_id), current.record())

    def put_target(self, member_id: str, partitions: Partitions) -> None:
        """Change what a member shall have."""
        self._targets[member_id] = partitions
        value = self.types.target_value(topic_partitions=to_wire(partitions, TargetPartitions))
        self._change(self.types.target_key(group_id=self._group_id, member_id=member_id), value)

    def target_of(self, member_id: str) -> Partitions:
        """Return what a member shall have."""
        found = self._targets.get(member_id)
        return self.group.target.get(member_id, NO_PARTITIONS) if found is None else found

    @property
    def removed(self) -> Iterable[str]:
        """The ids of the members that leave the group."""
        return self._removed

    @property
    def changes_subscriptions(self) -> bool:
        """Whether the group subscribes to other topics than before, perhaps."""
        return bool(self._put or self._removed)

    @property
    def subscriptions(self) -> dict[str, S]:
        """The subscriptions of all members, by ascending member id."""
        merged: dict[str, Any] = {member_id: member.subscription for member_id, member in self.group.members.items()}
        merged.update(self._put)
        for member_id in self._removed:
            merged.pop(member_id, None)
        return dict(sorted(merged.items()))

    def _change(self, key: Any, value: Any) -> None:
        self.changes.append(Change(key, value))

    # --- topics ---

    def _counts(self) -> SubscriptionCounts:
        """Return how many members will subscribe to what."""
        changed = dict.fromkeys((*self._put, *self._removed))
        if not changed:
            return self.group.counts
        counts = self.group.counts.copy()
        for member_id in changed:
            member = self.group.members.get(member_id)
            if member is not None:
                counts.remove(member.subscription)
        for subscription in self._put.values():
            counts.add(subscription)
        return counts

    def metadata_hash(self) -> int:
        """Return a hash of the subscribed topics that exist: their names, ids and numbers of partitions."""
        digest = blake2b(digest_size=8)
        for name in sorted(self.subscribed_topics()):
            topic = self._image.topics.get(name)
            if topic is not None:
                digest.update(f"{name} {topic.topic_id.hex()} {len(topic.partitions)}\n".encode())
        return int.from_bytes(digest.digest(), "big", signed=True)

    def subscribed_topics(self) -> Iterable[str]:
        """Return the names of the topics that members will subscribe to; they need not exist."""
        return self._counts().names

    # --- epochs ---

    def bump_epoch(self, metadata_hash: int) -> None:
        """Begin a new epoch of the group."""
        self.begins_epoch = True
        self.put_epoch(self.epoch + 1, metadata_hash)

    def put_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Change the epoch of the group."""
        self.epoch = epoch
        value = self.types.group_value(epoch=epoch, metadata_hash=metadata_hash)
        self._change(self.types.group_key(group_id=self._group_id), value)

    def put_target_epoch(self, epoch: int, wall_ms: int) -> None:
        """Change the epoch of the target assignment."""
        self.target_epoch = epoch
        value = self.types.target_epoch_value(assignment_epoch=epoch, assignment_timestamp_ms=wall_ms)
        self._change(self.types.target_epoch_key(group_id=self._group_id), value)

    def assign_to_nobody(self, wall_ms: int) -> None:
        """If no members are left, let the target assignment be that of the group's epoch, as in Kafka 4.4."""
        if self.epoch > self.target_epoch and not self._put and len(self._removed) == len(self.group.members):
            self.put_target_epoch(self.epoch, wall_ms)

    # --- the target assignment ---

    def assign(self, wall_ms: int) -> None:
        """Make the target assignment of the group's epoch."""
        deque(self.assign_in_steps(wall_ms), maxlen=0)

    def assign_in_steps(self, wall_ms: int) -> Iterator[None]:
        """Make the target assignment in steps; the update is of no use any more if the group changes in between."""
        assigned = yield from self._assignment()
        for member_id, partitions in assigned.items():
            if partitions != self.target_of(member_id) or member_id not in self.group.target:
                self.put_target(member_id, partitions)
        self.put_target_epoch(self.epoch, wall_ms)
        yield

    def _assignment(self) -> Generator[None, None, dict[str, Partitions]]:
        """Return what each member shall have, in steps."""
        raise NotImplementedError

    def _assigned_members(
        self, subscriptions: dict[str, S]
    ) -> Generator[None, None, tuple[list[AssignedMember], dict[bytes, int]]]:
        """Return the members as assignors see them, and the number of partitions of each topic."""
        # Most members of a group subscribe to the same topics: these are looked up once.
        seen: dict[Hashable, tuple[bytes, ...]] = {}
        partition_counts: dict[bytes, int] = {}
        members = []
        for member_id, subscription in subscriptions.items():
            wanted = self._wants(subscription)
            topics = seen.get(wanted)
            if topics is None:
                if len(seen) % LOOKED_UP_PER_STEP == LOOKED_UP_PER_STEP - 1:
                    yield
                found = [
                    topic
                    for name in self._names_of(subscription)
                    if (topic := self._image.topics.get(name)) is not None
                ]
                partition_counts.update((topic.topic_id, len(topic.partitions)) for topic in found)
                topics = seen[wanted] = tuple(sorted(topic.topic_id for topic in found))
            instance_id = getattr(subscription, "instance_id", None)
            members.append(AssignedMember(member_id, instance_id, topics, self.target_of(member_id)))
        return members, partition_counts

    def _wants(self, subscription: S) -> Hashable:
        """Return what is equal for members that subscribe to the same topics."""
        return tuple(subscription.subscribed_topic_names)

    def _names_of(self, subscription: S) -> Iterable[str]:
        """Return the topics that a member subscribes to, each once."""
        return dict.fromkeys(subscription.subscribed_topic_names)
