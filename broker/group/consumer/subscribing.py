"""What a heartbeat says about the member's subscription, and what that, or a changed topic, means for the group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from purgatorio.broker.causes.words import shortened
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.consumer.consumer_group import ResolvedExpression
from purgatorio.broker.group.consumer.expressions import Expressions
from purgatorio.broker.group.consumer.identification import Sender
from purgatorio.broker.group.consumer.member import Member, subscription_bytes
from purgatorio.broker.group.consumer.update import GroupUpdate
from purgatorio.broker.group.memory import MEMBER_BYTES, text_bytes
from purgatorio.broker.group.modern.assigning import TOPICS_AT_ONCE, is_due
from purgatorio.broker.group.services import GroupServices
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.group_records import ConsumerGroupMemberMetadataValue
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

logger = get_logger(__name__)

TOPICS_PER_HEARTBEAT: Final = 10_000
"""The topics of expressions that a heartbeat looks at and writes, but for its last expression: some milliseconds."""
MAX_MATCHED: Final = 50_000
"""The most topics that all expressions of a group may match, each by itself: a new epoch looks at all. A single one may
match more."""


class Subscribing:
    """Writes subscriptions, and begins an epoch of a group when its partitions must be shared anew."""

    def __init__(self, services: GroupServices, expressions: Expressions) -> None:
        self._services = services
        self._expressions = expressions

    def subscribe(self, update: GroupUpdate, sender: Sender, subscription: ConsumerGroupMemberMetadataValue) -> bool:
        """Write a member's subscription if it is new, and make the target assignment if that is due.

        Returns:
            Whether it is due, but left to a later turn of the event loop, since the group has very many topics.

        Raises:
            CoordinatorError: INVALID_REGULAR_EXPRESSION; GROUP_MAX_SIZE_REACHED if there is no memory for it.
        """
        group, before = update.group, sender.subscription
        if subscription is not before:
            self._check_room(sender, subscription)
        if sender.replaces is not None:
            target = update.target_of(sender.replaces)
            update.remove_member(sender.replaces)
            update.put_member(sender.member_id, subscription)
            update.put_target(sender.member_id, target)
        elif subscription != before:
            update.put_member(sender.member_id, subscription)
        begins_epoch = before is None or _wants(before) != _wants(subscription)
        if begins_epoch and subscription.subscribed_topic_regex:
            self._expressions.check(subscription.subscribed_topic_regex)
            self._resolve(update, subscription.subscribed_topic_regex)
        if begins_epoch or group.is_metadata_stale:
            self._begin_epoch(update, is_needed=begins_epoch)
        if update.epoch <= update.target_epoch or not is_due(group, self._services.clock.now_ms()):
            return False
        if len(group.counts.names) + len(subscription.subscribed_topic_names) + group.matched_count > TOPICS_AT_ONCE:
            return True
        update.assign(self._services.clock.wall_ms())
        return False

    def _check_room(self, sender: Sender, subscription: ConsumerGroupMemberMetadataValue) -> None:
        """Check that there is memory for a member's subscription.

        Raises:
            CoordinatorError: GROUP_MAX_SIZE_REACHED.
        """
        more_bytes = subscription_bytes(subscription)
        if sender.subscription is None:
            more_bytes += MEMBER_BYTES + text_bytes(sender.member_id)
        else:
            more_bytes -= subscription_bytes(sender.subscription)
        self._services.check_room(more_bytes)

    def remove(self, update: GroupUpdate, members: Iterable[Member]) -> None:
        """Remove members; the others share their partitions from their next heartbeats on."""
        for member in members:
            update.remove_member(member.member_id)
        self._begin_epoch(update, is_needed=True)
        update.assign_to_nobody(self._services.clock.wall_ms())

    def _begin_epoch(self, update: GroupUpdate, *, is_needed: bool) -> None:
        """Begin an epoch if it is needed, or if subscribed topics have changed."""
        group = update.group
        self._resolve_stale(update)
        update.drop_unused_expressions()
        metadata_hash = update.metadata_hash()
        if is_needed or metadata_hash != group.metadata_hash:
            update.bump_epoch(metadata_hash)
        elif not update.changes_subscriptions:
            group.looked_at(update.resolved)

    def _resolve_stale(self, update: GroupUpdate) -> None:
        """Look at what expressions match now; if they match very many topics, at the others with later heartbeats."""
        group = update.group
        topics = 0
        for expression in list(group.stale_expressions):
            if topics >= TOPICS_PER_HEARTBEAT:
                return
            update.resolved.append(expression)
            if expression in group.counts.expressions:
                try:
                    topics += self._resolve(update, expression)
                except CoordinatorError as error:  # its members were told, or came before the topics
                    logger.warning("a regular expression matches no more topics", why=str(error))

    def _resolve(self, update: GroupUpdate, expression: str) -> int:
        """Write the topics that an expression matches, if they are known and differ; returns how many there are.

        Raises:
            CoordinatorError: GROUP_MAX_SIZE_REACHED: it matches too many, with the group's other expressions.
        """
        topics = self._expressions.topics_of(expression)
        if topics is None:
            return 0  # the group is marked when they are known
        group = update.group
        known = group.expressions.get(expression)
        if known is None or known.topics != topics:
            others = group.matched_count - (0 if known is None else len(known.topics))
            if others and others + len(topics) > MAX_MATCHED:
                message = (
                    f"the regular expressions of group {shortened(group.group_id)} match more than {MAX_MATCHED} topics"
                )
                raise CoordinatorError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
            image, now_ms = self._services.image(), self._services.clock.wall_ms()
            update.put_expression(expression, ResolvedExpression(topics, image.version, now_ms))
        return 1 + len(topics)


def subscription_of(
    sender: Sender, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> ConsumerGroupMemberMetadataValue:
    """Return a member's subscription as of a request, in which null means "as before"."""
    known = sender.subscription
    if (
        known is not None
        and _tells_nothing(request)
        and (known.client_id, known.client_host) == (client_id, client_host)
    ):
        return known  # nearly all heartbeats
    before = known or ConsumerGroupMemberMetadataValue()
    names, expression = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        before,
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=client_id,
        client_host=client_host,
        subscribed_topic_names=before.subscribed_topic_names if names is None else sorted(dict.fromkeys(names)),
        # librdkafka sends an empty expression if the consumer has none.
        subscribed_topic_regex=before.subscribed_topic_regex if expression is None else expression or None,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        classic_member_metadata=None,  # it may take the place of a static member of the classic protocol
        server_assignor=before.server_assignor if request.server_assignor is None else request.server_assignor,
    )


def _tells_nothing(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the subscription is as before; static members tell their name each time."""
    return (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.instance_id is None
        and request.rebalance_timeout_ms == -1
        and request.rack_id is None
        and request.server_assignor is None
    )


def _wants(subscription: ConsumerGroupMemberMetadataValue) -> tuple[object, ...]:
    """Return what decides about a member's assignment."""
    return (
        subscription.subscribed_topic_names,
        subscription.subscribed_topic_regex,
        subscription.server_assignor,
    )
