"""Groups as observers see them, whatever their protocol: for the page, the JSON API and the commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from purgatorio.broker.causes.words import MAX_NAMED, in_words, listed
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.member import ClassicGroupMember, GroupState
from purgatorio.broker.group.classic.rebalances import JoinKey, SyncKey
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.member import LEFT_FOR_A_WHILE, ConsumerGroupMember, MemberState
from purgatorio.broker.group.consumer.records import choose_assignor
from purgatorio.broker.group.delayed_heartbeat import DelayedHeartbeat
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.modern.modern_group import ModernGroupMember
from purgatorio.broker.group.modern.partitions import Partitions
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.group.share.assignor import NAME as SHARE_ASSIGNOR
from purgatorio.broker.group.share.delayed_initialization import not_initialized
from purgatorio.broker.group.share.share_group import ShareGroup, ShareGroupMember
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.consumer_protocol import ASSIGNMENT, CONSUMER_PROTOCOL_TYPE
from purgatorio.protocol.errors import DecodeError

MEMBERS_LOOKED_AT: Final = 1_000
"""Members of a group that are looked at, for those that it waits for and for its assignor."""
ASSIGNMENTS_REMEMBERED: Final = 512
"""Decoded assignments of classic members: the page asks for them several times a second, and they rarely change."""

Owned = Mapping[str, Sequence[int]]
"""Partitions by topic."""


class GroupOverview(NamedTuple):
    """One group.

    Attributes:
        id: the group's name.
        type: its protocol: classic, consumer or share.
        state: the state, as ListGroups names it.
        protocol_type: ``consumer``, ``connect``, …; empty for a group that has only offsets.
        assignor: what distributes the partitions; empty if unknown.
        epoch: the generation, or the group epoch (KIP-848, KIP-932); 0 if it never had members.
        member_count: its members.
        waits_for: the members that a rebalance waits for, or the states of a share group, in a sentence; or empty.
    """

    id: str
    type: str
    state: str
    protocol_type: str = ""
    assignor: str = ""
    epoch: int = 0
    member_count: int = 0
    waits_for: str = ""


class MemberOverview(NamedTuple):
    """One member of a group.

    Attributes:
        instance_id: the name of a static member; None for a dynamic one.
        host: its address, without Kafka's slash.
        epoch: the generation, or its member epoch.
        owned: the partitions that it consumes; None if they cannot be known: its protocol is not that of consumers.
            Members of share groups consume partitions together.
        waits_for: the members or partitions that it waits for, or its next step, in a few words; or empty.
        session_deadline_ms: when its session is over, on the clock of `Groups.heartbeat_purgatory`; each heartbeat
            moves it. None if unknown.
        session_timeout_ms: the time that a heartbeat gives.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int
    owned: Owned | None
    waits_for: str
    session_deadline_ms: int | None
    session_timeout_ms: int


def overview(groups: Groups, shard: GroupShard, group_id: str) -> GroupOverview | None:
    """Return a group of a shard, or None; one with offsets alone is an empty classic group, as in Kafka."""
    group = shard.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return GroupOverview(
            group_id,
            group.type,
            group.state_name,
            group.protocol_type,
            group.protocol or "",
            group.generation,
            len(group.members),
            _classic_rebalance(groups, group),
        )
    if isinstance(group, ConsumerGroup):
        return GroupOverview(
            group_id,
            group.type,
            group.state_name,
            group.protocol_type,
            choose_assignor(each.subscription for each in islice(group.members.values(), MEMBERS_LOOKED_AT)),
            group.epoch,
            len(group.members),
            _reconciliation(group),
        )
    if isinstance(group, ShareGroup):
        return GroupOverview(
            group_id,
            group.type,
            group.state_name,
            group.protocol_type,
            SHARE_ASSIGNOR,
            group.epoch,
            len(group.members),
            _sharing(group),
        )
    if shard.offsets.has_group(group_id):
        return GroupOverview(group_id, ClassicGroup.type, GroupState.EMPTY.value)
    return None


def members(group: Group | None, image: ClusterImage, limit: int) -> list[MemberOverview]:
    """Return up to `limit` members of a group, in the order of joining.

    Args:
        group: None for a group with offsets alone.
        image: has the names of topics.
        limit: the most members.
    """
    if isinstance(group, ClassicGroup):
        return [_classic_member(group, each) for each in islice(group.members.values(), limit)]
    if isinstance(group, ConsumerGroup):
        return [_consumer_member(group, each, image) for each in islice(group.members.values(), limit)]
    if isinstance(group, ShareGroup):
        return [_share_member(group, each, image) for each in islice(group.members.values(), limit)]
    return []


# --- the classic protocol ---


def _classic_rebalance(groups: Groups, group: ClassicGroup) -> str:
    """Return the causes of the group's parked operation; groups that are stable have one, too, for late syncs."""
    if group.state not in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
        return ""
    is_joining = group.state is GroupState.PREPARING_REBALANCE
    key = JoinKey(group.group_id) if is_joining else SyncKey(group.group_id)
    return "".join(in_words(each.causes) for each in groups.rebalance_purgatory.watching(key, 1))


def _classic_member(group: ClassicGroup, member: ClassicGroupMember) -> MemberOverview:
    owned = owned_by(member.assignment) if group.protocol_type == CONSUMER_PROTOCOL_TYPE else None
    return MemberOverview(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        group.generation,
        owned,
        _waits_for(group, member),
        _deadline_ms(member.session),
        member.session_timeout_ms,
    )


