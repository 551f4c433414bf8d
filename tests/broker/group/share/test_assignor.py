"""The assignor of share groups: all partitions have equally many members, and all members equally many partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.broker.group.modern.partitions import NO_PARTITIONS, AssignedMember, Assignment, Partitions, each
from purgatorio.broker.group.share.assignor import assign_simple

Counts = Mapping[bytes, int]


def taken(assignment: Assignment) -> tuple[dict[str, Partitions], int]:
    """Take all steps of the assignor; returns the assignment and what it cost."""
    cost = 0
    while True:
        try:
            cost += next(assignment)
        except StopIteration as end:
            return end.value, cost


def assign(members: Sequence[AssignedMember], counts: Counts) -> dict[str, Partitions]:
    partitions = {topic: frozenset(range(count)) for topic, count in counts.items()}
    return taken(assign_simple(members, partitions))[0]


def members_of(*ids: str, topics: Sequence[bytes] = (b"t",)) -> list[AssignedMember]:
    return [AssignedMember(each_id, None, tuple(sorted(topics))) for each_id in sorted(ids)]


def with_targets(members: Sequence[AssignedMember], targets: Mapping[str, Partitions]) -> list[AssignedMember]:
    return [member._replace(target=targets.get(member.member_id, NO_PARTITIONS)) for member in members]


def places(assigned: Mapping[str, Partitions]) -> set[tuple[str, bytes, int]]:
    return {(member_id, *partition) for member_id, target in assigned.items() for partition in each(target)}


def check_balance(
    ids: Sequence[str], partitions: Sequence[tuple[bytes, int]], assigned: Mapping[str, Partitions]
) -> None:
    """Each partition has ⌈M / P⌉ members, and each member the same number of partitions, or one more."""
    wanted = -(-len(ids) // len(partitions))
    of_partitions = Counter(partition for member_id in ids for partition in each(assigned[member_id]))
    assert of_partitions == dict.fromkeys(partitions, wanted)
    sizes = [len(list(each(assigned[member_id]))) for member_id in ids]
    assert max(sizes) - min(sizes) <= 1


def test_partitions_are_shared_among_fewer_members() -> None:
    assigned = assign(members_of("a", "b"), {b"t": 5})
    assert assigned == {"a": {b"t": {0, 2, 4}}, "b": {b"t": {1, 3}}}


def test_members_share_fewer_partitions() -> None:
    assigned = assign(members_of("a", "b", "c", "d", "e"), {b"t": 2})
    assert assigned == {
        "a": {b"t": {0, 1}},
        "b": {b"t": {0}},
        "c": {b"t": {0}},
        "d": {b"t": {1}},
        "e": {b"t": {1}},
    }


def test_a_group_without_members_or_partitions_is_assigned_nothing() -> None:
    assert assign([], {}) == {}
    assert assign(members_of("a"), {b"t": 0}) == {"a": {}}
    assert assign(members_of("a", topics=()), {}) == {"a": {}}
    assert assign([*members_of("a"), *members_of("b", topics=())], {b"t": 2}) == {"a": {b"t": {0, 1}}, "b": {}}


def test_a_member_that_joins_takes_no_more_than_its_share() -> None:
    before = {"a": {b"t": frozenset({0, 2})}, "b": {b"t": frozenset({1, 3})}}
    assigned = assign(with_targets(members_of("a", "b", "c"), before), {b"t": 4})
    kept = places(before) & places(assigned)
    assert len(kept) == 3
    assert len(assigned["c"][b"t"]) == 1


def test_only_subscribers_get_a_topics_partitions() -> None:
    both, one = members_of("a", topics=(b"t", b"u")), members_of("b", topics=(b"u",))
    assigned = assign([*both, *one], {b"t": 2, b"u": 2})
    assert assigned == {"a": {b"t": {0, 1}, b"u": {1}}, "b": {b"u": {0}}}


@pytest.mark.slow
def test_many_subscriptions_are_looked_at_in_steps() -> None:
    members = members_of(*(f"m{number:03}" for number in range(200)), topics=[b"%d" % number for number in range(3)])
    partitions = {topic: frozenset(range(2_000)) for topic in members[0].topics}
    assigned, cost = taken(assign_simple(members, partitions))
    assert cost > 6_000
    _, again = taken(assign_simple(with_targets(members, assigned), partitions))
    assert again > cost


COUNTS = st.dictionaries(st.sampled_from([b"t", b"u", b"v"]), st.integers(1, 7), min_size=1)
IDS = st.lists(st.sampled_from("abcdefghijkl"), min_size=1, unique=True)


@pytest.mark.slow
@given(COUNTS, IDS, IDS, COUNTS)
def test_equal_subscriptions_are_balanced_and_stable_whatever_was_before(
    counts: Counts, ids: list[str], ids_before: list[str], counts_before: Counts
) -> None:
    before = assign(members_of(*ids_before, topics=list(counts_before)), counts_before)
    members = with_targets(members_of(*ids, topics=list(counts)), before)
    assigned = assign(members, counts)
    check_balance(ids, [(topic, number) for topic in counts for number in range(counts[topic])], assigned)
    assert assign(with_targets(members, assigned), counts) == assigned


SUBSCRIPTIONS = st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from([b"t", b"u", b"v"])), min_size=1)


@pytest.mark.slow
@given(SUBSCRIPTIONS, SUBSCRIPTIONS, st.tuples(*[st.integers(1, 6)] * 3))
def test_unequal_subscriptions_are_balanced_by_topic_and_stable(
    wanted: dict[str, set[bytes]], wanted_before: dict[str, set[bytes]], sizes: tuple[int, int, int]
) -> None:
    counts = dict(zip([b"t", b"u", b"v"], sizes, strict=True))
    before = assign([members_of(key, topics=list(value))[0] for key, value in sorted(wanted_before.items())], counts)
    members = with_targets([members_of(key, topics=list(value))[0] for key, value in sorted(wanted.items())], before)
    assigned = assign(members, counts)
    if len(set(map(frozenset, wanted.values()))) > 1:
        for topic, count in counts.items():
            ids = [member_id for member_id in wanted if topic in wanted[member_id]]
            of_topic = {member_id: {topic: assigned[member_id].get(topic, frozenset())} for member_id in ids}
            if ids:
                check_balance(ids, [(topic, number) for number in range(count)], of_topic)
    assert all(topic in wanted[member_id] for member_id, topic, _ in places(assigned))
    assert assign(with_targets(members, assigned), counts) == assigned


@pytest.mark.slow
@given(COUNTS, IDS, st.integers(0, 11))
def test_a_member_that_leaves_moves_no_places_of_others_that_fit(counts: Counts, ids: list[str], nth: int) -> None:
    members = members_of(*ids, topics=list(counts))
    before = assign(members, counts)
    total = sum(counts.values())
    rest = [member for position, member in enumerate(members) if position != nth % len(members)]
    if not rest or -(-len(rest) // total) != -(-len(members) // total):
        return  # partitions have fewer members now
    assigned = assign(with_targets(rest, before), counts)
    staying = {place for place in places(before) if place[0] in assigned}
    assert staying <= places(assigned)
