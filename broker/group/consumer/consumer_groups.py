"""The consumer groups of one broker (KIP-848): the steps of their heartbeats that differ from those of other groups.

`modern/modern_groups.py` has the way of a ConsumerGroupHeartbeat.

A member may be static: it has a name, under which it leaves for a while and comes back (KIP-345). It may subscribe by a
regular expression. It says which partitions it owns, and gives up those that it shall not have any more before others
get them. An empty classic group makes way for it, and one with members is converted if it can be.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from purgatorio.broker.causes.words import shortened
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.consumer.assignors import ASSIGNORS
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup, ConsumerSessions, ResolvedExpression
from purgatorio.broker.group.consumer.expressions import ExpressionIndex, Expressions
from purgatorio.broker.group.consumer.member import (
    LEFT_FOR_A_WHILE,
    NOTHING_YET,
    ConsumerGroupMember,
    CurrentAssignment,
    reconcile,
)
from purgatorio.broker.group.consumer.records import ConsumerUpdate, ConsumerWriter
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.modern.modern_groups import JOINS, HeartbeatClient, Messages, ModernGroups, Sender
from purgatorio.broker.group.modern.partitions import from_wire, includes
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.group_records import ConsumerGroupMemberMetadataValue
from purgatorio.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

logger = get_logger(__name__)

VERSION_WITH_MEMBER_IDS: Final = 1
"""From this version on, clients make their member ids (KIP-1082)."""
TOPICS_PER_HEARTBEAT: Final = 10_000
"""The topics of expressions that a heartbeat looks at and writes, but for its last expression: some milliseconds."""
MAX_MATCHED: Final = 50_000
"""The most topics that all expressions of a group may match, each by itself: a new epoch looks at all. A single one may
match more."""


class ConsumerGroups(ModernGroups[ConsumerGroup, ConsumerUpdate]):
    """The consumer groups of one broker.

    Attributes:
        expressions: the regular expressions that these groups subscribe by.
        upgrade: makes a classic group with members a consumer group, or raises CoordinatorError.
    """

    group_type = ConsumerGroup
    update_type = ConsumerUpdate
    messages = Messages(ConsumerGroupHeartbeatResponse, Assignment, TopicPartitions)
    sessions: ConsumerSessions
    writer: ConsumerWriter

    def __init__(self, services: GroupServices, coordinator: GroupCoordinator) -> None:
        self.expressions = Expressions(services)
        self._index = ExpressionIndex(self.expressions)
        sessions = ConsumerSessions(services)
        writer = ConsumerWriter(services.log, services.clock, sessions, self._index)
        super().__init__(services, coordinator, sessions, writer)
        self.upgrade: Callable[[GroupShard, Group], ConsumerGroup] = _stay_classic

    def loaded(self, shard: GroupShard, group: Any) -> None:
        """Start the timers of a group; topics may have come and gone while another broker coordinated it."""
        group.stale_expressions.update(dict.fromkeys(group.expressions))
        super().loaded(shard, group)

    def image_changed(self, image: ClusterImage) -> None:
        """Have groups look at their topics that were created, deleted, or have more partitions."""
        changed = self._index.image_changed(image)
        came_or_went = [each.name for each in changed if each.before is None or each.after is None]
        if came_or_went:
            self.expressions.topics_changed(came_or_went)

    # --- the request ---

    def _check_request(self, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        is_plain = request.member_epoch > 0 and request.instance_id is None and request.rack_id is None
        if is_plain and request.group_id and request.member_id and request.server_assignor is None:
            return  # nearly all heartbeats
        mistake = _mistake(request, version)
        if mistake is None and request.member_epoch == JOINS:
            mistake = _mistake_of_join(request)
        if mistake is not None:
            raise CoordinatorError(ErrorCode.INVALID_REQUEST, mistake)
        assignor = request.server_assignor
        if assignor is not None and assignor not in ASSIGNORS:
            known = ", ".join(ASSIGNORS)
            raise CoordinatorError(ErrorCode.UNSUPPORTED_ASSIGNOR, f"there is no assignor {assignor!r}, but: {known}")

    def _check_in(self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest) -> None:
        if request.subscribed_topic_names:  # checked before a group is converted for the member
            self._check_names(shard, request.subscribed_topic_names)

    # --- the group ---

    def _convert(self, shard: GroupShard, group_id: str, other: Group | None) -> ConsumerGroup | None:
        if other is not None and not other.gives_way:
            return self.upgrade(shard, other)
        if other is not None and not self._coordinator.discard(shard, other):
            message = f"group {group_id} uses the classic protocol"
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
        return None

    # --- the member ---

    def _identify(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> Sender:
        """Return the sender of a heartbeat that does not leave the group.

        Raises:
            CoordinatorError: UNKNOWN_MEMBER_ID; FENCED_MEMBER_EPOCH; of static members, UNRELEASED_INSTANCE_ID while
                another one has the instance id, and FENCED_INSTANCE_ID when another one has taken it;
                GROUP_MAX_SIZE_REACHED.
        """
        member_id = request.member_id or self._new_member_id()
        sender = self._member(group, request, member_id)
        if request.topic_partitions is None:
            return sender
        return sender._replace(reported=from_wire(request.topic_partitions))

    def _member(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str) -> Sender:
        joins = request.member_epoch == JOINS
        if request.instance_id is not None:
            if not joins:
                return self._known(group.static_member(request.instance_id, member_id), request)
            holder_id = group.static_members.get(request.instance_id)
            if holder_id is not None and holder_id != member_id:
                return _replacement(group.members[holder_id], request.instance_id, member_id)
        member = group.members.get(member_id)
        if member is not None:
            return self._known(member, request)
        if not joins:
            raise group.unknown(member_id)
        self._check_size(group, self._services.config.consumer_max_size)
        return Sender(member_id, NOTHING_YET, None)

    def _known(self, member: ConsumerGroupMember, request: ConsumerGroupHeartbeatRequest) -> Sender:
        sender = super()._known(member, request)
        if member.current.epoch == LEFT_FOR_A_WHILE:
            return sender._replace(current=CurrentAssignment(assigned=member.current.assigned))
        return sender

    def _missed_an_answer(self, current: CurrentAssignment, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Return whether the member sends the epoch before, and owns nothing that it must not own."""
        return (
            super()._missed_an_answer(current, request)
            and request.topic_partitions is not None
            and includes(current.assigned, from_wire(request.topic_partitions))
        )

    def _new_member_id(self) -> str:
        """Return an id for a member whose client makes none: 128 random bits, as in Kafka."""
        return base64.urlsafe_b64encode(self._services.rng.randbytes(16)).rstrip(b"=").decode()

    def _put_leave(self, update: ConsumerUpdate, request: ConsumerGroupHeartbeatRequest) -> str:
        if request.instance_id is None:
            return super()._put_leave(update, request)
        member = update.group.static_member(request.instance_id, request.member_id)
        if request.member_epoch == LEFT_FOR_A_WHILE:
            left = CurrentAssignment(LEFT_FOR_A_WHILE, member.current.epoch, assigned=member.current.assigned)
            update.put_current(member.member_id, left)
        else:
            self.remove(update, [member])
        return member.member_id

    def _begin_epoch_without(self, update: ConsumerUpdate) -> None:
        self._look(update, is_needed=True)

    # --- the subscription ---

    def _subscription_of(
        self, shard: GroupShard, sender: Sender, request: ConsumerGroupHeartbeatRequest, client: HeartbeatClient
    ) -> ConsumerGroupMemberMetadataValue:
        known: ConsumerGroupMemberMetadataValue | None = sender.subscription
        is_same_client = known is not None and known.client_id == client.client_id and known.client_host == client.host
        if known is not None and is_same_client and _is_as_before(request):
            return known  # nearly all heartbeats
        before = known or ConsumerGroupMemberMetadataValue()
        names, expression = request.subscribed_topic_names, request.subscribed_topic_regex
        timeout_ms = request.rebalance_timeout_ms
        return replace(
            before,
            instance_id=before.instance_id if request.instance_id is None else request.instance_id,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            client_id=client.client_id,
            client_host=client.host,
            subscribed_topic_names=before.subscribed_topic_names if names is None else sorted(dict.fromkeys(names)),
            # librdkafka sends an empty expression if the consumer has none.
            subscribed_topic_regex=before.subscribed_topic_regex if expression is None else expression or None,
            rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            classic_member_metadata=None,  # it may take the place of a static member of the classic protocol
            server_assignor=before.server_assignor if request.server_assignor is None else request.server_assignor,
        )

    def _wants(self, subscription: ConsumerGroupMemberMetadataValue) -> object:
        return (
            subscription.subscribed_topic_names,
            subscription.subscribed_topic_regex,
            subscription.server_assignor,
        )

    def _put_subscription(self, update: ConsumerUpdate, sender: Sender, subscription: Any, *, is_other: bool) -> None:
        """Write a member's subscription if it is new, and the topics that its expression matches."""
        if sender.replaces is None:
            super()._put_subscription(update, sender, subscription, is_other=is_other)
        else:
            target = update.target_of(sender.replaces)
            update.remove_member(sender.replaces)
            update.put_member(sender.member_id, subscription)
            update.put_target(sender.member_id, target)
        if is_other and subscription.subscribed_topic_regex:
            self.expressions.check(subscription.subscribed_topic_regex)
            self._resolve(update, subscription.subscribed_topic_regex)

    # --- the epoch ---

    def _look(self, update: ConsumerUpdate, *, is_needed: bool) -> None:
        group = update.group
        self._resolve_stale(update)
        update.drop_unused_expressions()
        metadata_hash = update.metadata_hash()
        if is_needed or metadata_hash != group.metadata_hash:
            update.bump_epoch(metadata_hash)
        elif not update.changes_subscriptions:
            group.looked_at(update.resolved)

    def _resolve_stale(self, update: ConsumerUpdate) -> None:
        """Look up the topics of stale expressions; after very many topics, leave the others to later heartbeats."""
        group = update.group
        topics = 0
        for expression in list(group.stale_expressions):
            if topics >= TOPICS_PER_HEARTBEAT:
                return
            update.resolved.append(expression)
            if expression in group.counts.expressions:
                try:
                    topics += self._resolve(update, expression)
                except CoordinatorError as error:  # its members were refused, or came before the topics
                    logger.warning("a regular expression matches no more topics", why=str(error))

    def _resolve(self, update: ConsumerUpdate, expression: str) -> int:
        """Write the topics that an expression matches, if they are known and differ; return how many there are.

        Raises:
            CoordinatorError: GROUP_MAX_SIZE_REACHED: it matches too many, with the group's other expressions.
        """
        topics = self.expressions.topics_of(expression)
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

    # --- the member's assignment ---

    def follow(self, update: ConsumerUpdate, sender: Sender, subscription: Any) -> CurrentAssignment:
        """Return the partitions that the member owns from now on, and write them if they are new; see `reconcile`."""
        following = reconcile(
            sender.member_id,
            sender.current,
            target_epoch=update.target_epoch,
            target=update.target_of(sender.member_id),
            reported=sender.reported,
            owners=update.group.owners,
        )
        if following is not sender.current:
            update.put_current(sender.member_id, following)
        return following

    def _is_full(self, request: ConsumerGroupHeartbeatRequest, sender: Sender, following: CurrentAssignment) -> bool:
        """Return whether the request is full, or says that the member owns something else (KAFKA-16367).

        One that owns something else may have lost the answer with its assignment: Kafka relies on clients to send a
        full heartbeat then.
        """
        reported = sender.reported
        if reported is None:
            return False
        has_all = request.rebalance_timeout_ms != -1 and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        return has_all or reported != following.assigned


