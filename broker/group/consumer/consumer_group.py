"""A group of the consumer protocol, as its records define it, and the timers of its members."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar, NamedTuple

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.config import CONSUMER_HEARTBEAT_INTERVAL, CONSUMER_SESSION_TIMEOUT
from purgatorio.broker.group.consumer.member import (
    LEFT_FOR_A_WHILE,
    NOTHING_YET,
    ConsumerGroupMember,
    CurrentAssignment,
    MemberState,
    Owners,
    subscription_bytes,
)
from purgatorio.broker.group.group import GroupType
from purgatorio.broker.group.memory import ENTRY_BYTES, text_bytes
from purgatorio.broker.group.modern.modern_group import ModernGroup, SubscriptionCounts, count
from purgatorio.broker.group.modern.partitions import Partitions
from purgatorio.broker.group.modern.sessions import MemberSessions
from purgatorio.broker.group.shard import GroupShard
from purgatorio.protocol.consumer_offsets import Key
from purgatorio.protocol.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)

COMMIT_VERSION_WITH_EPOCHS = 9
"""The first version of OffsetCommit that knows the errors of this protocol."""


class ConsumerSubscriptionCounts(SubscriptionCounts):
    """The topics that members name, and the regular expressions, each with the number of those members.

    Attributes:
        expressions: by regular expression.
    """

    __slots__ = ("expressions",)

    def __init__(self) -> None:
        super().__init__()
        self.expressions: dict[str, int] = {}

    def copy(self) -> ConsumerSubscriptionCounts:
        """Return counts that can be changed without changing these."""
        copied = ConsumerSubscriptionCounts()
        copied.names, copied.expressions = dict(self.names), dict(self.expressions)
        return copied

    def _change(self, subscription: ConsumerGroupMemberMetadataValue, change: int) -> None:
        super()._change(subscription, change)
        if subscription.subscribed_topic_regex:
            count(self.expressions, subscription.subscribed_topic_regex, change)


class ResolvedExpression(NamedTuple):
    """The topics that a regular expression matches.

    Attributes:
        version: the version of the image that has the topics.
        resolved_ms: the wall time.
    """

    topics: frozenset[str]
    version: int
    resolved_ms: int


class ConsumerGroup(ModernGroup[ConsumerGroupMember]):
    """A group of the consumer protocol. Only the methods that apply records change it.

    Attributes:
        static_members: the member id by instance id.
        counts: how many members subscribe to what.
        owners: which member holds each partition.
        expressions: the regular expressions that members subscribe by, with the topics that they match.
        matched_count: how many topics all of them match, each by itself.
        stale_expressions: those that may match other topics than `expressions` says; the next heartbeat checks.
    """

    __slots__ = (
        "counts",
        "expressions",
        "matched_count",
        "owners",
        "stale_expressions",
        "static_members",
    )

    type: ClassVar[GroupType] = "consumer"
    counts: ConsumerSubscriptionCounts

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_members: dict[str, str] = {}
        self.owners = Owners()
        self.expressions: dict[str, ResolvedExpression] = {}
        self.matched_count = 0
        self.counts = ConsumerSubscriptionCounts()
        self.stale_expressions: dict[str, None] = {}

    # --- for others ---

    @property
    def state_name(self) -> str:
        """Empty, Assigning, Reconciling or Stable."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        return "Stable" if self.is_stable else "Reconciling"

    @property
    def protocol_type(self) -> str:
        """Always ``consumer``."""
        return CONSUMER_PROTOCOL_TYPE

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset(self.counts.names).union(*(each.topics for each in self.expressions.values()))

    def record_keys(self) -> list[Key]:
        group_id = self.group_id
        return [
            *(
                ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=each)
                for each in self.expressions
            ),
            ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
            ConsumerGroupMetadataKey(group_id=group_id),
        ]

    def subscribes_to(self, topic: str) -> bool:
        """Return whether a member consumes the topic."""
        return topic in self.counts.names or any(topic in resolved.topics for resolved in self.expressions.values())

    def check_commit(self, member_id: str, instance_id: str | None, generation_or_epoch: int, version: int) -> None:
        """Check that this member may commit offsets now; heartbeats alone renew its session.

        Raises:
            CoordinatorError: UNKNOWN_MEMBER_ID; STALE_MEMBER_EPOCH for any other epoch than the member's;
                UNSUPPORTED_VERSION if the request's version is older than that error. ILLEGAL_GENERATION for members of
                the classic protocol.
        """
        if generation_or_epoch < 0 and not self.members:
            return
        member = self.known(member_id)
        if member.is_classic:
            check_generation(member, generation_or_epoch)
            return
        if version < COMMIT_VERSION_WITH_EPOCHS:
            message = f"members of consumer groups commit with version {COMMIT_VERSION_WITH_EPOCHS} or newer"
            raise CoordinatorError(ErrorCode.UNSUPPORTED_VERSION, message)
        _check_epoch(member, generation_or_epoch)

    def _check_member(self, member_id: str, instance_id: str | None, generation_or_epoch: int) -> None:
        member = self.known(member_id)
        if member.is_classic:
            check_generation(member, generation_or_epoch)
        else:
            _check_epoch(member, generation_or_epoch)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check that this member may read committed offsets.

        Raises:
            CoordinatorError: UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH.
        """
        if member_id is None and member_epoch < 0:
            return
        _check_epoch(self.known(member_id or ""), member_epoch)

    def offset_expires_from_ms(self, topic: str, commit_ms: int) -> int | None:
        """Return the time of the commit, unless a member consumes the topic."""
        return None if self.subscribes_to(topic) else commit_ms

    def static_member(self, instance_id: str, member_id: str) -> ConsumerGroupMember:
        """Return the static member of this name.

        Raises:
            CoordinatorError: UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if it has another member id.
        """
        holder_id = self.static_members.get(instance_id)
        if holder_id is None:
            raise self.unknown(instance_id)
        if holder_id != member_id:
            message = f"instance {instance_id} is member {holder_id} now"
            raise CoordinatorError(ErrorCode.FENCED_INSTANCE_ID, message)
        return self.members[holder_id]

    # --- for records ---

    def put_member(self, member_id: str, subscription: ConsumerGroupMemberMetadataValue) -> None:
        super().put_member(member_id, subscription)
        if subscription.instance_id is not None:
            self.static_members[subscription.instance_id] = member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.get(member_id)
        super().remove_member(member_id)
        instance_id = None if member is None else member.subscription.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def put_current_record(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        if value is not None:
            self.put_current(member_id, CurrentAssignment.of_record(value))
        elif member_id in self.members:
            self.put_current(member_id, NOTHING_YET)

    def put_expression(self, expression: str, resolved: ResolvedExpression | None) -> None:
        """Apply the topics that a regular expression matches; None: no member subscribes by it."""
        before = self.expressions.pop(expression, None)
        if before is not None:
            self.matched_count -= len(before.topics)
            self.memory.change(-text_bytes(expression) - ENTRY_BYTES * len(before.topics))
        if resolved is not None:
            self.expressions[expression] = resolved
            self.matched_count += len(resolved.topics)
            self.memory.change(text_bytes(expression) + ENTRY_BYTES * len(resolved.topics))

    def looked_at(self, expressions: Iterable[str]) -> None:
        """Note that the subscribed topics were looked at, and of the stale expressions these."""
        for expression in expressions:
            self.stale_expressions.pop(expression, None)
        self.is_metadata_stale = bool(self.stale_expressions)

    # --- by kind ---

    def _new_member(self, member_id: str) -> ConsumerGroupMember:
        return ConsumerGroupMember(member_id)

    def subscription_bytes(self, subscription: ConsumerGroupMemberMetadataValue) -> int:
        return subscription_bytes(subscription)

    def _is_behind(self, member: ConsumerGroupMember) -> bool:
        return not member.is_reconciled_to(self.target_epoch)

    def _moves(self, member: ConsumerGroupMember, held: Partitions) -> None:
        self.owners.move(member.member_id, member.current.held, held)


def _check_epoch(member: ConsumerGroupMember, epoch: int) -> None:
    if epoch != member.current.epoch or epoch == LEFT_FOR_A_WHILE:
        message = f"member {member.member_id} is in epoch {member.current.epoch}, not in {epoch}"
        raise CoordinatorError(ErrorCode.STALE_MEMBER_EPOCH, message)


def check_generation(member: ConsumerGroupMember, generation: int) -> None:
    """Check the generation that a member of the classic protocol sends: its epoch.

    Raises:
        CoordinatorError: ILLEGAL_GENERATION.
    """
    if generation != member.current.epoch:
        message = f"member {member.member_id} is in generation {member.current.epoch}, not in {generation}"
        raise CoordinatorError(ErrorCode.ILLEGAL_GENERATION, message)


class ConsumerSessions(MemberSessions[ConsumerGroup]):
    """Starts and stops the timers of the members of consumer groups."""

    def _longest_interval_ms(self, group: ConsumerGroup) -> int:
        default_ms = self._services.config.consumer_heartbeat_interval_ms
        return self._of_group(group, CONSUMER_HEARTBEAT_INTERVAL, default_ms)

    def _timeout_ms(self, group: ConsumerGroup, member: ConsumerGroupMember) -> int:
        classic = member.subscription.classic_member_metadata
        if classic is not None:
            return classic.session_timeout_ms
        return self._of_group(group, CONSUMER_SESSION_TIMEOUT, self._services.config.consumer_session_timeout_ms)

    def _of_group(self, group: ConsumerGroup, name: str, default: int) -> int:
        """Return a config of the group: its own, which was checked when it was set, or the default."""
        configs = self._services.image().group_configs.get(group.group_id)
        return default if configs is None or name not in configs else int(configs[name])

    def watch_revocation(self, shard: GroupShard, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        """Give the member its rebalance timeout to give up partitions, if its new assignment says that it has to.

        Members of the classic protocol have it to join again, and to sync (see `expect`).
        """
        if member.is_classic:
            return
        self.expect_no_more(member)
        if member.current.state is MemberState.UNREVOKED:
            self.expect(shard, group, member, "it has not given up partitions in time")

    def expect(self, shard: GroupShard, group: ConsumerGroup, member: ConsumerGroupMember, otherwise: str) -> None:
        """Give the member its rebalance timeout to do something, unless it runs already; `otherwise` is why it goes."""
        if member.revocation is None:
            over = partial(self._over, shard, group, member, otherwise)
            timeout_ms = max(1, member.subscription.rebalance_timeout_ms)
            member.revocation = self._services.timer.call_later(timeout_ms, over)

    @staticmethod
    def expect_no_more(member: ConsumerGroupMember) -> None:
        """Stop the time that a member had to do something: it has done it."""
        if member.revocation is not None:
            member.revocation.cancel()
            member.revocation = None

    def start(self, shard: GroupShard, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        """Start the timers of a member that was loaded."""
        self.renew(shard, group, member)
        self.watch_revocation(shard, group, member)

    def stop(self, member: ConsumerGroupMember) -> None:
        """Stop the timers of a member that has gone, or that another broker looks after now."""
        super().stop(member)
        self.expect_no_more(member)
