"""What a share group knows of its states: each change makes a new object, and its record says the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from purgatorio.broker.group.share.state_partitions import NO_STATE, NamedPartitions, StatePartitions

A, B = b"a" * 16, b"b" * 16
NAMES = {A: "orders", B: "bills"}


def some(topic_id: bytes, *numbers: int) -> dict[bytes, NamedPartitions]:
    return {topic_id: NamedPartitions(NAMES[topic_id], frozenset(numbers))}


def test_partitions_are_asked_for_then_initialized() -> None:
    asking = NO_STATE.begin(some(A, 0, 1)).begin(some(A, 2))
    assert asking == StatePartitions(initializing=some(A, 0, 1, 2))
    ended = asking.end({A: frozenset({0, 1})}, names=NAMES, failed={})
    assert ended == StatePartitions(initializing=some(A, 2), initialized=some(A, 0, 1))
    assert ended.end({A: frozenset({2})}, names=NAMES, failed={}) == StatePartitions(initialized=some(A, 0, 1, 2))


def test_partitions_that_failed_are_forgotten_and_a_state_that_was_there_stays() -> None:
    states = StatePartitions(initialized=some(A, 0)).begin(some(A, 0, 1))
    failed = {A: frozenset({0, 1})}
    assert states.end(failed, names=NAMES, failed=failed) == StatePartitions(initialized=some(A, 0))


def test_missing_partitions_have_no_state_and_known_ones_may_have_one() -> None:
    states = StatePartitions(initializing=some(A, 1), initialized=some(A, 0))
    assert (states.missing(A, 3), states.known(A)) == ({1, 2}, {0, 1})
    assert (states.missing(B, 1), states.known(B)) == ({0}, frozenset())


def test_topics_are_deleted_then_forgotten() -> None:
    states = StatePartitions(some(A, 1), {**some(A, 0), **some(B, 0)})
    deleting = states.delete([A, b"unknown"])
    assert deleting == StatePartitions({}, some(B, 0), {A: "orders"})
    assert deleting.topic_ids == {A, B}
    assert deleting.deleted([A]) == StatePartitions({}, some(B, 0))


def test_a_topic_that_is_asked_for_again_is_deleted_no_more() -> None:
    deleting = StatePartitions(deleting={A: "orders", B: "bills"})
    assert deleting.begin(some(A, 0)) == StatePartitions(some(A, 0), deleting={B: "bills"})


TOPICS = st.dictionaries(
    st.binary(min_size=16, max_size=16),
    st.builds(NamedPartitions, st.text(max_size=3), st.frozensets(st.integers(0, 9), min_size=1)),
    max_size=3,
)


@given(TOPICS, TOPICS, st.dictionaries(st.binary(min_size=16, max_size=16), st.text(max_size=3), max_size=3))
def test_a_record_says_the_same(
    initializing: dict[bytes, NamedPartitions], initialized: dict[bytes, NamedPartitions], deleting: dict[bytes, str]
) -> None:
    states = StatePartitions(initializing, initialized, deleting)
    assert StatePartitions.of_record(states.record()) == states
    assert states.size_bytes >= NO_STATE.size_bytes == 0
