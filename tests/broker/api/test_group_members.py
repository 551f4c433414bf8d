"""SyncGroup, Heartbeat and LeaveGroup: their answers in every version."""

from __future__ import annotations

import dataclasses

import pytest

from purgatorio.broker.api import heartbeat, join_group, leave_group, sync_group
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.api.group_requests import Coordinator
from tests.broker.api.test_join_group import request as join

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


class Joined:
    """Broker 1 with a group of one member, which has joined."""

    def __init__(self) -> None:
        self.broker = Coordinator()
        self.member_id = self.broker.ask(join_group, 3, join()).member_id

    def sync(self, version: int, member_id: str | None = None) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id="billing",
            generation_id=1,
            member_id=member_id or self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"all")],
        )


@pytest.fixture
def joined() -> Joined:
    return Joined()


@pytest.mark.parametrize("version", range(6))
def test_a_sync_is_answered_with_the_assignment(joined: Joined, version: int) -> None:
    answer = joined.broker.ask(sync_group, version, joined.sync(version))
    assert (answer.error_code, bytes(answer.assignment)) == (0, b"all")
    assert answer.protocol_name == ("range" if version >= 5 else None)
    assert joined.broker.ask(sync_group, version, joined.sync(version, "stranger")).error_code == UNKNOWN


@pytest.mark.parametrize("field", ["protocol_type", "protocol_name"])
def test_from_version_5_on_a_sync_must_name_the_protocol_and_its_type(joined: Joined, field: str) -> None:
    """Kafka refuses it before all else, even for strangers."""
    request = dataclasses.replace(joined.sync(5, "stranger"), **{field: None})
    assert joined.broker.ask(sync_group, 5, request).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert joined.broker.ask(sync_group, 4, request).error_code == UNKNOWN


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_is_answered(joined: Joined, version: int) -> None:
    beat = HeartbeatRequest(group_id="billing", generation_id=1, member_id=joined.member_id)
    assert joined.broker.ask(heartbeat, version, beat).error_code == 0
    stranger = HeartbeatRequest(group_id="billing", generation_id=1, member_id="stranger")
    assert joined.broker.ask(heartbeat, version, stranger).error_code == UNKNOWN


def test_heartbeats_are_no_error_while_the_partition_is_loaded(joined: Joined) -> None:
    joined.broker.ask(sync_group, 3, joined.sync(3))
    joined.broker.elect(1, 1, replicas=(1,))
    beat = HeartbeatRequest(group_id="billing", generation_id=1, member_id=joined.member_id)
    assert joined.broker.ask(heartbeat, 4, beat).error_code == 0
    assert joined.broker.ask(sync_group, 3, joined.sync(3)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("version", range(3))
def test_before_version_3_one_member_leaves_and_the_error_is_the_whole_answers(joined: Joined, version: int) -> None:
    leave = LeaveGroupRequest(group_id="billing", member_id=joined.member_id)
    assert joined.broker.ask(leave_group, version, leave).error_code == 0
    assert joined.broker.ask(leave_group, version, leave).error_code == UNKNOWN


@pytest.mark.parametrize("version", range(3, 6))
def test_from_version_3_on_each_member_has_its_error(joined: Joined, version: int) -> None:
    leave = LeaveGroupRequest(
        group_id="billing",
        members=[
            MemberIdentity(member_id=joined.member_id),
            MemberIdentity(member_id="", group_instance_id="nobody"),
        ],
    )
    answer = joined.broker.ask(leave_group, version, leave)
    assert answer.error_code == 0
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in answer.members] == [
        (joined.member_id, None, 0),
        ("", "nobody", UNKNOWN),
    ]


@pytest.mark.parametrize("version", range(6))
def test_a_leave_with_an_empty_group_id_is_refused_as_a_whole(joined: Joined, version: int) -> None:
    answer = joined.broker.ask(leave_group, version, LeaveGroupRequest(group_id=""))
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID
