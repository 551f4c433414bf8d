"""DeleteGroups: each group is deleted with its offsets, or has its own error."""

from __future__ import annotations

import pytest

from purgatorio.broker.api import delete_groups, offset_commit
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.broker.api.group_requests import Coordinator, travel
from tests.broker.api.test_offset_commit import offset
from tests.broker.api.test_offset_commit import request as commit
from tests.broker.group.harness import PARTITION


@pytest.mark.parametrize("version", range(3))
def test_each_group_has_its_own_result(version: int) -> None:
    broker = Coordinator()
    for group_id in ("a", ""):
        broker.ask(offset_commit, 9, commit(7, group_id=group_id))
    replies = broker.post(delete_groups, version, DeleteGroupsRequest(groups_names=["a", "unknown", "", "a"]))
    broker.clean()
    results = travel(version, replies.only).results
    assert [(each.group_id, each.error_code) for each in results] == [
        ("a", 0),
        ("unknown", ErrorCode.GROUP_ID_NOT_FOUND),
        ("", 0),
    ]
    assert (offset(broker, "a"), offset(broker, "")) == (-1, -1)


def test_the_answer_waits_for_the_replicas() -> None:
    broker = Coordinator(replicas=(1, 2))
    broker.post(offset_commit, 9, commit(7))
    broker.follow((2, 1), tp=PARTITION)
    replies = broker.post(delete_groups, 2, DeleteGroupsRequest(groups_names=["app"]))
    broker.clean()
    assert replies.said == []
    broker.follow((2, 2), tp=PARTITION)
    assert [each.error_code for each in replies.only.results] == [0]


def test_a_request_without_groups_is_answered() -> None:
    assert Coordinator().ask(delete_groups, 2, DeleteGroupsRequest()).results == []


def test_a_broker_that_is_not_the_coordinator_says_so_for_each_group() -> None:
    broker = Coordinator()
    broker.may_lead = False
    results = broker.ask(delete_groups, 3, DeleteGroupsRequest(groups_names=["a", "b"])).results
    assert [each.error_code for each in results] == [ErrorCode.NOT_COORDINATOR] * 2
    assert [each.error_message for each in results] == [None, None]  # as Kafka's
