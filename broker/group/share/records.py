"""The records of share groups: an update makes them, its writer appends them, replays make the groups of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import ClassVar, Final

from purgatorio.broker.coordinator.coordinator_log import Committed
from purgatorio.broker.group.modern.modern_group import TopicIndex
from purgatorio.broker.group.modern.partitions import Partitions
from purgatorio.broker.group.modern.records import ModernUpdate, RecordTypes, Replays, UpdateWriter
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard, ReplayRecord
from purgatorio.broker.group.share.assignor import assign_simple
from purgatorio.broker.group.share.delayed_initialization import DelayedInitialization
from purgatorio.broker.group.share.share_group import ShareGroup, ShareGroupMember, ShareMemberSessions
from purgatorio.broker.group.share.state_partitions import NO_STATE, StatePartitions
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

TYPES: Final = RecordTypes(
    group_key=ShareGroupMetadataKey,
    group_value=ShareGroupMetadataValue,
    member_key=ShareGroupMemberMetadataKey,
    target_epoch_key=ShareGroupTargetAssignmentMetadataKey,
    target_epoch_value=ShareGroupTargetAssignmentMetadataValue,
    target_key=ShareGroupTargetAssignmentMemberKey,
    target_value=ShareGroupTargetAssignmentMemberValue,
    current_key=ShareGroupCurrentMemberAssignmentKey,
)


class ShareUpdate(ModernUpdate[ShareGroup, ShareGroupMemberMetadataValue]):
    """The changes that one request makes to a share group.

    Attributes:
        states: the group's share partitions, as they will be.
        initialization: the attempt that begins when the records are committed; None if there is none.
        has_looked: whether all was looked at that could ask for an epoch, or for states.
    """

    types: ClassVar[RecordTypes] = TYPES

    def __init__(self, group: ShareGroup, image: ClusterImage) -> None:
        super().__init__(group, image)
        self.states = group.states
        self.initialization: DelayedInitialization | None = None
        self.has_looked = False

    def put_states(self, states: StatePartitions) -> None:
        """Change the share partitions, with how far their states are."""
        self.states = states
        self._change(ShareGroupStatePartitionMetadataKey(group_id=self._group_id), states.record())

    def topic_ids(self, subscription: ShareGroupMemberMetadataValue) -> frozenset[bytes]:
        """Return the ids of the topics of a subscription that exist."""
        named = map(self._image.topics.get, subscription.subscribed_topic_names)
        return frozenset(topic.topic_id for topic in named if topic is not None)

    def awaits(self, topic_ids: frozenset[bytes]) -> bool:
        """Return whether share coordinators are, or will be, asked for the states of partitions of these topics."""
        begins = self.initialization is not None and not topic_ids.isdisjoint(self.initialization.names)
        return begins or bool(self.group.asking(topic_ids))

    def missing(self, topic_id: bytes) -> frozenset[int]:
        """Return the partitions of a topic that have no state."""
        topic = self._image.topic_by_id(topic_id)
        return frozenset() if topic is None else self.states.missing(topic_id, len(topic.partitions))

    def existing_topics(self) -> Iterator[Topic]:
        """Iterate over the topics that members will subscribe to and that exist, by name."""
        for name in sorted(self.subscribed_topics()):
            topic = self._image.topics.get(name)
            if topic is not None:
                yield topic

    def has_unassigned(self) -> bool:
        """Return whether the target assignment lacks partitions that are initialized, or has others."""
        assigned: dict[bytes, set[int]] = {}
        for member_id in self.subscriptions:
            for topic_id, numbers in self.target_of(member_id).items():
                assigned.setdefault(topic_id, set()).update(numbers)
        return bool(self.subscriptions) and any(
            self._assignable(topic) != assigned.get(topic.topic_id, set()) for topic in self.existing_topics()
        )

    def _assignable(self, topic: Topic) -> frozenset[int]:
        found = self.states.initialized.get(topic.topic_id)
        return frozenset() if found is None else found.numbers

    # --- the target assignment ---

    def _assignment(self) -> Generator[int, None, dict[str, Partitions]]:
        members, counts = yield from self._assigned_members(self.subscriptions)
        initialized = self.states.initialized
        partitions = {topic_id: initialized[topic_id].numbers for topic_id in counts if topic_id in initialized}
        return (yield from assign_simple(members, partitions))


_REPLAYS: Final = Replays(ShareGroup, TYPES)


def replay_states(
    shard: GroupShard,
    key: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
) -> None:
    """Apply the share partitions of a group, with how far their states are."""
    if value is not None:
        _REPLAYS.make(shard, key.group_id).put_states(StatePartitions.of_record(value))
    elif (group := _REPLAYS.find(shard, key.group_id)) is not None:
        group.put_states(NO_STATE)


REPLAYS: Final[Mapping[type, ReplayRecord]] = {
    **_REPLAYS.by_key(),
    ShareGroupStatePartitionMetadataKey: replay_states,
}
"""By type of key, the function that applies a record."""


class ShareWriter(UpdateWriter[ShareUpdate]):
    """Writes updates of share groups, and begins the attempts to initialize states that are in them.

    Args:
        states: the groups by the topics of whose states they know.

    Attributes:
        park: called with an attempt whose records are in the log.
        ask: called when they are committed, or cannot be.
    """

    def __init__(
        self,
        services: GroupServices,
        sessions: ShareMemberSessions,
        subscriptions: TopicIndex[ShareGroup, str],
        states: TopicIndex[ShareGroup, bytes],
    ) -> None:
        super().__init__(services.log, services.clock, sessions, subscriptions, REPLAYS)
        self._states = states
        self.park: Callable[[ShareGroup, DelayedInitialization], None]
        self.ask: Callable[[GroupShard, ShareGroup, DelayedInitialization, ErrorCode], None]

    def write(
        self,
        shard: GroupShard,
        update: ShareUpdate,
        done: Committed,
        *,
        applied: Callable[[], None] | None = None,
        client: str = "",
    ) -> bool:
        """Append the records of an update; see `UpdateWriter.write`."""
        if update.initialization is not None:
            done = partial(self._committed, shard, update.group, update.initialization, done)
        return super().write(shard, update, done, applied=applied, client=client)

    def _committed(
        self,
        shard: GroupShard,
        group: ShareGroup,
        initialization: DelayedInitialization,
        done: Committed,
        error_code: ErrorCode,
    ) -> None:
        self.ask(shard, group, initialization, error_code)
        done(error_code)

    def _apply(self, shard: GroupShard, update: ShareUpdate) -> list[ShareGroupMember]:
        removed = super()._apply(shard, update)
        group = update.group
        if update.states is not NO_STATE:
            self._states.refresh(group)
        if update.has_looked:
            group.is_metadata_stale = group.is_states_stale = False
        if update.begins_epoch:
            group.must_begin_epoch = False
        if update.initialization is not None:
            self.park(group, update.initialization)
        return removed
