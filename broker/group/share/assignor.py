"""The assignor of share groups, `simple` (KIP-932): which members acquire records of which partitions.

A partition may have several members, and a member several partitions. With P partitions and M members that subscribe to
them, each partition gets S = ⌈M / P⌉ members, the least by which nobody is idle. So S × P places are shared by M
members: each gets the quotient, and some one more. Each keeps what it has as far as that allows: balance comes first.

With equal subscriptions all partitions are shared at once, else those of each topic by its subscribers. So does Kafka,
which may leave a place empty that is hard to fill.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from purgatorio.broker.group.modern.partitions import (
    AssignedMember,
    Assignment,
    Partition,
    TopicId,
    collect,
    each,
)

NAME: Final = "simple"


def assign_simple(members: Sequence[AssignedMember], partitions: Mapping[TopicId, frozenset[int]]) -> Assignment:
    """Give each partition as many members as all others, and each member as many partitions, but for one.

    Args:
        members: the members, by ascending id.
        partitions: the partitions of each topic that a member subscribes to.

    Returns:
        The new assignment of each member, by member id.
    """
    taken: dict[str, dict[Partition, None]] = {member.member_id: {} for member in members}
    if len({member.topics for member in members}) <= 1:
        topics = members[0].topics if members else ()
        yield from _share(members, _partitions(topics, partitions), taken)
    else:
        for topic, subscribers in _subscribers(members).items():
            yield from _share(subscribers, _partitions((topic,), partitions), taken)
    return {member_id: collect(own) for member_id, own in taken.items()}


def _partitions(topics: Iterable[TopicId], partitions: Mapping[TopicId, frozenset[int]]) -> list[Partition]:
    """Return partitions in the order in which they are given away: the first ones of all topics come first."""
    named = [(topic, number) for topic in topics for number in partitions.get(topic, ())]
    return sorted(named, key=lambda partition: (partition[1], partition[0]))


def _subscribers(members: Sequence[AssignedMember]) -> dict[TopicId, list[AssignedMember]]:
    """Return the members by topic; topics with few of them first, as those have the least choice."""
    found: dict[TopicId, list[AssignedMember]] = {}
    for member in members:
        for topic in member.topics:
            found.setdefault(topic, []).append(member)
    return dict(sorted(found.items(), key=lambda item: (len(item[1]), item[0])))


def _share(
    members: Sequence[AssignedMember],
    partitions: Sequence[Partition],
    taken: dict[str, dict[Partition, None]],
) -> Generator[int, None, None]:
    """Share partitions of which no member has one yet; adds them to `taken`, by member id."""
    if not members or not partitions:
        return
    of_each = -(-len(members) // len(partitions))
    sharing = _Sharing([member.member_id for member in members], taken, partitions, of_each)
    for member in sharing.fullest_first(members):
        yield 1 + len(member.target)
        sharing.keep(member)
    for partition in partitions:
        yield 1 + of_each
        sharing.fill(partition)
    for member_id, own in sharing.own.items():
        taken[member_id].update(own)


class _Sharing:
    """Shares some partitions among some members.

    Args:
        taken: the partitions that members have beside these; members with few of them are given more.
        of_each: how many members each partition gets.

    Attributes:
        own: by member id, the partitions that it has of these.
    """

    def __init__(
        self,
        member_ids: Sequence[str],
        taken: Mapping[str, Mapping[Partition, None]],
        partitions: Sequence[Partition],
        of_each: int,
    ) -> None:
        self.own: dict[str, dict[Partition, None]] = {member_id: {} for member_id in member_ids}
        self._taken = taken
        self._of_each = of_each
        self._members: dict[Partition, dict[str, None]] = {partition: {} for partition in partitions}
        # So many partitions each member gets, and so many members one more.
        self._quota, self._larger = divmod(of_each * len(partitions), len(member_ids))
        self._least_first: list[tuple[int, int, str]] = []

    def fullest_first(self, members: Sequence[AssignedMember]) -> list[AssignedMember]:
        """Return members in the order in which they may keep partitions: those that need give up the least, first."""
        return sorted(members, key=lambda member: -sum(partition in self._members for partition in each(member.target)))

    def keep(self, member: AssignedMember) -> None:
        """Let a member keep partitions, as many as it may."""
        own = self.own[member.member_id]
        for partition in each(member.target):
            holders = self._members.get(partition)
            if holders is None or len(holders) >= self._of_each:
                continue
            if len(own) >= self._quota + (self._larger > 0):
                break
            if len(own) == self._quota:
                self._larger -= 1
            holders[member.member_id] = own[partition] = None

    def fill(self, partition: Partition) -> None:
        """Give a partition the members that it lacks: those with the fewest partitions.

        One of those without it has room. With S = 1 it has no member, and the places that are left are room. With S > 1
        there are fewer partitions than members, so that each member gets one or two. Were all members with room among
        the h < S that have it, then the M − h others would have two of the P − 1 other partitions each, which have
        S (P − 1) places: 2 (M − h) ≤ S (P − 1), which contradicts M > P (S − 1).
        """
        holders = self._members[partition]
        passed: list[str] = []
        while len(holders) < self._of_each:
            if not self._least_first:
                self._least_first = [self._entry(member_id) for member_id in self.own]
                heapify(self._least_first)
            member_id = heappop(self._least_first)[-1]
            passed.append(member_id)
            own = self.own[member_id]
            if partition not in own:
                self._larger -= len(own) == self._quota
                holders[member_id] = own[partition] = None
        for member_id in passed:
            heappush(self._least_first, self._entry(member_id))

    def _entry(self, member_id: str) -> tuple[int, int, str]:
        return len(self.own[member_id]), len(self._taken[member_id]), member_id
