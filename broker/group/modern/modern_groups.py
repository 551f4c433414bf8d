"""Groups of one kind and one broker, and the way of a heartbeat: ConsumerGroupHeartbeat or ShareGroupHeartbeat.

`ModernGroups.heartbeat` is that way (KIP-848, KIP-932): check the request, find or make the group, find the member and
fence it by its epoch, note what it subscribes to, begin an epoch and make the target assignment if they are due, move
the member towards its target, write, answer. `consumer/consumer_groups.py` and `share/share_groups.py` have the steps
that differ.

A request makes an update: the records of its changes. When they are in the log they are applied, by the code that loads
them; when they are committed the member is answered. A heartbeat that changes nothing is answered when everything that
it was decided on is committed, which is nearly always the case.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from purgatorio.broker.coordinator.coordinator_log import Committed, ignore
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.history import Rebalance, named
from purgatorio.broker.group.memory import MEMBER_BYTES, text_bytes
from purgatorio.broker.group.modern.modern_group import ModernGroup
from purgatorio.broker.group.modern.partitions import Partitions, to_wire
from purgatorio.broker.group.modern.records import ModernUpdate, UpdateWriter
from purgatorio.broker.group.modern.sessions import MemberSessions
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.time.long_work import Steps, take_slice
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode

logger = get_logger(__name__)

JOINS: Final = 0
"""The epoch of a member that joins, or that joins again after it was fenced."""
LEAVES: Final = -1
"""The epoch of a member that leaves for good."""

TOPICS_AT_ONCE: Final = 1_000
"""Up to this many topics, a heartbeat begins an epoch and makes its target assignment at once: some milliseconds."""
ASSIGNMENT_TRIES: Final = 3
"""How often the target assignment of a group of very many topics is begun, if others change the group meanwhile."""
MEMBERS_ASSIGNED_AT_ONCE: Final = 100
"""Up to this many members, each change gets a target assignment of its own."""
ASSIGNMENT_MS_PER_MEMBER: Final = 1
"""In larger groups, the time between two target assignments, for each member: making one takes some microseconds for
each, and when a thousand members join at once, not each of them is worth one."""

Answer = Callable[[Any], None]


class HeartbeatClient(NamedTuple):
    """The client that sends a request, and how it is answered.

    Attributes:
        version: the version of the request.
        answer: called once, with the response.
        later: takes steps in later turns of the event loop, while the client's connection sends nothing else.
    """

    client_id: str
    host: str
    version: int
    answer: Answer
    later: Callable[[Steps], None]


class Sender(NamedTuple):
    """The member that sends a heartbeat.

    Attributes:
        current: its assignment before the heartbeat.
        subscription: its last one; None for a new member.
        replaces: the id of the static member whose place it takes.
        reported: the partitions that it says it owns; None: as before, or the protocol has no such field.
    """

    member_id: str
    current: Any
    subscription: Any
    replaces: str | None = None
    reported: Partitions | None = None


class Messages(NamedTuple):
    """The response of one kind of group and its parts, which have the same fields in each kind."""

    response: type[Any]
    assignment: type[Any]
    topic_partitions: type[Any]


G = TypeVar("G", bound=ModernGroup[Any])
U = TypeVar("U", bound=ModernUpdate[Any, Any])


class ModernGroups(ABC, Generic[G, U]):
    """The groups of one kind: the heartbeats of their members, and their coming and going with their partition.

    Attributes:
        group_type, update_type, messages: the classes of the groups, of their updates, and of their responses.
        sessions: those of the members.
        writer: writes updates.
    """

    group_type: ClassVar[type[Any]]
    update_type: ClassVar[type[Any]]
    messages: ClassVar[Messages]

    def __init__(
        self,
        services: GroupServices,
        coordinator: GroupCoordinator,
        sessions: MemberSessions[G],
        writer: UpdateWriter[U],
    ) -> None:
        self._services = services
        self._coordinator = coordinator
        self.sessions = sessions
        self.writer = writer
        sessions.fence = self.fence

    # --- the way ---

    def heartbeat(self, request: Any, client: HeartbeatClient) -> None:
        """Handle a heartbeat; the client is answered once, now or later, unless this raises.

        Raises:
            CoordinatorError: the heartbeat is refused; no member has changed.
        """
        self._check_request(request, client.version)
        shard = self._coordinator.shard_of(request.group_id)
        if request.member_epoch < JOINS:
            self._leave(shard, request, client)
            return
        group = self._group(shard, request)
        sender = self._identify(group, request)
        subscription = self._subscription_of(shard, sender, request, client)
        update: U = self.update_type(group, self._services.image())
        owes_assignment = self.subscribe(update, sender, subscription)
        following = self.follow(update, sender, subscription)
        if owes_assignment:
            self._assign_later(shard, update, sender.member_id, client)
            return
        response = self.messages.response(member_id=sender.member_id, member_epoch=following.epoch)
        current, answer = sender.current, client.answer
        is_full = self._is_full(request, sender, following)
        if is_full or request.member_epoch != current.epoch or following.assigned != current.assigned:
            response.assignment = self._assignment(following)
        if is_full:
            answer = self._when_assignable(update, subscription, client)
        self._answer(shard, update, response, client, answer)

    def fence(self, shard: GroupShard, group: G, member: Any, why: str) -> bool:
        """Remove a member that is taken for dead, and return whether that could be written."""
        logger.info("member fenced", group=group.group_id, member=member.member_id, why=why)
        update: U = self.update_type(group, self._services.image())
        self.remove(update, [member], why)
        return self.writer.write(shard, update, ignore)

    # --- with the partition (see `GroupLifecycle`) ---

    def loaded(self, shard: GroupShard, group: Any) -> None:
        """Start the timers of a group's members: this broker coordinates it from now on."""
        for member in group.members.values():
            self.sessions.start(shard, group, member)
        self.writer.index.refresh(group)

    def unloaded(self, shard: GroupShard, group: Any) -> None:
        """Stop the timers of a group; the log answers the requests that wait for replicas."""
        self.end(group, group.members.values())

    def end(self, group: G, members: Iterable[Any]) -> None:
        """Stop the timers of a group that this broker no longer coordinates, or that has become one of another kind."""
        for member in members:
            self.sessions.stop(member)
        self.writer.index.forget(group)

    # --- the request ---

    @abstractmethod
    def _check_request(self, request: Any, version: int) -> None:
        """Check a heartbeat by itself.

        Raises:
            CoordinatorError: INVALID_REQUEST, or UNSUPPORTED_ASSIGNOR.
        """

    @abstractmethod
    def _check_in(self, shard: GroupShard, request: Any) -> None:
        """Check a heartbeat that does not leave, before its group is looked for or made.

        Raises:
            CoordinatorError: with the error code of the answer.
        """

    def _check_names(self, shard: GroupShard, names: list[str]) -> None:
        """Check that a member's record can hold the names of its topics.

        Raises:
            CoordinatorError: INVALID_REQUEST.
        """
        if sum(map(len, names)) > self._services.log.max_batch_bytes(shard.tp):
            message = f"the names of {len(names)} topics are too long for a record of {shard.tp}"
            raise CoordinatorError(ErrorCode.INVALID_REQUEST, message)

    # --- the group ---

    def _group(self, shard: GroupShard, request: Any) -> G:
        """Return the group; a new one, which enters the shard with its records, if a member joins.

        Raises:
            CoordinatorError: GROUP_ID_NOT_FOUND, also for a group of another kind that is not converted;
                GROUP_MAX_SIZE_REACHED: the shard has as many groups as it may.
        """
        self._check_in(shard, request)
        group_id = request.group_id
        group: Any = shard.groups.get(group_id)
        if isinstance(group, self.group_type):
            found: G = group
            return found
        if request.member_epoch != JOINS:
            raise self._no_group(group_id)
        converted = self._convert(shard, group_id, group)
        if converted is not None:
            return converted
        shard.check_group_count(self._services.config.max_groups)
        made: G = self.group_type(group_id)
        return made

    @abstractmethod
    def _convert(self, shard: GroupShard, group_id: str, other: Group | None) -> G | None:
        """Make a group of another kind one of this kind, or end it if it is empty; None: a new group can be made.

        Raises:
            CoordinatorError: with the error code of the answer.
        """

    def _found(self, shard: GroupShard, group_id: str) -> G:
        """Return a group that exists.

        Raises:
            CoordinatorError: GROUP_ID_NOT_FOUND, also for a group of another kind.
        """
        group: Any = shard.groups.get(group_id)
        if not isinstance(group, self.group_type):
            raise self._no_group(group_id)
        found: G = group
        return found

    def _no_group(self, group_id: str) -> CoordinatorError:
        return CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no {self.group_type.type} group {group_id}")

    # --- the member ---

    @abstractmethod
    def _identify(self, group: G, request: Any) -> Sender:
        """Return the sender of a heartbeat that does not leave the group.

        Raises:
            CoordinatorError: UNKNOWN_MEMBER_ID; FENCED_MEMBER_EPOCH; GROUP_MAX_SIZE_REACHED.
        """

    def _known(self, member: Any, request: Any) -> Sender:
        """Return a member, if it sends an epoch that it can be in: it may join at any time (KAFKA-19233).

        Raises:
            CoordinatorError: FENCED_MEMBER_EPOCH.
        """
        current, epoch = member.current, request.member_epoch
        if epoch not in (JOINS, current.epoch) and not self._missed_an_answer(current, request):
            message = f"member {member.member_id} is in epoch {current.epoch}, not in {epoch}: join again"
            raise CoordinatorError(ErrorCode.FENCED_MEMBER_EPOCH, message)
        return Sender(member.member_id, current, member.subscription)

    def _missed_an_answer(self, current: Any, request: Any) -> bool:
        """Return whether the member still sends the epoch before: it has not had the answer with the new one."""
        epoch: int = request.member_epoch
        return bool(epoch == current.previous_epoch and epoch < current.epoch)

    @staticmethod
    def _check_size(group: G, max_size: int) -> None:
        """Check that a group may have one more member.

        Raises:
            CoordinatorError: GROUP_MAX_SIZE_REACHED.
        """
        if len(group.members) >= max_size:
            message = f"group {group.group_id} has {max_size} members, the most that it may have"
            raise CoordinatorError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)

    def _leave(self, shard: GroupShard, request: Any, client: HeartbeatClient) -> None:
        update: U = self.update_type(self._found(shard, request.group_id), self._services.image())
        member_id = self._put_leave(update, request)
        response = self.messages.response(member_id=member_id, member_epoch=request.member_epoch)
        self.writer.write(shard, update, self._when_committed(response, client, client.answer), client=client.client_id)

    def _put_leave(self, update: U, request: Any) -> str:
        """Note that a member leaves; return its id.

        Raises:
            CoordinatorError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID.
        """
        member_id: str = request.member_id
        self.remove(update, [update.group.known(member_id)])
        return member_id

    def remove(self, update: U, members: Collection[Any], cause: str = "leave") -> None:
        """Remove members; the others share their partitions from their next heartbeats on.

        Args:
            cause: why, in a few words.
        """
        for member in members:
            update.remove_member(member.member_id)
        self._begin_epoch_without(update)
        self._note(update, cause, [member.subscription.client_id or member.member_id for member in members])
        update.assign_to_nobody(self._services.clock.wall_ms())

    def _note(self, update: U, cause: str, names: Sequence[str]) -> None:
        """Keep for people that a new epoch begins, and why: these members have come, gone or changed."""
        now_ms, group = self._services.clock.now_ms(), update.group
        began = Rebalance(now_ms, update.epoch, len(group.members), cause, named(names))
        self._services.history.note(group.group_id, began)

    def _begin_epoch_without(self, update: U) -> None:
        """Begin an epoch of a group that has fewer members."""
        update.bump_epoch(update.metadata_hash())

    # --- the subscription ---

    @abstractmethod
    def _subscription_of(self, shard: GroupShard, sender: Sender, request: Any, client: HeartbeatClient) -> Any:
        """Return a member's subscription as of a request, in which null means "as before"; the same one if it is.

        Raises:
            CoordinatorError: INVALID_REQUEST: it has too many names.
        """

    def subscribe(self, update: U, sender: Sender, subscription: Any) -> bool:
        """Write a member's subscription if it is new, and settle the group; see `settle`.

        Raises:
            CoordinatorError: INVALID_REGULAR_EXPRESSION; GROUP_MAX_SIZE_REACHED if there is no memory for it.
        """
        before, is_other = sender.subscription, False
        if subscription is not before:
            self._check_room(update.group, sender, subscription)
            is_other = before is None or self._wants(before) != self._wants(subscription)
            self._put_subscription(update, sender, subscription, is_other=is_other)
        is_left = self.settle(update, is_needed=is_other)
        if update.begins_epoch:
            cause = "topics changed" if not is_other else "join" if before is None else "other subscription"
            self._note(update, cause, [subscription.client_id or sender.member_id] if is_other else [])
        return is_left

    def _check_room(self, group: G, sender: Sender, subscription: Any) -> None:
        """Check that there is memory for a member's subscription.

        Raises:
            CoordinatorError: GROUP_MAX_SIZE_REACHED.
        """
        more_bytes = group.subscription_bytes(subscription)
        if sender.subscription is None:
            more_bytes += MEMBER_BYTES + text_bytes(sender.member_id)
        else:
            more_bytes -= group.subscription_bytes(sender.subscription)
        self._services.check_room(more_bytes)

    def _wants(self, subscription: Any) -> object:
        """Return the parts of a subscription that decide about a member's assignment."""
        return subscription.subscribed_topic_names

    def _put_subscription(self, update: U, sender: Sender, subscription: Any, *, is_other: bool) -> None:
        """Write a member's subscription if it is new.

        Args:
            is_other: whether it changes what the member may be assigned.
        """
        if subscription != sender.subscription:
            update.put_member(sender.member_id, subscription)

    # --- the epoch, and its target assignment ---

    def settle(self, update: U, *, is_needed: bool) -> bool:
        """Begin an epoch and make the target assignment, each if it is due.

        Args:
            is_needed: whether members or subscriptions change, so that an epoch is.

        Returns:
            Whether the target assignment is due, but left to a later turn of the event loop: the topics are very many.
        """
        group = update.group
        if is_needed or group.is_stale:
            self._look(update, is_needed=is_needed)
        if update.epoch <= update.target_epoch or not self._is_due(group):
            return False
        if update.topic_count > TOPICS_AT_ONCE:
            return True
        update.assign(self._services.clock.wall_ms())
        return False

    @abstractmethod
    def _look(self, update: U, *, is_needed: bool) -> None:
        """Begin an epoch if it is needed, or if there is more or less to assign than at the last one."""

    def _is_due(self, group: G) -> bool:
        """Return whether a target assignment may be made now: in a large group, not for each member that comes or goes.

        The group has a shortest time between two (KIP-1263), which is `_assignment_interval_ms`.
        """
        if group.assigned_ms is None:
            return True
        interval_ms, size = self._assignment_interval_ms(group), len(group.members)
        if size > MEMBERS_ASSIGNED_AT_ONCE:
            interval_ms = max(interval_ms, size * ASSIGNMENT_MS_PER_MEMBER)
        return self._services.clock.now_ms() - group.assigned_ms >= interval_ms

    def _assignment_interval_ms(self, group: G) -> int:
        return 0

    # --- the member's assignment ---

    @abstractmethod
    def follow(self, update: U, sender: Sender, subscription: Any) -> Any:
        """Return the member's assignment from now on, a step towards its target, and write it if it is new."""

    @abstractmethod
    def _is_full(self, request: Any, sender: Sender, following: Any) -> bool:
        """Return whether the answer must have the assignment, though it may be no other: the member may not know it."""

    def _assignment(self, current: Any) -> Any:
        return self.messages.assignment(topic_partitions=to_wire(current.assigned, self.messages.topic_partitions))

    # --- the answer ---

    def _when_assignable(self, update: U, subscription: Any, client: HeartbeatClient) -> Answer:
        """Return what is called with the answer when the update is committed: it may wait for partitions to assign."""
        return client.answer

    def _answer(self, shard: GroupShard, update: U, response: Any, client: HeartbeatClient, answer: Answer) -> None:
        """Write the changes, let the member live on, and answer when these, and all before them, are committed."""
        group, sessions = update.group, self.sessions

        def applied() -> None:
            sessions.renew(shard, group, group.members[response.member_id])
            response.heartbeat_interval_ms = sessions.heartbeat_interval_ms(group)

        done = self._when_committed(response, client, answer)
        if update.changes:
            self.writer.write(shard, update, done, applied=applied, client=client.client_id)
        else:
            applied()
            self.writer.when_committed(shard, group, done, client=client.client_id)

    def _when_committed(self, response: Any, client: HeartbeatClient, answer: Answer) -> Committed:
        """Return what answers with the response, or with an error if it cannot be committed."""

        def done(error_code: ErrorCode) -> None:
            if error_code:
                client.answer(self.messages.response(error_code=error_code))
            else:
                answer(response)

        return done

    def _answer_with_all(self, shard: GroupShard, member: Any, update: U, client: HeartbeatClient) -> None:
        """Answer a member with its whole assignment."""
        sender = Sender(member.member_id, member.current, member.subscription)
        following = self.follow(update, sender, member.subscription)
        response = self.messages.response(member_id=member.member_id, member_epoch=following.epoch)
        response.assignment = self._assignment(following)
        self._answer(shard, update, response, client, client.answer)

    def refusal(self, error: CoordinatorError) -> Any:
        """Return the answer to a heartbeat that is refused."""
        return self.messages.response(error_code=error.error_code, error_message=str(error))

    # --- the target assignment of a group of very many topics ---

    def _assign_later(self, shard: GroupShard, update: U, member_id: str, client: HeartbeatClient) -> None:
        """Write the changes, the epoch among them, and have the target assignment made in steps; then answer."""
        if update.changes:
            failures: list[ErrorCode] = []
            if not self.writer.write(shard, update, failures.append, client=client.client_id):
                client.answer(self.messages.response(error_code=failures[0]))
                return
        client.later(self._assign_in_steps(update.group.group_id, member_id, client))

    def _assign_in_steps(self, group_id: str, member_id: str, client: HeartbeatClient) -> Steps:
        """Make the target assignment, if no other member did, and answer a member.

        If the group changes all the time, the member is answered without it: a later heartbeat makes the assignment.
        """
        yield 0
        try:
            for _ in range(ASSIGNMENT_TRIES):
                shard, member, update = self._update_of(group_id, member_id)
                group, nth = update.group, update.group.appended
                is_same = goes_on = True
                steps = update.assign_in_steps(self._services.clock.wall_ms()) if _is_behind(update) else iter(())
                while goes_on and is_same:
                    cost, goes_on = take_slice(steps)
                    yield 1 + cost
                    is_same = self._is_kept(group) and group.appended == nth
                if is_same:
                    break
            else:
                shard, member, update = self._update_of(group_id, member_id)
            self._answer_with_all(shard, member, update, client)
        except CoordinatorError as error:
            client.answer(self.refusal(error))

    def _is_kept(self, group: G) -> bool:
        """Return whether this broker still coordinates a group.

        Raises:
            CoordinatorError: it coordinates none of the groups of that partition.
        """
        return self._coordinator.shard_of(group.group_id).groups.get(group.group_id) is group

    def _update_of(self, group_id: str, member_id: str) -> tuple[GroupShard, Any, U]:
        """Return an update of a group, and one of its members.

        Raises:
            CoordinatorError: one of them is gone, or the group has another coordinator.
        """
        shard = self._coordinator.shard_of(group_id)
        group = self._found(shard, group_id)
        return shard, group.known(member_id), self.update_type(group, self._services.image())


def _is_behind(update: ModernUpdate[Any, Any]) -> bool:
    """Return whether the group's epoch has no target assignment yet."""
    return update.epoch > update.target_epoch
