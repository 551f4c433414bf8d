"""ListGroups: the groups that a broker coordinates, by state and type."""

from __future__ import annotations

import time

import pytest

from purgatorio.broker.api import describe_groups, join_group, list_groups, offset_commit
from purgatorio.broker.group.offsets import CommittedOffset
from purgatorio.broker.time import long_work
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_groups import DescribeGroupsRequest
from purgatorio.protocol.messages.list_groups import ListGroupsRequest
from tests.broker.api.group_requests import Coordinator
from tests.broker.api.test_join_group import request as join
from tests.broker.api.test_offset_commit import request as commit

ALL = [("billing", "consumer", "CompletingRebalance", "classic"), ("simple", "", "Empty", "classic")]

NOTHING = CommittedOffset(1, -1, "", 0)


@pytest.fixture
def broker() -> Coordinator:
    """Broker 1 with a group of one member, and one of committed offsets alone."""
    broker = Coordinator()
    broker.ask(join_group, 3, join("billing"))
    broker.ask(offset_commit, 9, commit(7, group_id="simple"))
    return broker


def listed(broker: Coordinator, **filters: list[str]) -> list[tuple[str, str, str, str]]:
    response = broker.ask(list_groups, 5, ListGroupsRequest(**filters))
    assert response.error_code == ErrorCode.NONE
    return [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in response.groups]


@pytest.mark.parametrize("version", range(6))
def test_every_version_lists_the_groups(broker: Coordinator, version: int) -> None:
    response = broker.ask(list_groups, version, ListGroupsRequest())
    assert [(each.group_id, each.protocol_type) for each in response.groups] == [
        ("billing", "consumer"),
        ("simple", ""),
    ]


def test_groups_of_offsets_alone_are_listed_as_empty(broker: Coordinator) -> None:
    assert listed(broker) == ALL


@pytest.mark.parametrize("states", [["empty"], ["EMPTY", "Stable"]])
def test_a_filter_by_state_ignores_case(broker: Coordinator, states: list[str]) -> None:
    assert listed(broker, states_filter=states) == ALL[1:]


def test_a_filter_by_type_ignores_case(broker: Coordinator) -> None:
    assert listed(broker, types_filter=["Classic"]) == ALL
    assert listed(broker, types_filter=["consumer", "share"]) == []


def test_while_a_partition_is_loaded_the_error_says_so(broker: Coordinator) -> None:
    broker.elect(1, 1, replicas=(1,))
    assert broker.ask(list_groups, 5, ListGroupsRequest()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.work()
    assert [group_id for group_id, *_ in listed(broker)] == ["simple"]


def test_a_broker_that_coordinates_no_group_lists_none(broker: Coordinator) -> None:
    broker.elect(2, 1)
    assert listed(broker) == []


def test_groups_with_offsets_of_open_transactions_alone_are_listed_as_empty(broker: Coordinator) -> None:
    """As in Kafka, where such a commit makes an empty group."""
    (shard,) = broker.groups.coordinator.shards
    shard.offsets.transactional.put(7, "copier", "orders", 0, NOTHING)
    shard.offsets.transactional.put(7, "simple", "orders", 1, NOTHING)
    assert listed(broker) == [*ALL, ("copier", "", "Empty", "classic")]
    (described,) = broker.ask(describe_groups, 5, DescribeGroupsRequest(groups=["copier"])).groups
    assert (described.error_code, described.group_state) == (ErrorCode.NONE, "Empty")


def test_a_long_list_is_made_in_steps_between_which_groups_may_go(
    broker: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_work, "SLICE", 2)
    (shard,) = broker.groups.coordinator.shards
    for number in range(5):
        shard.offsets.put(f"group-{number}", "orders", 0, NOTHING)
    replies = broker.post(list_groups, 5, ListGroupsRequest())
    assert replies.said == []
    shard.offsets.remove("group-3", "orders", 0)
    for _ in broker.group_work.turns():
        pass
    assert [each.group_id for each in replies.only.groups][-4:] == ["group-0", "group-1", "group-2", "group-4"]


def test_a_list_of_ten_thousand_groups_never_holds_the_loop(broker: Coordinator) -> None:
    (shard,) = broker.groups.coordinator.shards
    for number in range(10_000):
        shard.offsets.put(f"group-{number}", "orders", 0, NOTHING)
    looks = [longest_step_ms(broker) for _ in range(3)]
    assert min(looks) < 25, "2 ms on an idle machine"


def longest_step_ms(broker: Coordinator) -> float:
    """Return the CPU time of the longest step of a list of all groups."""
    request = ListGroupsRequest()
    before = time.process_time()
    replies = broker.post(list_groups, 5, request)
    took = [time.process_time() - before]
    steps = broker.group_work.turns()
    while True:
        before = time.process_time()
        if next(steps, request) is request:
            break
        took.append(time.process_time() - before)
    assert len(took) > 4
    assert len(replies.only.groups) == 10_002
    return max(took) * 1000
