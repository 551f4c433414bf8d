"""What a request changes in a share group: the records, and the group as it will be with them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import ClassVar, Final

from purgatorio.broker.group.modern.partitions import Partitions
from purgatorio.broker.group.modern.update import ModernUpdate, RecordTypes
from purgatorio.broker.group.share.assignor import assign_simple
from purgatorio.broker.group.share.delayed_initialization import DelayedInitialization
from purgatorio.broker.group.share.share_group import ShareGroup
from purgatorio.broker.group.share.state_partitions import StatePartitions
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.protocol.group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
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
        """Change what has become of the states of share partitions."""
        self.states = states
        self._change(ShareGroupStatePartitionMetadataKey(group_id=self._group_id), states.record())

    @property
    def topic_count(self) -> int:
        """How many topics members will subscribe to."""
        return len(self._counts().names)

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

    def _assignment(self) -> Generator[None, None, dict[str, Partitions]]:
        members, counts = yield from self._assigned_members(self.subscriptions)
        initialized = self.states.initialized
        partitions = {topic_id: initialized[topic_id].numbers for topic_id in counts if topic_id in initialized}
        return (yield from assign_simple(members, partitions))
