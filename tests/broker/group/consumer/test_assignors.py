"""What each member of a consumer group shall own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.broker.group.consumer.assignors import ASSIGNORS, Assignor
from purgatorio.broker.group.modern.partitions import AssignedMember, Partitions, each
from tests.broker.time.by_hand import turns_of


def taken(assignor: Assignor, joined: Sequence[AssignedMember], counts: Mapping[bytes, int]) -> dict[str, Partitions]:
    """Take all steps of an assignor."""
    steps = assignor(joined, counts)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assigned: dict[str, Partitions] = end.value
            return assigned


assign_uniform, assign_ranges = (partial(taken, ASSIGNORS[name]) for name in ("uniform", "range"))

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
TOPICS = (A, B, C)


def members(*subscriptions: tuple[bytes, ...]) -> list[AssignedMember]:
    """Members m0, m1, … with these subscriptions."""
    return [AssignedMember(f"m{nth}", None, topics) for nth, topics in enumerate(subscriptions)]


def again(before: Sequence[AssignedMember], target: Mapping[str, Partitions]) -> list[AssignedMember]:
    """The members with what they shall own now."""
    return [member._replace(target=target.get(member.member_id, {})) for member in before]


def sizes(assigned: Mapping[str, Partitions]) -> list[int]:
    return [sum(1 for _ in each(partitions)) for partitions in assigned.values()]


def moves(before: Mapping[str, Partitions], after: Mapping[str, Partitions]) -> int:
    """How many partitions have another owner than before."""
    owners = {partition: member for member, partitions in before.items() for partition in each(partitions)}
    return sum(
        owners.get(partition, member) != member
        for member, partitions in after.items()
        for partition in each(partitions)
    )


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[AssignedMember], dict[bytes, int]]:
    """Members with any subscriptions, and any targets, which may be out of date; and the topics."""
    counts = {topic: draw(st.integers(0, 7)) for topic in TOPICS}
    free = [(topic, number) for topic in TOPICS for number in range(9)]
    drawn = []
    for nth in range(draw(st.integers(0, 6))):
        topics = tuple(sorted(draw(st.sets(st.sampled_from(TOPICS)))))
        target: dict[bytes, frozenset[int]] = {}
        for topic, number in draw(st.sets(st.sampled_from(free), max_size=5)) if free else ():
            free.remove((topic, number))
            target[topic] = target.get(topic, frozenset()) | {number}
        instance = draw(st.sampled_from([None, f"i{9 - nth}"]))
        drawn.append(AssignedMember(f"m{nth}", instance, topics, target))
    return drawn, counts


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS)
@given(group=groups())
def test_each_partition_goes_to_one_subscriber(
    assignor: Assignor, group: tuple[list[AssignedMember], dict[bytes, int]]
) -> None:
    joined, counts = group
    assigned = taken(assignor, joined, counts)
    assert list(assigned) == [member.member_id for member in joined]
    subscribed = {member.member_id: member.topics for member in joined}
    owned = [(partition, owner) for owner, partitions in assigned.items() for partition in each(partitions)]
    assert all(partition[0] in subscribed[owner] for partition, owner in owned)
    wanted = {topic for topics in subscribed.values() for topic in topics}
    assert sorted(partition for partition, _ in owned) == sorted(
        (topic, number) for topic in wanted for number in range(counts[topic])
    )
    assert all(numbers for partitions in assigned.values() for numbers in partitions.values())


@given(group=groups())
def test_no_subscriber_has_two_partitions_less_than_the_owner_of_one(
    group: tuple[list[AssignedMember], dict[bytes, int]],
) -> None:
    joined, counts = group
    assigned = assign_uniform(joined, counts)
    load = dict(zip(assigned, sizes(assigned), strict=True))
    for member in joined:
        for topic, _ in each(assigned[member.member_id]):
            least = min(load[other.member_id] for other in joined if topic in other.topics)
            assert load[member.member_id] <= least + 1


@given(group=groups())
def test_a_balanced_assignment_stays_as_it_is(group: tuple[list[AssignedMember], dict[bytes, int]]) -> None:
    joined, counts = group
    for assignor in (assign_uniform, assign_ranges):
        assigned = assignor(joined, counts)
        assert assignor(again(joined, assigned), counts) == assigned


@pytest.mark.parametrize(("partitions", "before", "moved"), [(9, 2, 3), (10, 4, 2), (3, 3, 0), (100, 9, 10)])
def test_a_new_member_takes_no_more_than_its_share(partitions: int, before: int, moved: int) -> None:
    old = members(*[(A,)] * before)
    first = assign_uniform(old, {A: partitions})
    second = assign_uniform([*again(old, first), AssignedMember("m9", None, (A,))], {A: partitions})
    assert moves(first, second) == moved
    assert max(sizes(second)) - min(sizes(second)) <= 1


def test_a_lost_member_s_partitions_are_all_that_moves() -> None:
    three = members((A, B), (A, B), (A, B))
    first = assign_uniform(three, {A: 6, B: 6})
    second = assign_uniform(again(three, first)[1:], {A: 6, B: 6})
    assert moves({"m1": first["m1"], "m2": first["m2"]}, second) == 0
    assert sizes(second) == [6, 6]


def test_ranges_are_contiguous_and_the_first_members_have_one_more() -> None:
    assigned = assign_ranges(members((A,), (A,), (A,)), {A: 8})
    assert assigned == {"m0": {A: frozenset({0, 1, 2})}, "m1": {A: frozenset({3, 4, 5})}, "m2": {A: frozenset({6, 7})}}


def test_ranges_of_equally_large_topics_are_the_same() -> None:
    assigned = assign_ranges(members((A, B), (A, B)), {A: 5, B: 5})
    assert all(partitions[A] == partitions[B] for partitions in assigned.values())


def test_ranges_go_to_static_members_by_their_names() -> None:
    three = [
        AssignedMember("m0", None, (A,)),
        AssignedMember("m1", "second", (A,)),
        AssignedMember("m2", "first", (A,)),
    ]
    assigned = assign_ranges(three, {A: 3})
    assert {member: sorted(partitions[A]) for member, partitions in assigned.items()} == {
        "m0": [2],
        "m1": [1],
        "m2": [0],
    }


@pytest.mark.parametrize("name", ["uniform", "range"])
@pytest.mark.parametrize("differ", [False, True])
def test_very_many_topics_are_assigned_in_steps(name: str, differ: bool) -> None:
    topics = tuple(number.to_bytes(16) for number in range(2_000))
    joined = members(*(topics[nth * differ :] for nth in range(20)))
    counts = dict.fromkeys(topics, 1)
    turns = turns_of(ASSIGNORS[name](joined, counts))
    assert turns >= (10 if differ or name == "range" else 1)
    assert sum(sizes(taken(ASSIGNORS[name], joined, counts))) == 2_000
