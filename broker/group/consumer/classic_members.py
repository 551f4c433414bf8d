"""Members of the classic protocol in consumer groups, while a group goes from one protocol to the other (KIP-848).

JoinGroup, SyncGroup, Heartbeat and LeaveGroup work as the members know them: the generation is the member's epoch, no
member leads, and SyncGroup gives what the coordinator has assigned. A heartbeat asks the member to join again when it
is behind, has partitions to give up, or can get more. A group becomes a consumer group when the first member of that
protocol joins, and a classic group again when the last one has gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from purgatorio.broker.coordinator.coordinator_log import ignore
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.classic_groups import ClassicGroups
from purgatorio.broker.group.classic.joins import MEMBER_ID_REQUIRED_VERSION, Join
from purgatorio.broker.group.classic.member import ClassicGroupMember, JoinReply, SyncReply
from purgatorio.broker.group.classic.rebalances import join_error
from purgatorio.broker.group.classic.records import group_record
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup, check_generation
from purgatorio.broker.group.consumer.consumer_groups import ConsumerGroups
from purgatorio.broker.group.consumer.conversion import (
    by_topic_id,
    classic_protocols,
    downgraded,
    member_record,
    read_subscription,
    removal_of,
    upgraded,
    write_assignment,
)
from purgatorio.broker.group.consumer.member import NOTHING_YET, ConsumerGroupMember, CurrentAssignment, MemberState
from purgatorio.broker.group.consumer.records import ConsumerUpdate
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.modern.modern_groups import Sender
from purgatorio.broker.group.modern.partitions import NO_PARTITIONS, minus
from purgatorio.broker.group.services import GroupServices, random_uuid
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.routing.request import RequestContext
from purgatorio.logger import get_logger
from purgatorio.protocol.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from purgatorio.protocol.messages.leave_group import MemberIdentity
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = get_logger(__name__)

Found = tuple[GroupShard, ConsumerGroup]


class ClassicMembers:
    """Handles the requests of the classic protocol in consumer groups that have members."""

    def __init__(self, services: GroupServices, classic: ClassicGroups, consumers: ConsumerGroups) -> None:
        self._services = services
        self._classic = classic
        self._consumers = consumers
        if services.config.upgrades:
            consumers.upgrade = self.upgrade
        if services.config.downgrades:
            consumers.writer.only_classic_left = self.downgrade

    # --- requests ---

    def join(
        self, shard: GroupShard, group: ConsumerGroup, ctx: RequestContext, request: JoinGroupRequest, reply: JoinReply
    ) -> None:
        """Let a member join; answers at once, or when the changes are committed.

        Raises:
            CoordinatorError: with the error code of the answer.
        """
        join = self._classic.read_join(shard, ctx, request, reply)
        self._check_join(group, join)
        if join.instance_id is None and not join.member_id and join.version >= MEMBER_ID_REQUIRED_VERSION:
            reply(join_error(self._new_member_id(join), ErrorCode.MEMBER_ID_REQUIRED))
            return
        image = self._services.image()
        subscription = read_subscription(join.protocols)
        sender = self._sender(group, join)
        sender = sender._replace(reported=by_topic_id(subscription.owned_partitions, image))
        as_member = ClassicGroupMember(
            member_id=sender.member_id,
            instance_id=join.instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.session_timeout_ms,
            protocols=join.protocols,
        )
        update = ConsumerUpdate(group, image)
        record = member_record(as_member, subscription)
        self._consumers.subscribe(update, sender, record)
        following = self._consumers.follow(update, sender, record)
        self._answer_join((shard, group), update, join, following, sender.member_id)

    def sync(
        self, shard: GroupShard, group: ConsumerGroup, ctx: RequestContext, request: SyncGroupRequest, reply: SyncReply
    ) -> None:
        """Give a member its assignment; see `ClassicGroups.sync`.

        Raises:
            CoordinatorError: with the error code of the answer.
        """
        member = _find(group, request.member_id, request.group_instance_id)
        check_generation(member, request.generation_id)
        protocols = classic_protocols(member)
        name = protocols[0][0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
            raise CoordinatorError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the member uses {name}")
        if member.current.epoch < group.epoch and member.current.state is not MemberState.UNREVOKED:
            self._consumers.sessions.expect(shard, group, member, "it has not joined again")
            raise CoordinatorError(ErrorCode.REBALANCE_IN_PROGRESS, "the member has to join again")
        self._consumers.sessions.expect_no_more(member)
        self._consumers.sessions.renew(shard, group, member)
        assignment = write_assignment(member.current.assigned, protocols, self._services.image())
        response = SyncGroupResponse(protocol_type=CONSUMER_PROTOCOL_TYPE, protocol_name=name, assignment=assignment)

        def done(error_code: ErrorCode) -> None:
            reply(SyncGroupResponse(error_code=error_code) if error_code else response)

        self._consumers.writer.when_committed(shard, group, done, client=ctx.client_id or "")

    def heartbeat(self, shard: GroupShard, group: ConsumerGroup, request: HeartbeatRequest) -> None:
        """Count a sign of life of a member; see `ClassicGroups.heartbeat`.

        Raises:
            CoordinatorError: with the error code of the answer; REBALANCE_IN_PROGRESS if the member has to join again.
        """
        member = _find(group, request.member_id, request.group_instance_id)
        check_generation(member, request.generation_id)
        self._consumers.sessions.renew(shard, group, member)
        if _has_to_join(group, member):
            self._consumers.sessions.expect(shard, group, member, "it has not joined again")
            raise CoordinatorError(ErrorCode.REBALANCE_IN_PROGRESS, "the member has to join again")

    def leave(self, shard: GroupShard, group: ConsumerGroup, leaving: Sequence[MemberIdentity]) -> list[ErrorCode]:
        """Remove members; see `ClassicGroups.leave`.

        Returns:
            An error code for each.

        Raises:
            CoordinatorError: none was removed: with the error code of the answer.
        """
        results = []
        members: dict[str, ConsumerGroupMember] = {}
        for each in leaving:
            try:
                member = _leaving(group, each)
                members[member.member_id] = member
                results.append(ErrorCode.NONE)
            except CoordinatorError as error:
                results.append(error.error_code)
        if members:
            update = ConsumerUpdate(group, self._services.image())
            self._consumers.remove(update, members.values())
            if not self._consumers.writer.write(shard, update, ignore):
                raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the change could not be written")
        return results

    # --- from one protocol to the other ---

    def upgrade(self, shard: GroupShard, group: Group) -> ConsumerGroup:
        """Make a classic group a consumer group; its members are asked to join again by their heartbeats.

        Raises:
            CoordinatorError: GROUP_ID_NOT_FOUND: it cannot be one; COORDINATOR_NOT_AVAILABLE: that could not be
                written.
        """
        if not isinstance(group, ClassicGroup):
            raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group.group_id} is a {group.type} group")
        config = self._services.config
        update = upgraded(group, self._services.image(), max_size=config.consumer_max_size)

        def applied() -> None:
            self._classic.rebalances.answer_joins(group, ErrorCode.REBALANCE_IN_PROGRESS)
            self._classic.rebalances.answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
            self._classic.unloaded(shard, group)
            for member in update.group.members.values():
                self._consumers.sessions.renew(shard, update.group, member)

        if not self._consumers.writer.write(shard, update, ignore, applied=applied):
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group could not be converted")
        logger.info("group upgraded to the consumer protocol", group=group.group_id, members=len(group.members))
        return update.group

    def downgrade(self, shard: GroupShard, group: ConsumerGroup) -> None:
        """Make a consumer group with classic members only a classic group, and have them join again."""
        image = self._services.image()
        classic, assignments = downgraded(shard, group, image, self._services.clock.wall_ms())
        records = [change.encode() for change in removal_of(group, image)]
        members = list(group.members.values())

        def applied() -> None:
            self._consumers.end(group, members)
            shard.put(classic)
            for member in classic.members.values():
                self._classic.rebalances.start_session(classic, member)

        # If it cannot be written, this broker is no leader, or will be asked to remove the next member.
        if self._services.log.append(shard.tp, [*records, group_record(classic, assignments)], ignore, applied=applied):
            logger.info("group downgraded to the classic protocol", group=group.group_id, members=len(members))
            self._classic.rebalances.prepare(classic, "its last member of the consumer protocol has gone")

    # --- joins ---

    def _check_join(self, group: ConsumerGroup, join: Join) -> None:
        config = self._services.config
        if not config.min_session_timeout_ms <= join.session_timeout_ms <= config.max_session_timeout_ms:
            message = f"a session timeout of {join.session_timeout_ms} ms is not allowed"
            raise CoordinatorError(ErrorCode.INVALID_SESSION_TIMEOUT, message)
        common = {name for name, _ in join.protocols}
        for member in group.members.values():
            if member.is_classic:
                common.intersection_update(name for name, _ in classic_protocols(member))
        if join.protocol_type != CONSUMER_PROTOCOL_TYPE or not common:
            message = "the members of a group need one type, and a protocol in common"
            raise CoordinatorError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)

    def _sender(self, group: ConsumerGroup, join: Join) -> Sender:
        """Return the member that joins.

        Raises:
            CoordinatorError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or GROUP_MAX_SIZE_REACHED.
        """
        if join.instance_id is not None:
            holder_id = group.static_members.get(join.instance_id)
            if join.member_id:
                member = group.static_member(join.instance_id, join.member_id)
                return Sender(member.member_id, member.current, member.subscription)
            if holder_id is not None:
                holder = group.members[holder_id]
                taken_over = CurrentAssignment(assigned=holder.current.assigned)
                return Sender(self._new_member_id(join), taken_over, holder.subscription, replaces=holder_id)
        known = group.members.get(join.member_id)
        if known is not None:
            return Sender(known.member_id, known.current, known.subscription)
        if len(group.members) >= self._services.config.consumer_max_size:
            raise CoordinatorError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {group.group_id} has the most members")
        return Sender(join.member_id or self._new_member_id(join), NOTHING_YET, None)

    def _new_member_id(self, join: Join) -> str:
        return f"{join.instance_id or join.client_id}-{random_uuid(self._services.rng)}"

    def _answer_join(
        self, found: Found, update: ConsumerUpdate, join: Join, following: CurrentAssignment, member_id: str
    ) -> None:
        shard, group = found
        sessions = self._consumers.sessions
        response = JoinGroupResponse(
            generation_id=following.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=join.protocols[0][0],
            member_id=member_id,
        )

        def applied() -> None:
            current = shard.groups.get(group.group_id)
            if current is not group:
                return  # a member of the classic protocol took the place of the last other one
            member = group.members[member_id]
            sessions.expect_no_more(member)
            sessions.renew(shard, group, member)
            sessions.expect(shard, group, member, "it has not synced")

        def done(error_code: ErrorCode) -> None:
            join.reply(join_error(member_id, error_code) if error_code else response)

        if update.changes:
            self._consumers.writer.write(shard, update, done, applied=applied, client=join.client_id)
        else:
            applied()
            self._consumers.writer.when_committed(shard, group, done, client=join.client_id)


def _find(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
    """Return the classic member that a request names.

    Raises:
        CoordinatorError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    if instance_id is not None:
        group.static_member(instance_id, member_id)
    member = group.members.get(member_id)
    if member is None or not member.is_classic:
        raise group.unknown(member_id)
    return member


def _leaving(group: ConsumerGroup, leaving: MemberIdentity) -> ConsumerGroupMember:
    """Return the member that shall leave, of either protocol; an administrator names static ones without an id."""
    instance_id = leaving.group_instance_id
    if instance_id is not None:
        return group.static_member(instance_id, leaving.member_id or group.static_members.get(instance_id, ""))
    return group.known(leaving.member_id)


def _has_to_join(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Whether the member is behind, has partitions to give up, or waits for some that are all free now."""
    current = member.current
    if current.epoch < group.epoch or current.state is MemberState.UNREVOKED:
        return True
    if current.state is not MemberState.UNRELEASED:
        return False
    missing = minus(group.target.get(member.member_id, NO_PARTITIONS), current.assigned)
    return group.owners.free(missing, member.member_id) == missing
