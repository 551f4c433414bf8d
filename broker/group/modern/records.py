"""The records of groups whose partitions the coordinator assigns: an update makes them, its writer appends them, and
replays make the groups of a shard of them.

The group itself changes when the records are in the log; until then an update overlays it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from purgatorio.broker.coordinator.coordinator_log import Committed, CoordinatorLog, NewRecord
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.modern.modern_group import ModernGroup, Subscription, SubscriptionCounts, TopicIndex
from purgatorio.broker.group.modern.partitions import NO_PARTITIONS, AssignedMember, Partitions, from_wire, to_wire
from purgatorio.broker.group.modern.sessions import MemberSessions
from purgatorio.broker.group.shard import GroupShard, ReplayRecord
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.consumer_offsets import Key, Value, encode_key, encode_value
from purgatorio.protocol.errors import EncodeError, ErrorCode
from purgatorio.protocol.group_records import TargetPartitions
from purgatorio.purgatory.clock import Clock


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
    """The assignment of a member, as its record has it."""

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
        """Change a member's assignment."""
        self.moved.append(member_id)
        self._change(self.types.current_key(group_id=self._group_id, member_id=member_id), current.record())

    def put_target(self, member_id: str, partitions: Partitions) -> None:
        """Change a member's target."""
        self._targets[member_id] = partitions
        value = self.types.target_value(topic_partitions=to_wire(partitions, TargetPartitions))
        self._change(self.types.target_key(group_id=self._group_id, member_id=member_id), value)

    def target_of(self, member_id: str) -> Partitions:
        """Return a member's target."""
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
        """Return the topics that members will subscribe to, each with the number of those members."""
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

    @property
    def topic_count(self) -> int:
        """How many topics members will subscribe to; one that several expressions match may count several times."""
        return len(self._counts().names)

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

    def assign_in_steps(self, wall_ms: int) -> Steps:
        """Make the target assignment in steps; the update is of no use any more if the group changes in between."""
        assigned = yield from self._assignment()
        for member_id, partitions in assigned.items():
            if partitions != self.target_of(member_id) or member_id not in self.group.target:
                self.put_target(member_id, partitions)
        self.put_target_epoch(self.epoch, wall_ms)
        yield 0

    def _assignment(self) -> Generator[int, None, dict[str, Partitions]]:
        """Return the target of each member, in steps."""
        raise NotImplementedError

    def _assigned_members(
        self, subscriptions: dict[str, S]
    ) -> Generator[int, None, tuple[list[AssignedMember], dict[bytes, int]]]:
        """Return the members as assignors see them, and the number of partitions of each topic."""
        # Most members of a group subscribe to the same topics: these are looked up once.
        seen: dict[Hashable, tuple[bytes, ...]] = {}
        partition_counts: dict[bytes, int] = {}
        members = []
        for member_id, subscription in subscriptions.items():
            wanted = self._wants(subscription)
            topics = seen.get(wanted)
            if topics is None:
                found = [
                    topic
                    for name in self._names_of(subscription)
                    if (topic := self._image.topics.get(name)) is not None
                ]
                partition_counts.update((topic.topic_id, len(topic.partitions)) for topic in found)
                topics = seen[wanted] = tuple(sorted(topic.topic_id for topic in found))
                yield 1 + len(topics)
            instance_id = getattr(subscription, "instance_id", None)
            members.append(AssignedMember(member_id, instance_id, topics, self.target_of(member_id)))
        return members, partition_counts

    def _wants(self, subscription: S) -> Hashable:
        """Return a key that is equal for members that subscribe to the same topics."""
        return tuple(subscription.subscribed_topic_names)

    def _names_of(self, subscription: S) -> Iterable[str]:
        """Return the topics that a member subscribes to, each once."""
        return dict.fromkeys(subscription.subscribed_topic_names)