def _waits_for(group: ClassicGroup, member: ClassicGroupMember) -> str:
    if group.state is GroupState.PREPARING_REBALANCE:
        return "has joined, waits for the others" if member.join is not None else "has to join again"
    if group.state is GroupState.COMPLETING_REBALANCE:
        if member.member_id == group.leader_id and member.sync is None:
            return "makes the assignment"
        return "waits for its assignment" if member.sync is not None else "has to ask for its assignment"
    return ""


@lru_cache(maxsize=ASSIGNMENTS_REMEMBERED)
def owned_by(assignment: bytes) -> Owned | None:
    """Return the partitions of an assignment; the bytes are the group leader's, and may be anything."""
    if not assignment:
        return {}
    try:
        decoded = ASSIGNMENT.decode(assignment)
    except DecodeError:
        return None
    by_topic = sorted(decoded.assigned_partitions, key=lambda each: each.topic)
    return {each.topic: tuple(sorted(each.partitions)) for each in by_topic}


# --- the consumer protocol ---


def _reconciliation(group: ConsumerGroup) -> str:
    """Return the members that have not reached the target assignment; each does so by its own heartbeats."""
    if group.is_stable or not group.members:
        return ""
    looked_at = list(islice(group.members.values(), MEMBERS_LOOKED_AT))
    revoking = [member for member in looked_at if member.current.state is MemberState.UNREVOKED]
    if revoking:
        return f"epoch {group.epoch} of {group.group_id} waits for {_labels(revoking, looked_at)} to give up partitions"
    behind = [member for member in looked_at if not member.is_reconciled_to(group.target_epoch)]
    # Those that wait for others are behind, too, but it is not them that the others wait for.
    first = [member for member in behind if member.current.state is not MemberState.UNRELEASED] or behind
    return f"epoch {group.epoch} of {group.group_id} waits for a heartbeat of {_labels(first, looked_at)}"


def _labels(named: Sequence[ModernGroupMember], everyone: Sequence[ModernGroupMember]) -> str:
    """Return the names of members in a sentence, of many the first ones: their client ids where these are unique."""
    clients = Counter(member.subscription.client_id for member in everyone)
    names = []
    for member in named[:MAX_NAMED]:
        client_id = member.subscription.client_id
        short = client_id if client_id and clients[client_id] == 1 else member.member_id
        instance_id = member.subscription.instance_id if isinstance(member, ConsumerGroupMember) else None
        names.append(instance_id or short)
    return f"member{'s' * (len(named) > 1)} {listed(names, len(named) - len(names))}"


def _consumer_member(group: ConsumerGroup, member: ConsumerGroupMember, image: ClusterImage) -> MemberOverview:
    subscription = member.subscription
    return MemberOverview(
        member.member_id,
        subscription.instance_id,
        subscription.client_id,
        subscription.client_host.removeprefix("/"),
        member.current.epoch,
        _by_name(member.current.held, image),
        _has_to(group, member, image),
        _deadline_ms(member.session),
        0 if member.session is None else member.session.session_timeout_ms,
    )


def _has_to(group: ConsumerGroup, member: ConsumerGroupMember, image: ClusterImage) -> str:
    current = member.current
    if current.epoch == LEFT_FOR_A_WHILE:
        return "has left for a while"
    if current.state is MemberState.UNREVOKED:
        given_up = [
            f"{topic}-{each}" for topic, numbers in _by_name(current.revoking, image).items() for each in numbers
        ]
        return f"has to give up {listed(given_up)}"
    if current.state is MemberState.UNRELEASED:
        return "waits for partitions that others own"
    return _reaches(current.epoch, group.target_epoch)


def _reaches(epoch: int, target_epoch: int) -> str:
    return "" if epoch == target_epoch else f"reaches epoch {target_epoch} at its next heartbeat"


# --- share groups ---


def _sharing(group: ShareGroup) -> str:
    """Return the share partitions that have no state yet, or else the members that have not got their assignment."""
    asked = [each for each in group.initializations if each.unanswered]
    if asked:
        return in_words((not_initialized(group.group_id, *asked),))
    looked_at = list(islice(group.members.values(), MEMBERS_LOOKED_AT))
    behind = [member for member in looked_at if member.current.epoch != group.target_epoch]
    if not behind:
        return ""
    return f"epoch {group.target_epoch} of {group.group_id} waits for a heartbeat of {_labels(behind, looked_at)}"


def _share_member(group: ShareGroup, member: ShareGroupMember, image: ClusterImage) -> MemberOverview:
    subscription = member.subscription
    return MemberOverview(
        member.member_id,
        None,
        subscription.client_id,
        subscription.client_host.removeprefix("/"),
        member.current.epoch,
        _by_name(member.current.assigned, image),
        _reaches(member.current.epoch, group.target_epoch),
        _deadline_ms(member.session),
        0 if member.session is None else member.session.session_timeout_ms,
    )


# --- both ---


def _by_name(partitions: Partitions, image: ClusterImage) -> Owned:
    """Return partitions by the names of their topics; those of deleted topics are left out."""
    topics = ((image.topic_by_id(topic_id), numbers) for topic_id, numbers in partitions.items())
    named = {topic.name: tuple(sorted(numbers)) for topic, numbers in topics if topic is not None}
    return dict(sorted(named.items()))


def _deadline_ms(session: DelayedHeartbeat | None) -> int | None:
    return None if session is None or session.completed else session.deadline_ms
