"""ConsumerGroupHeartbeat: a member joins, stays, is given partitions, gives up partitions, and leaves (KIP-848).

A request makes a `GroupUpdate`: the records of what it changes. When they are in the log they are applied, by the code
that loads them; when they are committed the member is answered. A heartbeat that changes nothing is answered when
everything that it was decided on is committed, which is nearly always the case.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from purgatorio.broker.group.consumer.checks import JOINS, check_request
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.identification import Sender, identify, static_member, unknown_member
from purgatorio.broker.group.consumer.member import LEFT_FOR_A_WHILE, CurrentAssignment, Member
from purgatorio.broker.group.consumer.partitions import Partitions, from_wire, to_wire
from purgatorio.broker.group.consumer.reconciliation import reconcile
from purgatorio.broker.group.consumer.sessions import MemberTimers
from purgatorio.broker.group.consumer.topic_index import TopicIndex
from purgatorio.broker.group.consumer.update import GroupUpdate
from purgatorio.broker.group.consumer.writer import GroupWriter
from purgatorio.broker.group.coordinator_log import Committed
from purgatorio.broker.group.errors import GroupError
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.logger import get_logger
from purgatorio.protocol.consumer_offsets import ConsumerGroupMemberMetadataValue
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

logger = get_logger(__name__)

Answer = Callable[[ConsumerGroupHeartbeatResponse], None]


class Client(NamedTuple):
    """The client that sends a request.

    Attributes:
        client_id: as it calls itself.
        host: its address, as tools show it.
        version: the version of its request.
    """

    client_id: str
    host: str
    version: int


class ConsumerHeartbeats:
    """Handles the heartbeats of one broker's consumer groups.

    Args:
        services: the log, the clock, the settings.
        shard_of: returns the shard of a group, or raises GroupError.
        index: told when a group's subscriptions change.
    """

    def __init__(self, services: GroupServices, shard_of: Callable[[str], GroupShard], index: TopicIndex) -> None:
        self._services = services
        self._shard_of = shard_of
        self.timers = MemberTimers(services, self.fence)
        self._writer = GroupWriter(services.log, self.timers, index)

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, client: Client, answer: Answer) -> None:
        """Handle a heartbeat; `answer` is called once, now or later, unless this raises.

        Raises:
            GroupError: the heartbeat is refused; nothing has changed.
        """
        check_request(request, client.version)
        shard = self._shard_of(request.group_id)
        if request.member_epoch < 0:
            self._leave(shard, request, client, answer)
            return
        group = self._group(shard, request)
        member_id = request.member_id or self._new_member_id()
        sender = identify(group, request, member_id, max_size=self._services.config.consumer_max_size)
        update = GroupUpdate(group, self._services.image())
        self._subscribe(update, sender, _subscription(sender, request, client))
        following = self._reconcile(update, sender, request)
        response = ConsumerGroupHeartbeatResponse(member_id=sender.member_id, member_epoch=following.epoch)
        if _must_tell_assignment(request, sender.current, following):
            response.assignment = Assignment(topic_partitions=to_wire(following.assigned, TopicPartitions))
        self._answer(shard, update, response, client, answer)

    def fence(self, shard: GroupShard, group: ConsumerGroup, member: Member, why: str) -> bool:
        """Remove a member that is taken for dead, and return whether that could be written."""
        logger.info("member fenced", group=group.group_id, member=member.member_id, why=why)
        update = GroupUpdate(group, self._services.image())
        self._remove(update, member)
        return self._writer.write(shard, update, _ignore)

    # --- what a heartbeat changes ---

    def _group(self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroup:
        """Return the group; a new one, which enters the shard with its records, if a member joins.

        Raises:
            GroupError: GROUP_ID_NOT_FOUND, also for a group of the classic protocol.
        """
        group = shard.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if request.member_epoch != JOINS:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {request.group_id}")
        if group is not None:
            message = f"group {request.group_id} uses the classic protocol"
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, message)
        if len(shard.groups) >= self._services.config.max_groups:
            message = f"this broker keeps {len(shard.groups)} groups in {shard.tp}, the most that it may"
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        return ConsumerGroup(request.group_id)

    def _subscribe(self, update: GroupUpdate, sender: Sender, subscription: ConsumerGroupMemberMetadataValue) -> None:
        """Write the member's subscription if it is new, and begin an epoch if partitions must be shared anew."""
        group, before = update.group, sender.subscription
        if sender.replaces is not None:
            target = update.target_of(sender.replaces)
            update.remove_member(sender.replaces)
            update.put_member(sender.member_id, subscription)
            update.put_target(sender.member_id, target)
        elif subscription != before:
            update.put_member(sender.member_id, subscription)
        begins_epoch = before is None or _wants(before) != _wants(subscription)
        if begins_epoch or group.is_metadata_stale:
            metadata_hash = update.metadata_hash()
            if begins_epoch or metadata_hash != group.metadata_hash:
                update.bump_epoch(metadata_hash)
            else:
                group.is_metadata_stale = False
        if update.epoch > update.target_epoch:
            update.assign(self._services.clock.wall_ms())

    @staticmethod
    def _reconcile(update: GroupUpdate, sender: Sender, request: ConsumerGroupHeartbeatRequest) -> CurrentAssignment:
        """Return what the member owns from now on, and write it if that is new."""
        reported: Partitions | None = None
        if request.topic_partitions is not None:
            reported = from_wire(request.topic_partitions)
        following = reconcile(
            sender.member_id,
            sender.current,
            target_epoch=update.target_epoch,
            target=update.target_of(sender.member_id),
            reported=reported,
            owners=update.group.owners,
        )
        if following is not sender.current:
            update.put_current(sender.member_id, following)
        return following

    def _leave(self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, client: Client, answer: Answer) -> None:
        group = shard.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {request.group_id}")
        member = group.members.get(request.member_id)
        if request.instance_id is not None:
            member = static_member(group, request.instance_id, request.member_id)
        elif member is None:
            raise unknown_member(group, request.member_id)
        update = GroupUpdate(group, self._services.image())
        if request.member_epoch == LEFT_FOR_A_WHILE:
            assigned = member.current.assigned
            update.put_current(
                member.member_id, CurrentAssignment(LEFT_FOR_A_WHILE, member.current.epoch, assigned=assigned)
            )
        else:
            self._remove(update, member)
        response = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
        self._writer.write(shard, update, _when_committed(response, answer), client=client.client_id)

    @staticmethod
    def _remove(update: GroupUpdate, member: Member) -> None:
        """Remove a member; the others share its partitions from their next heartbeats on."""
        update.remove_member(member.member_id)
        update.bump_epoch(update.metadata_hash())

    def _answer(
        self,
        shard: GroupShard,
        update: GroupUpdate,
        response: ConsumerGroupHeartbeatResponse,
        client: Client,
        answer: Answer,
    ) -> None:
        """Write what has changed, let the member live on, and answer when that, and all before it, is committed."""
        group, member_id = update.group, response.member_id or ""

        def applied() -> None:
            self.timers.renew_session(shard, group, group.members[member_id])
            response.heartbeat_interval_ms = self.timers.heartbeat_interval_ms(group)

        done = _when_committed(response, answer)
        if update.changes:
            self._writer.write(shard, update, done, applied=applied, client=client.client_id)
        else:
            applied()
            self._writer.when_committed(shard, group, done, client=client.client_id)

    def _new_member_id(self) -> str:
        """Return an id for a member whose client makes none: 128 random bits, as in Kafka."""
        return base64.urlsafe_b64encode(self._services.rng.randbytes(16)).rstrip(b"=").decode()