class Replays(Generic[G]):
    """Applies the records of one kind of group to a shard.

    Args:
        kind: the class of these groups.
        types: their records.
    """

    def __init__(self, kind: type[G], types: RecordTypes) -> None:
        self._kind = kind
        self._types = types

    def by_key(self) -> dict[type, ReplayRecord]:
        """Return the functions that apply records, by type of key."""
        return {
            self._types.group_key: self._replay_group,
            self._types.member_key: self._replay_member,
            self._types.target_epoch_key: self._replay_target_epoch,
            self._types.target_key: self._replay_target,
            self._types.current_key: self._replay_current,
        }

    def find(self, shard: GroupShard, group_id: str) -> G | None:
        """Return the group if it is of this kind."""
        group = shard.groups.get(group_id)
        return group if isinstance(group, self._kind) else None

    def make(self, shard: GroupShard, group_id: str) -> G:
        """Return the group; made anew if there is none, or one of another kind that has been converted."""
        group = self.find(shard, group_id)
        if group is None:
            group = self._kind(group_id)
            shard.put(group)
        return group

    def _replay_group(self, shard: GroupShard, key: Any, value: Any) -> None:
        """Apply the group's epoch, or its end."""
        if value is None:
            if self.find(shard, key.group_id) is not None:
                shard.remove(key.group_id)
            return
        group = self.make(shard, key.group_id)
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash

    def _replay_member(self, shard: GroupShard, key: Any, value: Any) -> None:
        """Apply a member's subscription, or its end."""
        if value is not None:
            self.make(shard, key.group_id).put_member(key.member_id, value)
        elif (group := self.find(shard, key.group_id)) is not None:
            group.remove_member(key.member_id)

    def _replay_target_epoch(self, shard: GroupShard, key: Any, value: Any) -> None:
        """Apply the epoch of the target assignment."""
        if value is not None:
            self.make(shard, key.group_id).put_target_epoch(value.assignment_epoch)

    def _replay_target(self, shard: GroupShard, key: Any, value: Any) -> None:
        """Apply a member's target."""
        if value is not None:
            self.make(shard, key.group_id).put_target(key.member_id, from_wire(value.topic_partitions))
        elif (group := self.find(shard, key.group_id)) is not None:
            group.put_target(key.member_id, None)

    def _replay_current(self, shard: GroupShard, key: Any, value: Any) -> None:
        """Apply a member's assignment."""
        if value is not None:
            self.make(shard, key.group_id).put_current_record(key.member_id, value)
        elif (group := self.find(shard, key.group_id)) is not None:
            group.put_current_record(key.member_id, None)


U = TypeVar("U", bound=ModernUpdate[Any, Any])


class UpdateWriter(Generic[U]):
    """Writes updates of one kind of group.

    Args:
        clock: when target assignments are made.
        sessions: those of members that go are ended.
        index: the groups by subscribed topic.
        replays: by type of key, the function that applies a record; others are written only.
    """

    def __init__(
        self,
        log: CoordinatorLog,
        clock: Clock,
        sessions: MemberSessions[Any],
        index: TopicIndex[Any, str],
        replays: Mapping[type, ReplayRecord],
    ) -> None:
        self._log = log
        self._clock = clock
        self._sessions = sessions
        self.index = index
        self._replays = replays

    def write(
        self,
        shard: GroupShard,
        update: U,
        done: Committed,
        *,
        applied: Callable[[], None] | None = None,
        client: str = "",
    ) -> bool:
        """Append the records of an update, which has at least one, and apply them.

        Args:
            done: called when they are committed or have failed.
            applied: called when the group has changed.

        Returns:
            Whether the group has changed.

        Raises:
            CoordinatorError: INVALID_REQUEST if a record cannot be encoded.
        """
        group = update.group
        nth = group.appended + 1

        def replay() -> None:
            group.appended = nth
            removed = self._apply(shard, update)
            if applied is not None:
                applied()
            self._has_removed(shard, update, removed)

        try:
            records = [change.encode() for change in update.changes]
        except EncodeError as error:
            raise CoordinatorError(ErrorCode.INVALID_REQUEST, str(error)) from error
        return self._log.append(shard.tp, records, _noting(group, nth, done), applied=replay, client=client)

    def when_committed(self, shard: GroupShard, group: ModernGroup[Any], done: Committed, *, client: str = "") -> None:
        """Call `done` when all changes of a group so far are committed; at once if they are."""
        nth = group.appended
        if group.committed == nth:
            done(ErrorCode.NONE)
            return
        self._log.when_committed(shard.tp, _noting(group, nth, done), client=client)

    def _apply(self, shard: GroupShard, update: U) -> list[Any]:
        """Apply an update; return the members that it removes."""
        group = update.group
        before = group.target_epoch
        removed = [group.members[member_id] for member_id in update.removed]
        shard.put(group)  # a new group enters, or replaces one that was converted
        for key, value in update.changes:
            replay = self._replays.get(type(key))
            if replay is not None:
                replay(shard, key, value)
        for member in removed:
            self._sessions.stop(member)
        if update.changes_subscriptions:
            self.index.refresh(group)
        if update.target_epoch > before and group.members:
            group.assigned_ms = self._clock.now_ms()
        return removed

    def _has_removed(self, shard: GroupShard, update: U, removed: list[Any]) -> None:
        """Called when an update was applied, with the members that it removed."""


def _noting(group: ModernGroup[Any], nth: int, done: Committed) -> Committed:
    """Return `done`, which notes that the group's first `nth` appends are committed, if they are."""

    def settled(error_code: ErrorCode) -> None:
        if not error_code:
            group.committed = max(group.committed, nth)
        done(error_code)

    return settled
