"""DescribeGroups: classic groups with their members; what they assign is shown while the group is stable."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import describe_groups, join_group, offset_commit, sync_group
from purgatorio.broker.api.listing import GROUP_OPERATIONS
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_groups import DescribeGroupsRequest
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.api.group_requests import Coordinator
from tests.broker.api.test_join_group import request as join
from tests.broker.api.test_offset_commit import request as commit


def describe(broker: Coordinator, *group_ids: str, version: int = 6, operations: bool = False) -> list[Any]:
    request = DescribeGroupsRequest(groups=list(group_ids), include_authorized_operations=operations)
    groups: list[Any] = broker.ask(describe_groups, version, request).groups
    return groups


def stable() -> tuple[Coordinator, str]:
    """Return broker 1 with a stable group, and its only member's id."""
    broker = Coordinator()
    member_id = broker.ask(join_group, 5, join("billing", group_instance_id="one")).member_id
    assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")]
    broker.ask(
        sync_group,
        3,
        SyncGroupRequest(group_id="billing", generation_id=1, member_id=member_id, assignments=assignments),
    )
    return broker, member_id


@pytest.mark.parametrize("version", range(7))
def test_a_stable_group_is_described_with_its_assignment(version: int) -> None:
    broker, member_id = stable()
    (group,) = describe(broker, "billing", version=version)
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "test", "/127.0.0.1")
    assert (bytes(member.member_metadata), bytes(member.member_assignment)) == (b"topics", b"all")
    assert member.group_instance_id == ("one" if version >= 4 else None)


def test_while_a_group_rebalances_its_protocol_and_assignment_are_not_shown() -> None:
    broker = Coordinator()
    broker.ask(join_group, 3, join("billing"))
    (group,) = describe(broker, "billing")
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert [bytes(each.member_metadata) for each in group.members] == [b""]


def test_while_members_are_awaited_the_assignments_of_before_are_shown() -> None:
    """Members of cooperative assignors go on to consume meanwhile."""
    broker, _ = stable()
    broker.post(join_group, 3, join("billing"))
    (group,) = describe(broker, "billing")
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [bytes(each.member_assignment) for each in group.members] == [b"all", b""]


def test_a_group_of_offsets_alone_is_empty() -> None:
    broker = Coordinator()
    broker.ask(offset_commit, 9, commit(7, group_id=""))
    (group,) = describe(broker, "")
    assert (group.error_code, group.group_state, group.protocol_type) == (0, "Empty", "")


def test_an_unknown_group_is_an_error_from_version_6_on_and_dead_before() -> None:
    broker = Coordinator()
    (group,) = describe(broker, "nobody", version=6)
    assert (group.error_code, group.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found.")
    (group,) = describe(broker, "nobody", version=5)
    assert (group.error_code, group.group_state) == (0, "Dead")


def test_operations_are_listed_if_the_client_asks() -> None:
    broker, _ = stable()
    assert describe(broker, "billing", operations=True)[0].authorized_operations == GROUP_OPERATIONS
    assert describe(broker, "billing")[0].authorized_operations == -(2**31)


def test_a_broker_that_is_not_the_coordinator_says_so_for_each_group() -> None:
    broker = Coordinator()
    broker.may_lead = False
    assert [each.error_code for each in describe(broker, "a", "b")] == [ErrorCode.NOT_COORDINATOR] * 2
