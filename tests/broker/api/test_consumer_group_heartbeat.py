"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: consumer groups (KIP-848), as clients and tools see them."""

from __future__ import annotations

import pytest

from purgatorio.broker.api import consumer_group_describe, consumer_group_heartbeat
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.broker.api.group_requests import Coordinator, travel


@pytest.fixture
def broker() -> Coordinator:
    return Coordinator()


def join(member_id: str = "one", **fields: object) -> ConsumerGroupHeartbeatRequest:
    known = {"group_id": "app", "member_id": member_id, "rebalance_timeout_ms": 60_000, "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest(**{**known, "subscribed_topic_names": ["orders"], **fields})  # type: ignore[arg-type]


def describe(broker: Coordinator, group_id: str = "app", version: int = 1) -> DescribedGroup:
    request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=True)
    (group,) = broker.ask(consumer_group_describe, version, request).groups
    assert isinstance(group, DescribedGroup)
    return group


@pytest.mark.parametrize("version", range(2))
def test_a_member_that_joins_is_told_its_epoch_and_its_partitions(broker: Coordinator, version: int) -> None:
    answer = broker.ask(consumer_group_heartbeat, version, join())
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.NONE, "one", 1)
    (topic,) = answer.assignment.topic_partitions
    assert (topic.topic_id, topic.partitions) == (broker.image.topics["orders"].topic_id, [0, 1, 2])
    assert answer.heartbeat_interval_ms == 250


def test_a_refusal_has_a_message(broker: Coordinator) -> None:
    answer = broker.ask(consumer_group_heartbeat, 1, join(member_epoch=3))
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "app" in answer.error_message


def test_a_group_is_described_with_its_members(broker: Coordinator) -> None:
    broker.ask(consumer_group_heartbeat, 1, join(rack_id="r", instance_id="i"))
    broker.ask(consumer_group_heartbeat, 1, join("two", server_assignor="range"))
    group = describe(broker)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 2, 2)
    assert group.assignor_name == "range"
    one, two = group.members
    assert (one.member_id, one.instance_id, one.rack_id, one.member_epoch, one.member_type) == ("one", "i", "r", 1, 1)
    assert (one.client_id, one.client_host, one.subscribed_topic_names) == ("test", "/127.0.0.1", ["orders"])
    assert [(each.topic_name, each.partitions) for each in one.assignment.topic_partitions] == [("orders", [0, 1, 2])]
    assert [(each.topic_name, each.partitions) for each in one.target_assignment.topic_partitions] == [
        ("orders", [0, 1])
    ]
    assert two.assignment.topic_partitions == []
    assert group.authorized_operations > 0


def test_version_0_does_not_tell_the_protocol_of_members(broker: Coordinator) -> None:
    broker.ask(consumer_group_heartbeat, 1, join())
    assert describe(broker, version=0).members[0].member_type == -1


def test_a_group_that_does_not_exist_is_not_found(broker: Coordinator) -> None:
    group = describe(broker)
    assert (group.error_code, group.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, "app")
    assert group.error_message == "Group app not found."


def test_an_empty_group_id_is_invalid(broker: Coordinator) -> None:
    assert describe(broker, "").error_code == ErrorCode.INVALID_GROUP_ID


def test_what_a_member_has_to_give_up_is_described_as_its_own(broker: Coordinator) -> None:
    """It goes on to consume these partitions until it says that it does not."""
    broker.ask(consumer_group_heartbeat, 1, join())
    epoch = broker.ask(consumer_group_heartbeat, 1, join("two")).member_epoch
    told = broker.ask(
        consumer_group_heartbeat,
        1,
        ConsumerGroupHeartbeatRequest(group_id="app", member_id="one", member_epoch=epoch - 1),
    )
    assert len(told.assignment.topic_partitions[0].partitions) < 3
    one, _ = describe(broker).members
    assert one.assignment.topic_partitions[0].partitions == [0, 1, 2]
    assert len(one.target_assignment.topic_partitions[0].partitions) < 3


def test_a_member_without_a_regular_expression_has_an_empty_one(broker: Coordinator) -> None:
    broker.ask(consumer_group_heartbeat, 1, join())
    assert describe(broker).members[0].subscribed_topic_regex == ""


@pytest.mark.parametrize("field", ["group_id", "member_id", "instance_id", "rack_id"])
@pytest.mark.parametrize("blank", ["", "  "])
def test_ids_of_spaces_are_as_wrong_as_empty_ones(broker: Coordinator, field: str, blank: str) -> None:
    joined = broker.ask(consumer_group_heartbeat, 1, join(**{"member_id": "one", field: blank}))
    assert joined.error_code == ErrorCode.INVALID_REQUEST


def test_a_broker_that_is_not_the_coordinator_says_so(broker: Coordinator) -> None:
    broker.elect(2, 1)
    assert describe(broker).error_code == ErrorCode.NOT_COORDINATOR
    assert broker.ask(consumer_group_heartbeat, 1, join()).error_code == ErrorCode.NOT_COORDINATOR


def test_a_whole_request_can_be_answered_with_an_error() -> None:
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    assert travel(1, consumer_group_heartbeat.API.failed(join(), code)).error_code == code
    request = ConsumerGroupDescribeRequest(group_ids=["app"])
    assert travel(1, consumer_group_describe.API.failed(request, code)).groups[0].error_code == code
