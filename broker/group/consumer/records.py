"""The records of consumer groups: how they are written, and how they make the groups of a shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from purgatorio.broker.coordinator.coordinator_log import CoordinatorLog
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup, ResolvedExpression
from purgatorio.broker.group.consumer.expressions import ExpressionIndex
from purgatorio.broker.group.consumer.member import Member
from purgatorio.broker.group.consumer.sessions import MemberTimers
from purgatorio.broker.group.consumer.update import TYPES, GroupUpdate
from purgatorio.broker.group.modern.records import Replays, UpdateWriter
from purgatorio.broker.group.shard import GroupShard, ReplayRecord
from purgatorio.protocol.group_records import ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue
from purgatorio.purgatory.clock import Clock

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
"""By type of key, what applies a record."""


class GroupWriter(UpdateWriter[GroupUpdate]):
    """Writes updates of consumer groups; the tombstone of a classic group that becomes one of them is written only.

    Attributes:
        only_classic_left: called when the last member of the consumer protocol has left others, of the classic one.

    Args:
        clock: when target assignments are made.
        timers: stopped and started as members change.
    """

    def __init__(self, log: CoordinatorLog, clock: Clock, timers: MemberTimers, index: ExpressionIndex) -> None:
        super().__init__(log, clock, timers, index, REPLAYS)
        self._timers = timers
        self.only_classic_left: Callable[[GroupShard, ConsumerGroup], None] = _stay

    def _apply(self, shard: GroupShard, update: GroupUpdate) -> list[Member]:
        removed = super()._apply(shard, update)
        group = update.group
        for member_id in update.moved:
            self._timers.watch_revocation(shard, group, group.members[member_id])
        if update.begins_epoch:
            group.looked_at(update.resolved)
        return removed

    def _has_removed(self, shard: GroupShard, update: GroupUpdate, removed: list[Member]) -> None:
        group = update.group
        is_over = not all(member.is_classic for member in removed)
        if is_over and group.members and all(member.is_classic for member in group.members.values()):
            self.only_classic_left(shard, group)


def _stay(shard: GroupShard, group: ConsumerGroup) -> None:
    """Leave the group as it is."""