def _ignore(error_code: ErrorCode) -> None:
    """No client waits for this."""


def _when_committed(response: ConsumerGroupHeartbeatResponse, answer: Answer) -> Committed:
    """Return what answers with the response, or with an error if it cannot be committed."""

    def done(error_code: ErrorCode) -> None:
        answer(ConsumerGroupHeartbeatResponse(error_code=error_code) if error_code else response)

    return done


def _subscription(
    sender: Sender, request: ConsumerGroupHeartbeatRequest, client: Client
) -> ConsumerGroupMemberMetadataValue:
    """Return the member's subscription as of this request, in which null means "as before"."""
    before = sender.subscription or ConsumerGroupMemberMetadataValue()
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
        server_assignor=before.server_assignor if request.server_assignor is None else request.server_assignor,
    )


def _wants(subscription: ConsumerGroupMemberMetadataValue) -> tuple[object, ...]:
    """Return what decides about a member's assignment."""
    return (
        subscription.subscribed_topic_names,
        subscription.subscribed_topic_regex,
        subscription.server_assignor,
    )


def _must_tell_assignment(
    request: ConsumerGroupHeartbeatRequest, before: CurrentAssignment, following: CurrentAssignment
) -> bool:
    """Whether the answer must have the assignment: it is new, or the member may not know it (KAFKA-16367)."""
    is_full = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    return is_full or request.member_epoch != before.epoch or following.assigned != before.assigned
