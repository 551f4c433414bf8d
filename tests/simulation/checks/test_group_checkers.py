"""The checks of groups find each anomaly, and nothing in what clients and faults may cause."""

from __future__ import annotations

import pytest

from purgatorio.simulation.checks.group_checkers import GROUP_CHECKS, check_groups
from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import (
    Acked,
    Cleaned,
    GroupAssigned,
    GroupBeat,
    History,
    OffsetCommitted,
    OffsetRead,
    Polled,
)

G, P = "billing", "orders-0"


def names(*events: Event) -> list[str]:
    history = History()
    for event in events:
        history.record(event)
    return [anomaly.name for anomaly in check_groups(history)]


def owns(time_ms: int, member: str, generation: int, *partitions: str, identity: str = "") -> GroupAssigned:
    return GroupAssigned(time_ms, G, member, identity or member, generation, partitions)


def commit(asked_ms: int, time_ms: int, offset: int, outcome: str = "acked", *, by: str = "a") -> OffsetCommitted:
    return OffsetCommitted(time_ms, G, by, 1, P, offset, asked_ms, outcome)


def read(asked_ms: int, time_ms: int, offset: int) -> OffsetRead:
    return OffsetRead(time_ms, G, P, offset, asked_ms)


def test_every_check_has_a_sentence() -> None:
    assert all(meaning.endswith(".") for meaning in GROUP_CHECKS.values())


# --- who owns what ---


def test_a_partition_has_one_owner_in_a_generation() -> None:
    assert names(owns(1, "a", 1, P), owns(2, "b", 1, P)) == ["double-owner"]
    assert names(owns(1, "a", 1, P), owns(2, "b", 2, P), owns(3, "b", 2, "orders-1")) == []
    assert names(owns(1, "a", -1, P), owns(2, "b", -1, P)) == [], "the generation tells nothing"


def test_a_static_member_that_comes_back_owns_what_it_owned() -> None:
    assert names(owns(1, "a", 1, P, identity="app-1"), owns(2, "a.2", 1, P, identity="app-1")) == []


def test_a_member_that_has_lost_a_partition_commits_it_no_more() -> None:
    lost = owns(1, "a", 1, P), owns(5, "b", 2, P)
    assert names(*lost, commit(6, 7, 10)) == ["stale-commit"]
    assert names(*lost, commit(6, 7, 10, "refused")) == []
    assert names(*lost, commit(5, 7, 10)) == [], "the commit may have come first"
    assert names(*lost, commit(6, 7, 10, by="b")) == [], "the new owner by an older epoch"


def test_a_heartbeat_of_a_generation_that_is_over_is_not_taken() -> None:
    later = owns(1, "a", 1, P), owns(5, "b", 2, P)
    assert names(*later, GroupBeat(8, G, "a", 1, 6)) == ["stale-beat"]
    assert names(*later, GroupBeat(8, G, "a", 1, 5)) == [], "it was sent before"
    assert names(*later, GroupBeat(8, G, "b", 2, 6)) == []


# --- committed offsets ---


def test_an_acknowledged_commit_is_read_from_then_on() -> None:
    assert names(commit(1, 2, 10), read(3, 4, 10)) == []
    assert names(commit(1, 2, 10), read(3, 4, -1)) == ["lost-commit"]
    assert names(commit(1, 2, 10), commit(3, 4, 20), read(5, 6, 10)) == ["lost-commit"]


def test_a_commit_of_a_lower_offset_counts_as_any_other() -> None:
    assert names(commit(1, 2, 20), commit(3, 4, 10), read(5, 6, 10)) == []
    assert names(commit(1, 2, 20), commit(3, 4, 10), read(5, 6, 20)) == ["lost-commit"]


def test_a_commit_under_way_may_be_read_or_not() -> None:
    assert names(commit(1, 2, 10), read(4, 5, 10), commit(3, 6, 20)) == []
    assert names(commit(1, 2, 10), read(4, 5, 20), commit(3, 6, 20)) == []


def test_a_commit_of_unknown_outcome_may_take_effect_at_any_time() -> None:
    unknown = commit(1, 2, 10, "unknown")
    assert names(unknown, commit(3, 4, 20), read(5, 6, 20), read(7, 8, 10)) == []
    assert names(unknown, commit(3, 4, 20), read(5, 6, 20)) == []


@pytest.mark.parametrize("outcome", ["acked", "unknown"])
def test_what_was_read_is_not_unread(outcome: str) -> None:
    assert names(commit(1, 2, 10, outcome), read(3, 4, 10), read(5, 6, -1)) == ["lost-commit"]


def test_an_offset_that_no_member_committed_is_not_read() -> None:
    assert names(read(1, 2, 10)) == ["phantom-commit"]
    assert names(commit(1, 2, 10, "refused"), read(3, 4, 10)) == ["phantom-commit"]
    assert names(read(1, 2, 10), commit(3, 4, 10)) == ["phantom-commit"], "it is committed later"


# --- records ---


def test_every_acknowledged_value_is_polled_by_a_member() -> None:
    acked = Acked(1, "p", P, 7, 0, -1)
    polled = Polled(3, "a", P, ((0, 7),), 1)
    assert names(owns(1, "a", 1, P), acked, polled) == []
    assert names(owns(1, "a", 1, P), acked) == ["unprocessed"]
    assert names(owns(1, "b", 1, P), acked, polled) == ["unprocessed"], "the poll is of another consumer"
    assert names(owns(1, "a", 1, "orders-1"), acked) == [], "the group does not consume it"
    assert names(owns(1, "a", 1, P), Acked(1, "p", P, 7, 0, 1)) == [], "its leader may have lost it"
    assert names(owns(1, "a", 1, P), Cleaned(0, P, True, 0), acked) == [], "it may be deleted"
    assert names(acked) == [], "there is no group"
