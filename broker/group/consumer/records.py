"""The records of consumer groups: an update makes them, its writer appends them, replays make groups of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from typing import ClassVar, Final

from purgatorio.broker.coordinator.coordinator_log import CoordinatorLog
from purgatorio.broker.group.consumer.assignors import ASSIGNORS
from purgatorio.broker.group.consumer.consumer_group import (
    ConsumerGroup,
    ConsumerSessions,
    ConsumerSubscriptionCounts,
    ResolvedExpression,
)
from purgatorio.broker.group.consumer.expressions import ExpressionIndex
from purgatorio.broker.group.consumer.member import ConsumerGroupMember
from purgatorio.broker.group.modern.partitions import Partitions
from purgatorio.broker.group.modern.records import ModernUpdate, RecordTypes, Replays, UpdateWriter
from purgatorio.broker.group.shard import GroupShard, ReplayRecord
from purgatorio.broker.metadata.image import ClusterImage
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
)
from purgatorio.purgatory.clock import Clock

TYPES: Final = RecordTypes(
    group_key=ConsumerGroupMetadataKey,
    group_value=ConsumerGroupMetadataValue,
    member_key=ConsumerGroupMemberMetadataKey,
    target_epoch_key=ConsumerGroupTargetAssignmentMetadataKey,
    target_epoch_value=ConsumerGroupTargetAssignmentMetadataValue,
    target_key=ConsumerGroupTargetAssignmentMemberKey,
    target_value=ConsumerGroupTargetAssignmentMemberValue,
    current_key=ConsumerGroupCurrentMemberAssignmentKey,
)


class ConsumerUpdate(ModernUpdate[ConsumerGroup, ConsumerGroupMemberMetadataValue]):
    """The changes that one request makes to a consumer group.

    Attributes:
        resolved: the stale regular expressions that were looked at.
    """

    types: ClassVar[RecordTypes] = TYPES

    def __init__(self, group: ConsumerGroup, image: ClusterImage) -> None:
        super().__init__(group, image)
        self.resolved: list[str] = []
        self._expressions: dict[str, ResolvedExpression] = {}

    @property
    def changes_subscriptions(self) -> bool:
        """Whether the group subscribes to other topics than before, perhaps."""
        return super().changes_subscriptions or bool(self._expressions)

    # --- topics ---

    @property
    def topic_count(self) -> int:
        """How many topics members will subscribe to; one that several expressions match may count several times."""
        counts = self._consumer_counts()
        return len(counts.names) + sum(len(self.matches(each)) for each in counts.expressions)

    def put_expression(self, expression: str, resolved: ResolvedExpression) -> None:
        """Note the topics that a regular expression matches."""
        self._expressions[expression] = resolved
        value = ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp_ms=resolved.resolved_ms
        )
        self._change(ConsumerGroupRegularExpressionKey(group_id=self._group_id, regular_expression=expression), value)

    def drop_unused_expressions(self) -> None:
        """Forget the regular expressions that no member will subscribe by any more."""
        used = self._consumer_counts().expressions
        for expression in self.group.expressions:
            if expression not in used:
                key = ConsumerGroupRegularExpressionKey(group_id=self._group_id, regular_expression=expression)
                self._change(key, None)

    def matches(self, expression: str | None) -> frozenset[str]:
        """Return the topics that a member's regular expression matches; nothing if it has none."""
        if not expression:
            return frozenset()
        resolved = self._expressions.get(expression) or self.group.expressions.get(expression)
        return frozenset() if resolved is None else resolved.topics

    def subscribed_topics(self) -> Iterable[str]:
        """Return the names of the topics that members will subscribe to; they need not exist."""
        counts = self._consumer_counts()
        names: dict[str, object] = dict.fromkeys(counts.names)
        for expression in counts.expressions:
            names.update(dict.fromkeys(self.matches(expression)))
        return names

    def _consumer_counts(self) -> ConsumerSubscriptionCounts:
        counts = self._counts()
        assert isinstance(counts, ConsumerSubscriptionCounts)
        return counts

    # --- the target assignment ---

    def _assignment(self) -> Generator[int, None, dict[str, Partitions]]:
        subscriptions = self.subscriptions
        members, partition_counts = yield from self._assigned_members(subscriptions)
        assignor = ASSIGNORS[choose_assignor(subscriptions.values())]
        return (yield from assignor(members, partition_counts))

    def _wants(self, subscription: ConsumerGroupMemberMetadataValue) -> Hashable:
        return tuple(subscription.subscribed_topic_names), subscription.subscribed_topic_regex

    def _names_of(self, subscription: ConsumerGroupMemberMetadataValue) -> Iterable[str]:
        names = subscription.subscribed_topic_names
        return dict.fromkeys((*names, *self.matches(subscription.subscribed_topic_regex)))


def choose_assignor(subscriptions: Iterable[ConsumerGroupMemberMetadataValue]) -> str:
    """Return the name of the assignor that most members prefer; the default if none prefers one."""
    votes = Counter(each.server_assignor for each in subscriptions if each.server_assignor in ASSIGNORS)
    return max(ASSIGNORS, key=lambda name: votes[name])


_REPLAYS: Final = Replays(ConsumerGroup, TYPES)


def replay_expression(
    shard: GroupShard, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    """Apply the topics that a regular expression matches."""
    if value is not None:
        resolved = ResolvedExpression(frozenset(value.topics), value.version, value.timestamp_ms)
        _REPLAYS.make(shard, key.group_id).put_expression(key.regular_expression, resolved)
    elif (group := _REPLAYS.find(shard, key.group_id)) is not None:
        group.put_expression(key.regular_expression, None)


REPLAYS: Final[Mapping[type, ReplayRecord]] = {
    **_REPLAYS.by_key(),
    ConsumerGroupRegularExpressionKey: replay_expression,
}
"""By type of key, the function that applies a record."""


class ConsumerWriter(UpdateWriter[ConsumerUpdate]):
    """Writes updates of consumer groups; the tombstone of a classic group that becomes one of them is written only.

    Attributes:
        only_classic_left: called when the last member of the consumer protocol has left others, of the classic one.

    Args:
        clock: when target assignments are made.
        sessions: stopped and started as members change.
    """

    def __init__(self, log: CoordinatorLog, clock: Clock, sessions: ConsumerSessions, index: ExpressionIndex) -> None:
        super().__init__(log, clock, sessions, index, REPLAYS)
        self._revocations = sessions
        self.only_classic_left: Callable[[GroupShard, ConsumerGroup], None] = _stay

    def _apply(self, shard: GroupShard, update: ConsumerUpdate) -> list[ConsumerGroupMember]:
        removed = super()._apply(shard, update)
        group = update.group
        for member_id in update.moved:
            self._revocations.watch_revocation(shard, group, group.members[member_id])
        if update.begins_epoch:
            group.looked_at(update.resolved)
        return removed

    def _has_removed(self, shard: GroupShard, update: ConsumerUpdate, removed: list[ConsumerGroupMember]) -> None:
        group = update.group
        is_over = not all(member.is_classic for member in removed)
        if is_over and group.members and all(member.is_classic for member in group.members.values()):
            self.only_classic_left(shard, group)


def _stay(shard: GroupShard, group: ConsumerGroup) -> None:
    """Leave the group as it is."""
