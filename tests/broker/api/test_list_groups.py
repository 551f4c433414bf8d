"""ListGroups: the groups that a broker coordinates, by state and type."""

from __future__ import annotations

import pytest

from purgatorio.broker.api import join_group, list_groups, offset_commit
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_groups import ListGroupsRequest
from tests.broker.api.group_requests import Coordinator
from tests.broker.api.test_join_group import request as join
from tests.broker.api.test_offset_commit import request as commit

ALL = [("billing", "consumer", "CompletingRebalance", "classic"), ("simple", "", "Empty", "classic")]


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
