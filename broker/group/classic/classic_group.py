"""The state of one classic group. It changes by these methods only, and they answer and write nothing."""

from __future__ import annotations

from typing import ClassVar, Final

from purgatorio.broker.causes.cause import AwaitedMember
from purgatorio.broker.causes.words import MAX_NAMED, shortened
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.coordinator.shard import ShardState
from purgatorio.broker.group.classic.member import TRANSITIONS, ClassicGroupMember, GroupState, JoinReply, Protocols
from purgatorio.broker.group.delayed_heartbeat import DelayedHeartbeat
from purgatorio.broker.group.group import Group, GroupType
from purgatorio.broker.group.memory import MEMBER_BYTES, text_bytes
from purgatorio.broker.group.shard import GroupShard
from purgatorio.protocol.consumer_offsets import GroupMetadataKey, Key
from purgatorio.protocol.consumer_protocol import CONSUMER_PROTOCOL_TYPE, SUBSCRIPTION
from purgatorio.protocol.errors import DecodeError, ErrorCode
from purgatorio.protocol.messages.join_group import JoinGroupResponseMember

MIN_REBALANCE_TIMEOUT_MS: Final = 1_000
"""The shortest rebalance timeout; a request may ask for less, even for 0, in which no client could answer."""


class ClassicGroup(Group):
    """A group whose members assign the partitions among themselves.

    Attributes:
        shard: the partition that keeps it.
        state_ms: the wall time of the last change of state; -1 if the record that was loaded does not have it.
        generation: counts the rebalances.
        protocol_type: ``consumer``, ``connect``, …; empty until the first member comes.
        protocol: the assignor that this generation uses; None while there is none.
        leader_id: the member that makes the assignment; None if there are no members.
        members: by member id, in the order of joining.
        instances: the member ids of static members by instance id.
        pending: member ids that were given out and have not joined yet (KIP-394), with their sessions.
        unsynced: the members of this generation that have not asked for their assignment yet.
        last_joined: the member whose join was parked last.
        has_newcomers: a member has come since the initial delay began (KIP-134).
        is_logged: a record of it is in the log, so that its end needs a tombstone.
    """

    __slots__ = (
        "_subscribed",
        "_supporters",
        "generation",
        "has_newcomers",
        "instances",
        "is_logged",
        "joined_count",
        "last_joined",
        "leader_id",
        "members",
        "pending",
        "protocol",
        "protocol_type",
        "shard",
        "state",
        "state_ms",
        "unsynced",
    )

    type: ClassVar[GroupType] = "classic"

    def __init__(self, group_id: str, shard: GroupShard, *, state_ms: int) -> None:
        super().__init__(group_id)
        self.shard = shard
        self.state = GroupState.EMPTY
        self.state_ms = state_ms
        self.generation = 0
        self.protocol_type: str = ""
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.instances: dict[str, str] = {}
        self.pending: dict[str, DelayedHeartbeat] = {}
        self.unsynced: dict[str, None] = {}
        self.last_joined: ClassicGroupMember | None = None
        self.has_newcomers = False
        self.is_logged = False
        self.joined_count = 0
        self._supporters: dict[str, int] = {}  # by assignor, the number of members that support it
        self._subscribed: tuple[int, frozenset[str] | None] | None = None  # of a generation

    # --- as a `Group` ---

    @property
    def state_name(self) -> str:
        """The state, as ListGroups names it."""
        return self.state.value

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return self.state is GroupState.EMPTY

    def record_keys(self) -> list[Key]:
        return [GroupMetadataKey(group_id=self.group_id)]

    @property
    def is_alive(self) -> bool:
        """Whether this broker still coordinates the group, so that a timer may change it."""
        return self.state is not GroupState.DEAD and self.shard.state is not ShardState.UNLOADED

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest wait for members to join again: the maximum of theirs, and never too short for an answer."""
        longest_ms = max((member.rebalance_timeout_ms for member in self.members.values()), default=0)
        return max(longest_ms, MIN_REBALANCE_TIMEOUT_MS)

    @property
    def has_all_joined(self) -> bool:
        """Whether the join of every member is parked, and no member id is given out that may join yet."""
        return self.joined_count == len(self.members) and not self.pending

    # --- changes ---

    def move_to(self, state: GroupState, wall_ms: int) -> None:
        """Change the state."""
        assert state in TRANSITIONS[self.state], f"group {self.group_id}: {self.state} -> {state}"
        self.state = state
        self.state_ms = wall_ms

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member; the first one is the leader."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._count(member.protocols, 1)
        self._recount(member)

    def remove(self, member_id: str) -> ClassicGroupMember:
        """Remove a member; the leadership passes on to the oldest one."""
        member = self.members.pop(member_id)
        if member.join is not None:
            self.joined_count -= 1
        if member.instance_id is not None and self.instances.get(member.instance_id) == member_id:
            del self.instances[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self._count(member.protocols, -1)
        self.memory.change(-member.counted_bytes)
        member.counted_bytes = 0
        self.unsynced.pop(member_id, None)
        return member

    def rename(self, member: ClassicGroupMember, member_id: str) -> None:
        """Give a static member another member id; its place among the members, and the leadership, stay its own."""
        old_id = member.member_id
        member.member_id = member_id
        self.members = {each.member_id: each for each in self.members.values()}
        if member.instance_id is not None:
            self.instances[member.instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if old_id in self.unsynced:
            self.unsynced = {(member_id if each == old_id else each): None for each in self.unsynced}
        self._recount(member)

    def update(
        self, member: ClassicGroupMember, protocols: Protocols, *, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Take over the protocols and timeouts of a member that joins again."""
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        if member.session is not None and not member.is_new:
            member.session.session_timeout_ms = session_timeout_ms
        self._recount(member)

    def assign(self, member: ClassicGroupMember, assignment: bytes) -> None:
        """Keep the leader's assignment to a member; empty when a generation begins."""
        member.assignment = assignment
        self._recount(member)

    def _recount(self, member: ClassicGroupMember) -> None:
        size_bytes = member.size_bytes
        self.memory.change(size_bytes - member.counted_bytes)
        member.counted_bytes = size_bytes

    def expect(self, member_id: str, session: DelayedHeartbeat) -> None:
        """Note a member id that was given out."""
        self.pending[member_id] = session
        self.memory.change(_pending_bytes(member_id, session))

    def expect_no_more(self, member_id: str) -> DelayedHeartbeat | None:
        """Forget a member id that was given out; returns its session, which the caller ends, or None."""
        session = self.pending.pop(member_id, None)
        if session is not None:
            self.memory.change(-_pending_bytes(member_id, session))
        return session

    def park_join(self, member: ClassicGroupMember, reply: JoinReply) -> JoinReply | None:
        """Park a join; return the earlier parked join of the same member, which the caller answers."""
        before, member.join = member.join, reply
        if before is None:
            self.joined_count += 1
        self.last_joined = member
        return before

    def take_join(self, member: ClassicGroupMember) -> JoinReply | None:
        """Take out a member's parked join, which the caller answers."""
        reply, member.join = member.join, None
        if reply is not None:
            self.joined_count -= 1
        return reply

    def next_generation(self, wall_ms: int) -> None:
        """Begin the next generation with the members that there are now."""
        self.generation += 1
        self.unsynced = dict.fromkeys(self.members)
        if self.members:
            self.protocol = self.vote()
            self.move_to(GroupState.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol = None
            self.move_to(GroupState.EMPTY, wall_ms)

    def _count(self, protocols: Protocols, step: int) -> None:
        supporters = self._supporters
        for name in dict.fromkeys(name for name, _ in protocols):
            supporters[name] = supporters.get(name, 0) + step
            if not supporters[name]:
                del supporters[name]
        self._subscribed = None

    # --- protocols ---

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols can join: all members need one in common."""
        if not self.members:
            return bool(protocol_type and protocols)
        everyone = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._supporters.get(name, 0) == everyone for name, _ in protocols
        )

    def vote(self) -> str:
        """Choose the assignor of the next generation: each member votes for the first of its own that all support."""
        everyone = len(self.members)
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = next(name for name, _ in member.protocols if self._supporters[name] == everyone)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def listed_members(self) -> list[JoinGroupResponseMember]:
        """Return all members with their subscriptions, for the leader."""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol),
            )
            for member in self.members.values()
        ]

    def subscribes_to(self, topic: str) -> bool:
        """Return whether a member consumes the topic; true if the members' subscriptions cannot be read."""
        if self._subscribed is None or self._subscribed[0] != self.generation:
            self._subscribed = self.generation, self._read_subscriptions()
        topics = self._subscribed[1]
        return topics is None or topic in topics

    def _read_subscriptions(self) -> frozenset[str] | None:
        """Read the topics, which all versions begin with: platformatic/kafka 1 says version 1 and writes version 0."""
        if not self.members:
            return frozenset()
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or self.protocol is None:
            return None
        try:
            return frozenset(
                topic
                for member in self.members.values()
                for topic in SUBSCRIPTION.decode(member.metadata(self.protocol), as_version=0).topics
            )
        except DecodeError:
            return None

    # --- checks ---

    def find(self, member_id: str, instance_id: str | None = None) -> ClassicGroupMember:
        """Return the member that a request names.

        Raises:
            CoordinatorError: COORDINATOR_NOT_AVAILABLE for a dead group; FENCED_INSTANCE_ID if another member has the
                instance id (KIP-345); UNKNOWN_MEMBER_ID.
        """
        if self.state is GroupState.DEAD:
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {self.group_id} is dead")
        if instance_id is not None:
            holder = self.instances.get(instance_id)
            if holder is None:
                raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has instance id {instance_id}")
            if holder != member_id:
                raise CoordinatorError(ErrorCode.FENCED_INSTANCE_ID, f"another member has instance id {instance_id}")
        member = self.members.get(member_id)
        if member is None:
            raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has id {member_id}")
        return member

    def check_generation(self, generation: int) -> None:
        """Check the generation of a member's request.

        Raises:
            CoordinatorError: ILLEGAL_GENERATION.
        """
        if generation != self.generation:
            raise CoordinatorError(
                ErrorCode.ILLEGAL_GENERATION, f"this is generation {self.generation}, not {generation}"
            )

    def check_commit(self, member_id: str, instance_id: str | None, generation_or_epoch: int, version: int) -> None:
        """Let a client that is no member commit while the group is empty, besides the members of this generation."""
        if self.is_empty and generation_or_epoch < 0:
            return
        if generation_or_epoch < 0 and not member_id and instance_id is None:
            raise CoordinatorError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id} has members: only they may commit"
            )
        member = self.find(member_id, instance_id)
        self.check_generation(generation_or_epoch)
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise CoordinatorError(ErrorCode.REBALANCE_IN_PROGRESS, "the members wait for their assignment")
        member.beat()

    def _check_member(self, member_id: str, instance_id: str | None, generation_or_epoch: int) -> None:
        self.find(member_id, instance_id)
        self.check_generation(generation_or_epoch)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Let every client read the offsets of a classic group."""

    def check_delete(self) -> None:
        if self.state is GroupState.DEAD:
            raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {self.group_id} is dead")
        if not self.is_empty:
            raise CoordinatorError(ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id} has {len(self.members)} members")

    def offset_expires_from_ms(self, topic: str, commit_ms: int) -> int | None:
        """Return the time from which an offset is kept for the retention time (KIP-211).

        Offsets of an empty group expire from the time at which it became empty; of a group that has never had members,
        from their commit; of a stable group of consumers, from their commit if no member subscribes to the topic.
        """
        if self.state is GroupState.EMPTY:
            return self.state_ms if self.protocol_type and self.state_ms >= 0 else commit_ms
        is_stable = self.state is GroupState.STABLE and self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return commit_ms if is_stable and not self.subscribes_to(topic) else None

    # --- for observers ---

    def label(self, member: ClassicGroupMember) -> str:
        """Return a member's name for people: its instance id, or its client id if no other member has the same."""
        if member.instance_id is not None:
            return shortened(member.instance_id)
        same = sum(each.client_id == member.client_id for each in self.members.values())
        return shortened(member.client_id if member.client_id and same == 1 else member.member_id)

    def named(self, member: ClassicGroupMember) -> AwaitedMember:
        """Return a member with its name for people."""
        return AwaitedMember(member.member_id, self.label(member))

    def awaited(self, members: list[ClassicGroupMember]) -> tuple[tuple[AwaitedMember, ...], int]:
        """Return the first of these members with their names, and how many there are beside these."""
        first = tuple(map(self.named, members[:MAX_NAMED]))
        return first, len(members) - len(first)


def _pending_bytes(member_id: str, session: DelayedHeartbeat) -> int:
    return MEMBER_BYTES + text_bytes(member_id, session.client)
