"""ShareGroupHeartbeat: a member joins, stays, is given partitions, and leaves (KIP-932).

A request makes a `ShareUpdate`: the records of what it changes. When they are in the log they are applied; when they
are committed the member is answered. A member follows the target assignment at once: as several members may have a
partition, none has to give it up before another gets it.

The partitions of a new group have no state yet, and only those with a state are assigned. Kafka answers the first
heartbeat without partitions, so that a group reads its first record after an interval of heartbeats. Here the heartbeat
that joins, or that names topics, waits for the states, for up to `MAX_WAIT_MS`: mostly they are there after some
milliseconds. That breaks no promise of Kafka's: clients wait as long for the answer to any request. Members that still
lack partitions are asked for the next heartbeat soon (see `MemberSessions.heartbeat_interval_ms`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.coordinator.coordinator_log import tell_nobody
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.memory import MEMBER_BYTES, text_bytes
from purgatorio.broker.group.modern.assigning import TOPICS_AT_ONCE, assign_in_steps, is_due
from purgatorio.broker.group.modern.partitions import to_wire
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.group.share.delayed_initialization import AssignmentKey, DelayedAssignment
from purgatorio.broker.group.share.identification import (
    JOINS,
    LEAVES,
    Sender,
    check_request,
    identify,
    subscription_of,
)
from purgatorio.broker.group.share.initialization import Initializations
from purgatorio.broker.group.share.member import ShareAssignment, ShareMember, subscription_bytes
from purgatorio.broker.group.share.records import ShareGroupWriter
from purgatorio.broker.group.share.share_group import ShareGroup, ShareMemberSessions, new_group
from purgatorio.broker.group.share.update import ShareUpdate
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.group_records import ShareGroupMemberMetadataValue
from purgatorio.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

logger = get_logger(__name__)

MAX_WAIT_MS: Final = 500
"""The longest time that a heartbeat waits for states: a member whose heartbeat waits can tell its coordinator nothing.
"""

Answer = Callable[[ShareGroupHeartbeatResponse], None]
Later = Callable[[Iterator[None]], None]
"""Has steps taken in later turns of the event loop, while the client's connection sends nothing else."""


class Client(NamedTuple):
    """The client that sends a request, and how it is answered.

    Attributes:
        answer: is called once.
        later: has the steps taken of what takes long.
    """

    client_id: str
    host: str
    answer: Answer
    later: Later


