"""What a request changes in a consumer group: the records, and the group as it will be with them.

The group itself changes when the records are in the log; until then an update overlays it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from purgatorio.broker.coordinator.coordinator_log import NewRecord
from purgatorio.broker.group.consumer.assignors import ASSIGNORS, AssignedMember
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup, ResolvedExpression, SubscriptionCounts
from purgatorio.broker.group.consumer.member import CurrentAssignment
from purgatorio.broker.group.consumer.partitions import NO_PARTITIONS, Partitions, to_wire
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.consumer_offsets import Key, Value, encode_key, encode_value
from purgatorio.protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TargetPartitions,
)

LOOKED_UP_PER_STEP = 3
"""How many different subscriptions are looked up in one step: each may have thousands of topics."""
DEFAULT_ASSIGNOR = next(iter(ASSIGNORS))


class Change(NamedTuple):
    """One record: its key, and its value or None for a tombstone."""

    key: Key
    value: Value | None

    def encode(self) -> NewRecord:
        """Return the record as it is written."""
        return NewRecord(encode_key(self.key), None if self.value is None else encode_value(self.value))


class GroupUpdate:
    """The changes that one request makes to a group.

    Args:
        group: the group; not changed.

    Attributes:
        changes: the records, in the order in which they are written.
        moved: the ids of the members that own other partitions than before, or are in another epoch.
        resolved: the stale regular expressions that were looked at.
        begins_epoch: whether there is a new epoch of the group.
        epoch, target_epoch: those of the group, as they will be.
    """

    def __init__(self, group: ConsumerGroup, image: ClusterImage) -> None:
        self.group = group
        self.changes: list[Change] = []
        self.moved: list[str] = []
        self.resolved: list[str] = []
        self.begins_epoch = False
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self._group_id = group.group_id
        self._image = image
        self._put: dict[str, ConsumerGroupMemberMetadataValue] = {}
        self._removed: dict[str, None] = {}
        self._targets: dict[str, Partitions] = {}
        self._expressions: dict[str, ResolvedExpression] = {}

    # --- members ---

    def put_member(self, member_id: str, subscription: ConsumerGroupMemberMetadataValue) -> None:
        """Add a member, or change its subscription."""
        key = ConsumerGroupMemberMetadataKey(group_id=self._group_id, member_id=member_id)
        self._put[member_id] = subscription
        self.changes.append(Change(key, subscription))

    def remove_member(self, member_id: str) -> None:
        """Remove a member, with its assignments."""
        ids = {"group_id": self._group_id, "member_id": member_id}
        self._removed[member_id] = None
        self.changes += (
            Change(ConsumerGroupCurrentMemberAssignmentKey(**ids), None),
            Change(ConsumerGroupTargetAssignmentMemberKey(**ids), None),
            Change(ConsumerGroupMemberMetadataKey(**ids), None),
        )

    def put_current(self, member_id: str, current: CurrentAssignment) -> None:
        """Change what a member owns."""
        key = ConsumerGroupCurrentMemberAssignmentKey(group_id=self._group_id, member_id=member_id)
        self.moved.append(member_id)
        self.changes.append(Change(key, current.record()))

    def put_target(self, member_id: str, partitions: Partitions) -> None:
        """Change what a member shall own."""
        self._targets[member_id] = partitions
        value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=to_wire(partitions, TargetPartitions))
        key = ConsumerGroupTargetAssignmentMemberKey(group_id=self._group_id, member_id=member_id)
        self.changes.append(Change(key, value))

    def target_of(self, member_id: str) -> Partitions:
        """Return what a member shall own."""
        found = self._targets.get(member_id)
        return self.group.target.get(member_id, NO_PARTITIONS) if found is None else found

    @property
    def removed(self) -> Iterable[str]:
        """The ids of the members that leave the group."""
        return self._removed

    @property
    def changes_subscriptions(self) -> bool:
        """Whether the group subscribes to other topics than before, perhaps."""
        return bool(self._put or self._removed or self._expressions)

    @property
    def subscriptions(self) -> dict[str, ConsumerGroupMemberMetadataValue]:
        """The subscriptions of all members, by ascending member id."""
        merged = {member_id: member.subscription for member_id, member in self.group.members.items()}
        merged.update(self._put)
        for member_id in self._removed:
            merged.pop(member_id, None)
        return dict(sorted(merged.items()))

    # --- topics ---

    def put_expression(self, expression: str, resolved: ResolvedExpression) -> None:
        """Tell the topics that a regular expression matches."""
        self._expressions[expression] = resolved
        value = ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp_ms=resolved.resolved_ms
        )
        key = ConsumerGroupRegularExpressionKey(group_id=self._group_id, regular_expression=expression)
        self.changes.append(Change(key, value))

    def drop_unused_expressions(self) -> None:
        """Forget the regular expressions that no member will subscribe by any more."""
        used = self._counts().expressions
        for expression in self.group.expressions:
            if expression not in used:
                key = ConsumerGroupRegularExpressionKey(group_id=self._group_id, regular_expression=expression)
                self.changes.append(Change(key, None))

    def matches(self, expression: str | None) -> frozenset[str]:
        """Return the topics that a member's regular expression matches; nothing if it has none."""
        if not expression:
            return frozenset()
        resolved = self._expressions.get(expression) or self.group.expressions.get(expression)
        return frozenset() if resolved is None else resolved.topics

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
        counts = self._counts()
        names: dict[str, object] = dict.fromkeys(counts.names)
        for expression in counts.expressions:
            names.update(dict.fromkeys(self.matches(expression)))
        digest = blake2b(digest_size=8)
        for name in sorted(names):
            topic = self._image.topics.get(name)
            if topic is not None:
                digest.update(f"{name} {topic.topic_id.hex()} {len(topic.partitions)}\n".encode())
        return int.from_bytes(digest.digest(), "big", signed=True)

    # --- epochs ---

    def bump_epoch(self, metadata_hash: int) -> None:
        """Begin a new epoch of the group."""
        self.begins_epoch = True
        self.put_epoch(self.epoch + 1, metadata_hash)

    def put_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Change the epoch of the group."""
        self.epoch = epoch
        value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
        self.changes.append(Change(ConsumerGroupMetadataKey(group_id=self._group_id), value))

    def assign(self, wall_ms: int) -> None:
        """Make the target assignment of the group's epoch."""
        deque(self.assign_in_steps(wall_ms), maxlen=0)

    def assign_in_steps(self, wall_ms: int) -> Iterator[None]:
        """Make the target assignment in steps; the update is of no use any more if the group changes in between."""
        subscriptions = self.subscriptions
        members, partition_counts = yield from self._assigned_members(subscriptions)
        assignor = ASSIGNORS[choose_assignor(subscriptions.values())]
        assigned = yield from assignor(members, partition_counts)
        for member_id, partitions in assigned.items():
            if partitions != self.target_of(member_id) or member_id not in self.group.target:
                self.put_target(member_id, partitions)
        self.put_target_epoch(self.epoch, wall_ms)
        yield

    def put_target_epoch(self, epoch: int, wall_ms: int) -> None:
        """Change the epoch of the target assignment."""
        self.target_epoch = epoch
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp_ms=wall_ms)
        self.changes.append(Change(ConsumerGroupTargetAssignmentMetadataKey(group_id=self._group_id), value))

    def _assigned_members(
        self, subscriptions: dict[str, ConsumerGroupMemberMetadataValue]
    ) -> Generator[None, None, tuple[list[AssignedMember], dict[bytes, int]]]:
        """Return the members as assignors see them, and the number of partitions of each topic."""
        # Most members of a group subscribe to the same topics: these are looked up once.
        seen: dict[tuple[tuple[str, ...], str | None], tuple[bytes, ...]] = {}
        partition_counts: dict[bytes, int] = {}
        members = []
        for member_id, subscription in subscriptions.items():
            wanted = tuple(subscription.subscribed_topic_names), subscription.subscribed_topic_regex
            topics = seen.get(wanted)
            if topics is None:
                if len(seen) % LOOKED_UP_PER_STEP == LOOKED_UP_PER_STEP - 1:
                    yield
                found = [
                    topic
                    for name in dict.fromkeys((*wanted[0], *self.matches(wanted[1])))
                    if (topic := self._image.topics.get(name)) is not None
                ]
                partition_counts.update((topic.topic_id, len(topic.partitions)) for topic in found)
                topics = seen[wanted] = tuple(sorted(topic.topic_id for topic in found))
            target = self.target_of(member_id)
            members.append(AssignedMember(member_id, subscription.instance_id, topics, target))
        return members, partition_counts


def choose_assignor(subscriptions: Iterable[ConsumerGroupMemberMetadataValue]) -> str:
    """Return the name of the assignor that most members prefer; the default if none prefers one."""
    votes = Counter(each.server_assignor for each in subscriptions if each.server_assignor in ASSIGNORS)
    return max(ASSIGNORS, key=lambda name: votes[name])
