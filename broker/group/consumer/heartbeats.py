"""ConsumerGroupHeartbeat: a member joins, stays, is given partitions, gives up partitions, and leaves (KIP-848).

A request makes a `GroupUpdate`: the records of what it changes. When they are in the log they are applied, by the code
that loads them; when they are committed the member is answered. A heartbeat that changes nothing is answered when
everything that it was decided on is committed, which is nearly always the case.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from purgatorio.broker.coordinator.coordinator_log import Committed, tell_nobody
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.expressions import ExpressionIndex, Expressions
from purgatorio.broker.group.consumer.identification import (
    JOINS,
    Sender,
    check_request,
    identify,
    static_member,
    unknown_member,
)
from purgatorio.broker.group.consumer.member import LEFT_FOR_A_WHILE, CurrentAssignment, Member, reconcile
from purgatorio.broker.group.consumer.records import GroupWriter
from purgatorio.broker.group.consumer.sessions import MemberTimers
from purgatorio.broker.group.consumer.subscribing import Subscribing, subscription_of
from purgatorio.broker.group.consumer.update import GroupUpdate
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.modern.assigning import assign_in_steps
from purgatorio.broker.group.modern.partitions import Partitions, from_wire, to_wire
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.logger import get_logger
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
    """The client that sends a request."""

    client_id: str
    host: str
    version: int


class ConsumerHeartbeats:
    """Handles the heartbeats of one broker's consumer groups.

    Attributes:
        upgrade: makes a classic group with members a consumer group, or raises CoordinatorError.
    """

    def __init__(
        self,
        services: GroupServices,
        coordinator: GroupCoordinator,
        index: ExpressionIndex,
        expressions: Expressions,
    ) -> None:
        self._services = services
        self._coordinator = coordinator
        self._index = index
        self.subscribing = Subscribing(services, expressions)
        self.timers = MemberTimers(services, self.fence)
        self.writer = GroupWriter(services.log, services.clock, self.timers, index)
        self.upgrade: Callable[[GroupShard, Group], ConsumerGroup] = _stay_classic

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, answer: Answer
    ) -> Iterator[None] | None:
        """Handle a heartbeat; `answer` is called once, now or later, unless this raises.

        Returns:
            The steps that are left to be taken, of which the last one answers; mostly none.

        Raises:
            CoordinatorError: the heartbeat is refused; nothing has changed.
        """
        check_request(request, client.version)
        shard = self._coordinator.shard_of(request.group_id)
        if request.member_epoch < 0:
            self._leave(shard, request, client, answer)
            return None
        self._check_size(shard, request)
        group = self._group(shard, request)
        member_id = request.member_id or self._new_member_id()
        sender = identify(group, request, member_id, max_size=self._services.config.consumer_max_size)
        update = GroupUpdate(group, self._services.image())
        subscription = subscription_of(sender, request, client.client_id, client.host)
        owes_assignment = self.subscribing.subscribe(update, sender, subscription)
        reported = None if request.topic_partitions is None else from_wire(request.topic_partitions)
        following = self.reconcile(update, sender, reported)
        response = ConsumerGroupHeartbeatResponse(member_id=sender.member_id, member_epoch=following.epoch)
        if owes_assignment:
            return self._answer_later(shard, update, response, client, answer)
        if _must_tell_assignment(request, reported, sender.current, following):
            response.assignment = Assignment(topic_partitions=to_wire(following.assigned, TopicPartitions))
        self._answer(shard, update, response, client, answer)
        return None

    def fence(self, shard: GroupShard, group: ConsumerGroup, member: Member, why: str) -> bool:
        """Remove a member that is taken for dead, and return whether that could be written."""
        logger.info("member fenced", group=group.group_id, member=member.member_id, why=why)
        update = GroupUpdate(group, self._services.image())
        self.subscribing.remove(update, [member])
        return self.writer.write(shard, update, tell_nobody)

    def end(self, group: ConsumerGroup, members: Iterable[Member]) -> None:
        """Stop the timers of a group that this broker no longer coordinates, or that is none any more."""
        for member in members:
            self.timers.stop(member)
        self._index.forget(group)

    # --- what a heartbeat changes ---

    def _check_size(self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest) -> None:
        """Check that the member's record can hold the names of its topics, before anything is done with these.

        Raises:
            CoordinatorError: INVALID_REQUEST.
        """
        names = request.subscribed_topic_names
        if names and sum(map(len, names)) > self._services.log.max_batch_bytes(shard.tp):
            message = f"the names of {len(names)} topics are too long for a record of {shard.tp}"
            raise CoordinatorError(ErrorCode.INVALID_REQUEST, message)

    def _group(self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroup:
        """Return the group; a new one, which enters the shard with its records, if a member joins.

        Raises:
            CoordinatorError: GROUP_ID_NOT_FOUND, also for a group of another kind.
        """
        group = shard.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if request.member_epoch != JOINS:
            raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {request.group_id}")
        if group is not None and not group.gives_way:
            return self.upgrade(shard, group)
        if group is not None and not self._coordinator.discard(shard, group):
            message = f"group {request.group_id} uses the classic protocol"
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
        if len(shard.groups) >= self._services.config.max_groups:
            message = f"this broker keeps {len(shard.groups)} groups in {shard.tp}, the most that it may"
            raise CoordinatorError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        return ConsumerGroup(request.group_id)

    @staticmethod
    def reconcile(update: GroupUpdate, sender: Sender, reported: Partitions | None) -> CurrentAssignment:
        """Return what the member owns from now on, and write it if that is new.

        Args:
            reported: what the member says that it owns; None: as before.
        """
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
            raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {request.group_id}")
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
            self.subscribing.remove(update, [member])
        response = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
        self.writer.write(shard, update, _when_committed(response, answer), client=client.client_id)

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
            self.timers.renew(shard, group, group.members[member_id])
            response.heartbeat_interval_ms = self.timers.heartbeat_interval_ms(group)

        done = _when_committed(response, answer)
        if update.changes:
            self.writer.write(shard, update, done, applied=applied, client=client.client_id)
        else:
            applied()
            self.writer.when_committed(shard, group, done, client=client.client_id)

    def _answer_later(
        self,
        shard: GroupShard,
        update: GroupUpdate,
        response: ConsumerGroupHeartbeatResponse,
        client: Client,
        answer: Answer,
    ) -> Iterator[None] | None:
        """Write what has changed, the epoch among it, and return steps that make the target assignment and answer."""
        group_id, member_id = update.group.group_id, response.member_id or ""
        if update.changes:
            failures: list[ErrorCode] = []
            if not self.writer.write(shard, update, failures.append, client=client.client_id):
                answer(ConsumerGroupHeartbeatResponse(error_code=failures[0]))
                return None

        return self._assign_in_steps(group_id, member_id, client, answer)

    def _assign_in_steps(self, group_id: str, member_id: str, client: Client, answer: Answer) -> Iterator[None]:
        """Make the target assignment of a group of very many topics, if no other member did, and answer a member."""
        yield
        try:
            shard, member, update = yield from assign_in_steps(
                partial(self._update_of, group_id, member_id), self._is_kept, self._services.clock.wall_ms
            )
            following = self.reconcile(update, Sender(member_id, member.current, member.subscription), None)
            response = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=following.epoch)
            response.assignment = Assignment(topic_partitions=to_wire(following.assigned, TopicPartitions))
            self._answer(shard, update, response, client, answer)
        except CoordinatorError as error:
            answer(ConsumerGroupHeartbeatResponse(error_code=error.error_code, error_message=str(error)))

    def _is_kept(self, group: Group) -> bool:
        return self._coordinator.shard_of(group.group_id).groups.get(group.group_id) is group

    def _update_of(self, group_id: str, member_id: str) -> tuple[GroupShard, Member, GroupUpdate]:
        """Return an update of a group, and one of its members.

        Raises:
            CoordinatorError: one of them is gone, or the group has another coordinator.
        """
        shard = self._coordinator.shard_of(group_id)
        group = shard.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")
        member = group.members.get(member_id)
        if member is None:
            raise unknown_member(group, member_id)
        return shard, member, GroupUpdate(group, self._services.image())

    def _new_member_id(self) -> str:
        """Return an id for a member whose client makes none: 128 random bits, as in Kafka."""
        return base64.urlsafe_b64encode(self._services.rng.randbytes(16)).rstrip(b"=").decode()


def _stay_classic(shard: GroupShard, group: Group) -> ConsumerGroup:
    """Refuse to convert a group."""
    message = f"group {group.group_id} has members of the classic protocol"
    raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _when_committed(response: ConsumerGroupHeartbeatResponse, answer: Answer) -> Committed:
    """Return what answers with the response, or with an error if it cannot be committed."""

    def done(error_code: ErrorCode) -> None:
        answer(ConsumerGroupHeartbeatResponse(error_code=error_code) if error_code else response)

    return done


def _must_tell_assignment(
    request: ConsumerGroupHeartbeatRequest,
    reported: Partitions | None,
    before: CurrentAssignment,
    following: CurrentAssignment,
) -> bool:
    """Whether the answer must have the assignment: it is new, or the member may not know it (KAFKA-16367).

    A member that says that it owns something else may have lost the answer that told it: Kafka relies on clients to
    send a full heartbeat then.
    """
    is_full = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    owns_else = reported is not None and reported != following.assigned
    return is_full or owns_else or request.member_epoch != before.epoch or following.assigned != before.assigned
