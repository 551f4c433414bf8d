"""Server-side assignors (KIP-848): which member consumes which partitions. Pure functions of members and topics.

Each partition of a topic goes to exactly one of the members that subscribe to the topic. Racks are ignored, as in Kafka
4 (KAFKA-16694).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import Final

from purgatorio.broker.group.modern.partitions import (
    AssignedMember,
    Assignment,
    Partition,
    TopicId,
    collect,
    each,
)

Assignor = Callable[[Sequence[AssignedMember], Mapping[TopicId, int]], Assignment]
"""Returns what each member shall own, from the members and the number of partitions of each topic; in steps."""


def assign_uniform(members: Sequence[AssignedMember], partition_counts: Mapping[TopicId, int]) -> Assignment:
    """Give all members equally many partitions, and leave as many as possible where they are.

    With equal subscriptions the numbers differ by at most one. With unequal ones, no partition has an owner that has at
    least two more than another subscriber of its topic.

    Args:
        members: the members, by ascending id.
        partition_counts: the number of partitions of each topic that a member subscribes to.

    Returns:
        The new assignment of each member, by member id.
    """
    if not members:
        return {}
    if len({member.topics for member in members}) == 1:
        owned = yield from _assign_equal(members, partition_counts)
    else:
        owned = yield from _assign_unequal(members, partition_counts)
    yield 0
    return {member_id: collect(partitions) for member_id, partitions in owned.items()}


def _assign_equal(
    members: Sequence[AssignedMember], partition_counts: Mapping[TopicId, int]
) -> Generator[int, None, dict[str, list[Partition]]]:
    topics = members[0].topics
    total = sum(partition_counts[topic] for topic in topics)
    quota, larger = divmod(total, len(members))
    free = {(topic, number) for topic in topics for number in range(partition_counts[topic])}
    owned: dict[str, list[Partition]] = {}
    for member in members:
        yield 1 + quota
        kept = [partition for partition in each(member.target) if partition in free]
        may_have_one_more = larger > 0 and len(kept) > quota
        larger -= may_have_one_more
        owned[member.member_id] = kept = kept[: quota + may_have_one_more]
        free.difference_update(kept)
    # By partition number first: consecutive partitions of one topic go to different members.
    rest = sorted(free, key=lambda partition: (partition[1], partition[0]), reverse=True)
    for partitions in owned.values():
        while len(partitions) < quota:
            partitions.append(rest.pop())
    for partitions in owned.values():
        if rest and len(partitions) == quota:
            partitions.append(rest.pop())
    return owned


def _assign_unequal(
    members: Sequence[AssignedMember], partition_counts: Mapping[TopicId, int]
) -> Generator[int, None, dict[str, list[Partition]]]:
    subscribers: dict[TopicId, list[str]] = {}
    owner: dict[Partition, str] = {}
    for member in members:
        yield 1 + 2 * len(member.topics)
        for topic in member.topics:
            subscribers.setdefault(topic, []).append(member.member_id)
        _keep(member, partition_counts, owner)
    load = {member.member_id: 0 for member in members} | Counter(owner.values())
    # Topics with few subscribers first: those have the least choice.
    topics = sorted(subscribers, key=lambda topic: (len(subscribers[topic]), topic))
    for topic in topics:
        yield 1 + len(subscribers[topic]) + partition_counts[topic]
        _fill(topic, partition_counts[topic], subscribers[topic], owner, load)
    moved = True
    while moved:  # each move lowers the sum of the squared loads, so this ends
        moved = False
        for topic in topics:
            yield 1 + len(subscribers[topic]) + partition_counts[topic]
            moved = _balance(topic, partition_counts[topic], subscribers[topic], owner, load) or moved
    owned: dict[str, list[Partition]] = {member.member_id: [] for member in members}
    for partition, member_id in owner.items():
        owned[member_id].append(partition)
    return owned


def _fill(
    topic: TopicId, partitions: int, subscribers: Sequence[str], owner: dict[Partition, str], load: dict[str, int]
) -> None:
    """Give the partitions of one topic that have no owner to the members with the least."""
    least_first = [(load[member_id], member_id) for member_id in subscribers]
    heapify(least_first)
    for number in range(partitions):
        if (topic, number) not in owner:
            least = least_first[0][1]
            owner[topic, number] = least
            load[least] += 1
            heapreplace(least_first, (load[least], least))


def _keep(member: AssignedMember, partition_counts: Mapping[TopicId, int], owner: dict[Partition, str]) -> None:
    """Make a member the owner of its partitions that can stay where they are."""
    wanted = frozenset(member.topics)
    for topic, number in each(member.target):
        if topic in wanted and number < partition_counts[topic]:
            owner.setdefault((topic, number), member.member_id)


def _balance(
    topic: TopicId, partitions: int, subscribers: Sequence[str], owner: dict[Partition, str], load: dict[str, int]
) -> bool:
    """Move partitions of one topic from members with more to members with less; return whether one was moved."""
    moved = False
    least = min(subscribers, key=load.__getitem__)
    for number in range(partitions):
        present = owner[topic, number]
        if load[present] > load[least] + 1:
            owner[topic, number] = least
            load[present] -= 1
            load[least] += 1
            least = min(subscribers, key=load.__getitem__)
            moved = True
    return moved


def assign_ranges(members: Sequence[AssignedMember], partition_counts: Mapping[TopicId, int]) -> Assignment:
    """Give each member consecutive partitions of each of its topics.

    Topics with equally many partitions and the same subscribers are divided in the same way, so that one member gets
    the same partition numbers of each: they are co-partitioned.

    Args:
        members: the members, by ascending id.
        partition_counts: the number of partitions of each topic that a member subscribes to.

    Returns:
        The new assignment of each member, by member id.
    """
    by_topic: dict[TopicId, list[str]] = {}
    for member in sorted(members, key=_range_order):
        yield 1 + len(member.topics)
        for topic in member.topics:
            by_topic.setdefault(topic, []).append(member.member_id)
    assigned: dict[str, dict[TopicId, frozenset[int]]] = {member.member_id: {} for member in members}
    for topic, subscribers in by_topic.items():
        yield 1 + len(subscribers)
        quota, larger = divmod(partition_counts[topic], len(subscribers))
        start = 0
        for nth, member_id in enumerate(subscribers):
            end = start + quota + (nth < larger)
            if end > start:
                assigned[member_id][topic] = frozenset(range(start, end))
            start = end
    return dict(assigned)


def _range_order(member: AssignedMember) -> tuple[bool, str, str]:
    """Static members come first, by their names, which stay the same when they restart."""
    return member.instance_id is None, member.instance_id or "", member.member_id


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_ranges}
"""The assignors by the names that members choose them with; the first is the default (group.consumer.assignors)."""