def _stay_classic(shard: GroupShard, group: Group) -> ConsumerGroup:
    """Refuse to convert a group."""
    message = f"group {group.group_id} has members of the classic protocol"
    raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _replacement(holder: ConsumerGroupMember, instance_id: str, member_id: str) -> Sender:
    """Return a member that takes the place of a static one that has left for a while (KIP-345).

    Members of the classic protocol do not leave: their place is taken at once (KAFKA-17228).

    Raises:
        CoordinatorError: UNRELEASED_INSTANCE_ID.
    """
    if holder.current.epoch != LEFT_FOR_A_WHILE and not holder.is_classic:
        message = f"instance {instance_id} is member {holder.member_id}, which has not left"
        raise CoordinatorError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    taken_over = CurrentAssignment(assigned=holder.current.assigned)
    return Sender(member_id, taken_over, holder.subscription, replaces=holder.member_id)


def _mistake(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    """Return the first mistake of a request with any epoch."""
    needs_member_id = version >= VERSION_WITH_MEMBER_IDS or request.member_epoch != JOINS
    mistakes = {
        "the group id is empty": _is_blank(request.group_id),
        "the member id is empty": needs_member_id and _is_blank(request.member_id),
        "the instance id is empty": _is_blank(request.instance_id),
        "the rack id is empty": _is_blank(request.rack_id),
        "a member without an instance id cannot leave for a while": request.member_epoch == LEFT_FOR_A_WHILE
        and request.instance_id is None,
        f"there is no member epoch {request.member_epoch}": request.member_epoch < LEFT_FOR_A_WHILE,
    }
    return next((mistake for mistake, made in mistakes.items() if made), None)


def _is_blank(value: str | None) -> bool:
    """Return whether a text is given, and has nothing but spaces."""
    return value is not None and not value.strip()


def _mistake_of_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    """Return the first mistake of a request that joins: it has all fields, and owns nothing."""
    if request.rebalance_timeout_ms == -1:
        return "a member that joins must tell its rebalance timeout"
    if request.topic_partitions is None or request.topic_partitions:
        return "a member that joins must own no partitions"
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "a member that joins must tell its subscription"
    return None


def _is_as_before(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the request changes nothing of the subscription; static members send their name each time."""
    return (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.instance_id is None
        and request.rebalance_timeout_ms == -1
        and request.rack_id is None
        and request.server_assignor is None
    )