class ShareHeartbeats:
    """Handles the heartbeats of one broker's share groups.

    Args:
        writer, sessions, initializations: those of these groups.
    """

    def __init__(
        self,
        services: GroupServices,
        coordinator: GroupCoordinator,
        *,
        writer: ShareGroupWriter,
        sessions: ShareMemberSessions,
        initializations: Initializations,
    ) -> None:
        self._services = services
        self._coordinator = coordinator
        self._writer = writer
        self._sessions = sessions
        self._initializations = initializations

    def heartbeat(self, request: ShareGroupHeartbeatRequest, client: Client) -> None:
        """Handle a heartbeat; the client is answered once, now or later, unless this raises.

        Raises:
            CoordinatorError: the heartbeat is refused; nothing has changed.
        """
        check_request(request)
        shard = self._coordinator.shard_of(request.group_id)
        if request.member_epoch == LEAVES:
            self._leave(shard, request, client)
            return
        group = self._group(shard, request)
        sender = identify(group, request, max_size=self._services.config.share_max_size)
        subscription = subscription_of(sender, request, client.client_id, client.host)
        if subscription is not sender.subscription:
            self._check_room(shard, sender, subscription)
        update = ShareUpdate(group, self._services.image())
        if subscription != sender.subscription:
            update.put_member(sender.member_id, subscription)
        before = None if sender.subscription is None else sender.subscription.subscribed_topic_names
        names_changed = subscription.subscribed_topic_names != before
        owes_assignment = self.settle(update, is_needed=names_changed)
        following = self._follow(update, sender, subscription if names_changed else None)
        response = ShareGroupHeartbeatResponse(member_id=sender.member_id, member_epoch=following.epoch)
        if owes_assignment:
            self._assign_later(shard, update, sender.member_id, client)
            return
        is_full = request.member_epoch == JOINS or request.subscribed_topic_names is not None
        if is_full or request.member_epoch != sender.current.epoch or following.assigned != sender.current.assigned:
            response.assignment = _assignment(following)
        awaited = update.topic_ids(subscription) if is_full else frozenset()
        self._answer(shard, update, response, client, awaited=awaited)

    def fence(self, shard: GroupShard, group: ShareGroup, member: ShareMember, why: str) -> bool:
        """Remove a member that is taken for dead, and return whether that could be written."""
        logger.info("member fenced", group=group.group_id, member=member.member_id, why=why)
        return self._writer.write(shard, self._removal(group, member), tell_nobody)

    # --- what a heartbeat changes ---

    def _group(self, shard: GroupShard, request: ShareGroupHeartbeatRequest) -> ShareGroup:
        """Return the group; a new one, which enters the shard with its records, if a member joins.

        Raises:
            CoordinatorError: GROUP_ID_NOT_FOUND, also for a group of another kind, and one with offsets alone;
                COORDINATOR_LOAD_IN_PROGRESS while it is being deleted.
        """
        group_id = request.group_id
        group = shard.groups.get(group_id)
        if group_id in shard.deleting:
            raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"group {group_id!r} is being deleted")
        if isinstance(group, ShareGroup):
            return group
        if request.member_epoch != JOINS or group is not None or shard.offsets.knows(group_id):
            raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no share group {group_id}")
        return new_group(shard, group_id, self._services.config.max_groups)

    def _check_room(self, shard: GroupShard, sender: Sender, subscription: ShareGroupMemberMetadataValue) -> None:
        """Check that there is memory for a member's subscription, and that its record can hold the names.

        Raises:
            CoordinatorError: INVALID_REQUEST, or GROUP_MAX_SIZE_REACHED.
        """
        names = subscription.subscribed_topic_names
        if sum(map(len, names)) > self._services.log.max_batch_bytes(shard.tp):
            message = f"the names of {len(names)} topics are too long for a record of {shard.tp}"
            raise CoordinatorError(ErrorCode.INVALID_REQUEST, message)
        more_bytes = subscription_bytes(subscription)
        if sender.subscription is None:
            more_bytes += MEMBER_BYTES + text_bytes(sender.member_id)
        else:
            more_bytes -= subscription_bytes(sender.subscription)
        self._services.check_room(more_bytes)

    def settle(self, update: ShareUpdate, *, is_needed: bool) -> bool:
        """Begin an epoch, ask for states and make the target assignment, each if it is due.

        Args:
            is_needed: whether an epoch is, as members or subscriptions change.

        Returns:
            Whether the target assignment is due, but left to a later turn of the event loop: the topics are very many.
        """
        group = update.group
        if is_needed or group.is_metadata_stale or group.is_states_stale:
            self._look(update, is_needed=is_needed)
        interval_ms = self._services.share_settings.of(group.group_id).assignment_interval_ms
        if update.epoch <= update.target_epoch or not is_due(group, self._services.clock.now_ms(), interval_ms):
            return False
        if update.topic_count > TOPICS_AT_ONCE:
            return True
        update.assign(self._services.clock.wall_ms())
        return False

    def _look(self, update: ShareUpdate, *, is_needed: bool) -> None:
        """Begin an epoch if it is needed, or if topics or states have changed, and ask for states."""
        group = update.group
        wanted = self._initializations.wanted(update)
        metadata_hash = update.metadata_hash()
        has_changed = metadata_hash != group.metadata_hash or self._initializations.is_again(group, wanted)
        is_behind = update.epoch <= update.target_epoch and update.has_unassigned()
        if is_needed or has_changed or is_behind:
            update.bump_epoch(metadata_hash)
        if wanted:
            self._initializations.begin(update, wanted)
        update.has_looked = True
        if not update.changes:
            group.is_metadata_stale = group.is_states_stale = False

    @staticmethod
    def _follow(update: ShareUpdate, sender: Sender, changed: ShareGroupMemberMetadataValue | None) -> ShareAssignment:
        """Return what the member has from now on, and write it if that is new.

        Args:
            changed: the member's new subscription; it loses at once what it does not subscribe to any more.
        """
        following = sender.current.moved(update.target_epoch, update.target_of(sender.member_id))
        if changed is not None:
            following = following.without(frozenset(following.assigned) - update.topic_ids(changed))
        if following is not sender.current:
            update.put_current(sender.member_id, following)
        return following

    def _leave(self, shard: GroupShard, request: ShareGroupHeartbeatRequest, client: Client) -> None:
        group = shard.groups.get(request.group_id)
        if not isinstance(group, ShareGroup):
            raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no share group {request.group_id}")
        update = self._removal(group, group.known(request.member_id))
        response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

        def done(error_code: ErrorCode) -> None:
            client.answer(ShareGroupHeartbeatResponse(error_code=error_code) if error_code else response)

        self._writer.write(shard, update, done, client=client.client_id)

    def _removal(self, group: ShareGroup, member: ShareMember) -> ShareUpdate:
        """Return an update without a member; the others share its partitions from their next heartbeats on."""
        update = ShareUpdate(group, self._services.image())
        update.remove_member(member.member_id)
        update.bump_epoch(update.metadata_hash())
        update.assign_to_nobody(self._services.clock.wall_ms())
        return update

    # --- answers ---

    def _answer(
        self,
        shard: GroupShard,
        update: ShareUpdate,
        response: ShareGroupHeartbeatResponse,
        client: Client,
        *,
        awaited: frozenset[bytes] = frozenset(),
    ) -> None:
        """Write what has changed, let the member live on, and answer when that, and all before it, is committed.

        Args:
            awaited: the topics for whose states the answer waits.
        """
        group, member_id = update.group, response.member_id or ""

        def applied() -> None:
            self._sessions.renew(shard, group, group.members[member_id])
            response.heartbeat_interval_ms = self._sessions.heartbeat_interval_ms(group)

        def done(error_code: ErrorCode) -> None:
            if error_code:
                client.answer(ShareGroupHeartbeatResponse(error_code=error_code))
            elif waits:
                self._wait(group, member_id, awaited, client)
            else:
                client.answer(response)

        # An attempt that this update begins is under way by the time at which the update is committed.
        waits = update.awaits(awaited)
        if update.changes:
            self._writer.write(shard, update, done, applied=applied, client=client.client_id)
        else:
            applied()
            self._writer.when_committed(shard, group, done, client=client.client_id)

    def _wait(self, group: ShareGroup, member_id: str, awaited: frozenset[bytes], client: Client) -> None:
        """Answer when the states of these topics are there, or cannot be, or that takes too long."""
        operation = DelayedAssignment(
            MAX_WAIT_MS,
            group.group_id,
            awaited=lambda: group.asking(awaited),
            answer=partial(self._answer_anew, group.group_id, member_id, client),
            refuse=lambda error_code: client.answer(ShareGroupHeartbeatResponse(error_code=error_code)),
        )
        operation.client = client.client_id
        self._services.share_purgatory().try_complete_else_watch(operation, (AssignmentKey(group.group_id),))

    def _answer_anew(self, group_id: str, member_id: str, client: Client) -> None:
        """Answer a heartbeat that has waited, as if it had come now."""
        try:
            shard, member, update = self._update_of(group_id, member_id)
            if self.settle(update, is_needed=False):
                self._assign_later(shard, update, member_id, client)
            else:
                self._answer_with_all(shard, member, update, client)
        except CoordinatorError as error:
            _refuse(client, error)

    def _answer_with_all(self, shard: GroupShard, member: ShareMember, update: ShareUpdate, client: Client) -> None:
        """Answer a member with its whole assignment."""
        sender = Sender(member.member_id, member.current, member.subscription)
        following = self._follow(update, sender, None)
        response = ShareGroupHeartbeatResponse(member_id=member.member_id, member_epoch=following.epoch)
        response.assignment = _assignment(following)
        self._answer(shard, update, response, client)

    def _assign_later(self, shard: GroupShard, update: ShareUpdate, member_id: str, client: Client) -> None:
        """Write what has changed, the epoch among it, and have the target assignment made in steps; then answer."""
        if update.changes:
            failures: list[ErrorCode] = []
            if not self._writer.write(shard, update, failures.append, client=client.client_id):
                client.answer(ShareGroupHeartbeatResponse(error_code=failures[0]))
                return
        client.later(self._assign_in_steps(update.group.group_id, member_id, client))

    def _assign_in_steps(self, group_id: str, member_id: str, client: Client) -> Iterator[None]:
        """Make the target assignment of a group of very many topics, if no other member did, and answer a member."""
        yield
        try:
            shard, member, update = yield from assign_in_steps(
                partial(self._update_of, group_id, member_id), self._is_kept, self._services.clock.wall_ms
            )
            self._answer_with_all(shard, member, update, client)
        except CoordinatorError as error:
            _refuse(client, error)

    def _is_kept(self, group: Group) -> bool:
        return self._coordinator.shard_of(group.group_id).groups.get(group.group_id) is group

    def _update_of(self, group_id: str, member_id: str) -> tuple[GroupShard, ShareMember, ShareUpdate]:
        """Return an update of a group, and one of its members.

        Raises:
            CoordinatorError: one of them is gone, or the group has another coordinator.
        """
        shard = self._coordinator.shard_of(group_id)
        group = shard.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no share group {group_id}")
        return shard, group.known(member_id), ShareUpdate(group, self._services.image())


def _refuse(client: Client, error: CoordinatorError) -> None:
    client.answer(ShareGroupHeartbeatResponse(error_code=error.error_code, error_message=str(error)))


def _assignment(current: ShareAssignment) -> Assignment:
    return Assignment(topic_partitions=to_wire(current.assigned, TopicPartitions))
