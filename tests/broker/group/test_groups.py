"""What observers see of a broker's groups: their states, offsets and counts."""

from __future__ import annotations

from purgatorio.broker.api import offset_commit
from tests.broker.api.group_requests import Coordinator
from tests.broker.api.test_offset_commit import request as commit
from tests.broker.replica.harness import ORDERS


def made() -> Coordinator:
    broker = Coordinator()
    for group_id in ("a", "b"):
        broker.ask(offset_commit, 9, commit(7, 8, group_id=group_id))
    return broker


def test_groups_and_offsets_are_counted() -> None:
    groups = made().groups
    assert (list(groups.states()), groups.offset_count, groups.commit_count) == (["Empty", "Empty"], 4, 4)


def test_committed_offsets_are_told_up_to_a_number() -> None:
    groups, other = made().groups, ORDERS._replace(partition=1)
    everything = [("a", ORDERS, 7), ("a", other, 8), ("b", ORDERS, 7), ("b", other, 8)]
    assert list(groups.committed(9, 9)) == everything
    assert list(groups.committed(1, 9)) == everything[:2]
    assert list(groups.committed(9, 3)) == everything[:3]


def test_offsets_may_change_while_they_are_told() -> None:
    broker = made()
    reading = broker.groups.committed(9, 9)
    next(reading)
    broker.ask(offset_commit, 9, commit(1, 2, 3, group_id="a"))
    broker.ask(offset_commit, 9, commit(1, group_id="c"))
    broker.groups.coordinator.shard_of("b").offsets.remove("b", "orders", 0)
    assert [group_id for group_id, _, _ in reading] == ["a", "b"]
