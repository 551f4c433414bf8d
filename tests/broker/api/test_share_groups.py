"""Share groups as clients and tools see them: heartbeats, descriptions, start offsets, and what other APIs say."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from purgatorio.broker.api import (
    alter_share_group_offsets,
    consumer_group_describe,
    delete_groups,
    delete_share_group_offsets,
    describe_groups,
    describe_share_group_offsets,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    share_group_describe,
    share_group_heartbeat,
)
from purgatorio.broker.api.answers import PIECE_BYTES
from purgatorio.broker.coordinator.end_offsets import EndOffset
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from purgatorio.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from purgatorio.protocol.messages.delete_groups import DeleteGroupsRequest
from purgatorio.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from purgatorio.protocol.messages.describe_groups import DescribeGroupsRequest
from purgatorio.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from purgatorio.protocol.messages.list_groups import ListGroupsRequest
from purgatorio.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from purgatorio.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from purgatorio.protocol.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from purgatorio.protocol.primitives import ZERO_UUID
from purgatorio.protocol.share_state import SharePartitionKey
from tests.broker.api.group_requests import Coordinator, travel
from tests.broker.api.test_offset_commit import request as commit
from tests.broker.group.harness import offsets_topic
from tests.broker.replica.harness import topic

NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


@pytest.fixture
def broker() -> Coordinator:
    return Coordinator()


def beat(member_id: str = "one", member_epoch: int = 0, **fields: Any) -> ShareGroupHeartbeatRequest:
    known: dict[str, Any] = {"group_id": "app", "member_id": member_id, "member_epoch": member_epoch}
    if member_epoch == 0:
        known["subscribed_topic_names"] = ["orders"]
    return ShareGroupHeartbeatRequest(**{**known, **fields})


def describe(broker: Coordinator, group_id: str = "app") -> DescribedGroup:
    request = ShareGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=True)
    (group,) = broker.ask(share_group_describe, 1, request).groups
    assert isinstance(group, DescribedGroup)
    return group


def empty(broker: Coordinator) -> None:
    """Let there be a group with states, and without members."""
    broker.ask(share_group_heartbeat, 1, beat())
    broker.ask(share_group_heartbeat, 1, beat(member_epoch=-1))


# --- heartbeats and descriptions ---


def test_a_member_that_joins_is_told_its_epoch_and_its_partitions(broker: Coordinator) -> None:
    answer = broker.ask(share_group_heartbeat, 1, beat())
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.NONE, "one", 2)
    (topic,) = answer.assignment.topic_partitions
    assert (topic.topic_id, topic.partitions) == (broker.image.topics["orders"].topic_id, [0, 1, 2])
    assert answer.heartbeat_interval_ms == 250


def test_a_refusal_has_a_message(broker: Coordinator) -> None:
    answer = broker.ask(share_group_heartbeat, 1, beat(member_epoch=3))
    assert (answer.error_code, "app" in answer.error_message) == (NOT_FOUND, True)


def test_a_group_of_very_many_topics_is_answered_by_steps(broker: Coordinator) -> None:
    names = [f"t{number}" for number in range(1_001)]
    replies = broker.post(share_group_heartbeat, 1, beat(subscribed_topic_names=names))
    assert replies.said == []
    for _ in broker.group_work.turns():
        pass
    assert travel(1, replies.only).member_epoch == 1


def test_a_group_is_described_with_its_members(broker: Coordinator) -> None:
    broker.ask(share_group_heartbeat, 1, beat(rack_id="r"))
    broker.ask(share_group_heartbeat, 1, beat("two"))
    group = describe(broker)
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Stable",
        3,
        3,
        "simple",
    )
    one, two = group.members
    assert (one.member_id, one.rack_id, one.member_epoch, two.member_epoch) == ("one", "r", 2, 3)
    assert (one.client_id, one.client_host, one.subscribed_topic_names) == ("test", "/127.0.0.1", ["orders"])
    told = [(each.topic_name, each.partitions) for each in one.assignment.topic_partitions]
    assert told == [("orders", [0, 1, 2])]
    assert group.authorized_operations > 0


def test_groups_that_are_no_share_groups_are_not_found(broker: Coordinator) -> None:
    broker.ask(offset_commit, 9, commit(7, group_id="offsets"))
    assert [describe(broker, each).error_code for each in ("none", "offsets", "")] == [
        NOT_FOUND,
        NOT_FOUND,
        ErrorCode.INVALID_GROUP_ID,
    ]


# --- what other APIs say ---


def test_a_share_group_is_listed_by_its_type_and_state(broker: Coordinator) -> None:
    broker.ask(share_group_heartbeat, 1, beat())
    broker.ask(offset_commit, 9, commit(7, group_id="offsets"))

    def listed(**filters: list[str]) -> list[tuple[str, str, str, str]]:
        groups = broker.ask(list_groups, 5, ListGroupsRequest(**filters)).groups
        return [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in groups]

    assert listed(types_filter=["Share"]) == [("app", "share", "Stable", "share")]
    assert listed(states_filter=["stable"], types_filter=["share"]) == listed(types_filter=["share"])
    assert listed(states_filter=["Empty"], types_filter=["share"]) == []
    broker.ask(share_group_heartbeat, 1, beat(member_epoch=-1))
    assert listed(types_filter=["share"]) == [("app", "share", "Empty", "share")]
    assert len(listed()) == 2


def test_descriptions_of_other_kinds_do_not_find_it(broker: Coordinator) -> None:
    broker.ask(share_group_heartbeat, 1, beat())
    (classic,) = broker.ask(describe_groups, 6, DescribeGroupsRequest(groups=["app"])).groups
    (older,) = broker.ask(describe_groups, 5, DescribeGroupsRequest(groups=["app"])).groups
    (consumer,) = broker.ask(consumer_group_describe, 1, ConsumerGroupDescribeRequest(group_ids=["app"])).groups
    assert (classic.error_code, classic.error_message) == (NOT_FOUND, "Group app is not a classic group.")
    assert (older.error_code, older.group_state) == (0, "Dead")
    assert (consumer.error_code, consumer.error_message) == (NOT_FOUND, "Group app is not a consumer group.")


def test_it_takes_no_offsets_and_has_none(broker: Coordinator) -> None:
    broker.ask(share_group_heartbeat, 1, beat())
    (topic,) = broker.ask(offset_commit, 9, commit(7)).topics
    assert [each.error_code for each in topic.partitions] == [NOT_FOUND]
    fetched = OffsetFetchRequestGroup(
        group_id="app", topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    )
    (group,) = broker.ask(offset_fetch, 9, OffsetFetchRequest(groups=[fetched])).groups
    assert (group.error_code, group.topics[0].partitions[0].committed_offset) == (0, -1)
    deleted = OffsetDeleteRequestTopic(name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    assert broker.ask(offset_delete, 0, OffsetDeleteRequest(group_id="app", topics=[deleted])).error_code == NOT_FOUND


@pytest.mark.parametrize("version", range(4))
def test_a_group_is_deleted_after_its_states(broker: Coordinator, version: int) -> None:
    broker.ask(share_group_heartbeat, 1, beat())

    def delete() -> tuple[int, str | None]:
        replies = broker.post(delete_groups, version, DeleteGroupsRequest(groups_names=["app"]))
        broker.clean()
        (result,) = travel(version, replies.only).results
        return result.error_code, result.error_message

    assert delete() == (ErrorCode.NON_EMPTY_GROUP, None)
    broker.ask(share_group_heartbeat, 1, beat(member_epoch=-1))
    broker.persister.errors = {"orders-1": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert delete() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    broker.persister.errors = {}
    assert delete() == (0, None)
    assert broker.persister.states == {}
    assert delete()[0] == NOT_FOUND


# --- start offsets ---


def ask_offsets(broker: Coordinator, request: DescribeShareGroupOffsetsRequest, version: int = 1) -> Any:
    replies = broker.post(describe_share_group_offsets, version, request)
    for _ in broker.group_work.turns():
        pass
    return travel(version, replies.only)


def described(broker: Coordinator, *topics: tuple[str, list[int]], version: int = 1, group_id: str = "app") -> Any:
    asked = [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=each) for name, each in topics]
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=asked or None)]
    )
    (group,) = ask_offsets(broker, request, version).groups
    return group


@pytest.mark.parametrize("version", [0, 1])
def test_offsets_are_described_with_their_lag(broker: Coordinator, version: int) -> None:
    empty(broker)
    topic_id = broker.image.topics["orders"].topic_id
    state = broker.persister.states[SharePartitionKey("app", topic_id, 1)]
    state.start_offset, state.leader_epoch, state.delivery_complete_count = 10, 4, 2
    broker.ends[TopicPartition("orders", 1)] = EndOffset(ErrorCode.NONE, 20)
    (topic,) = described(broker, version=version).topics
    assert (topic.topic_name, topic.topic_id) == ("orders", topic_id)
    told = [(each.partition_index, each.start_offset, each.leader_epoch, each.lag) for each in topic.partitions]
    assert told == [(0, -1, 0, -1), (1, 10, 4, 8 if version else -1), (2, -1, 0, -1)]


def test_a_log_end_that_cannot_be_told_is_the_error_of_its_partition(broker: Coordinator) -> None:
    empty(broker)
    broker.persister.states[SharePartitionKey("app", broker.image.topics["orders"].topic_id, 0)].start_offset = 1
    broker.ends[TopicPartition("orders", 0)] = EndOffset(ErrorCode.NETWORK_EXCEPTION)
    (partition,) = described(broker, ("orders", [0])).topics[0].partitions
    assert (partition.error_code, "NETWORK_EXCEPTION" in partition.error_message) == (
        ErrorCode.NETWORK_EXCEPTION,
        True,
    )


def test_topics_and_groups_that_do_not_exist_have_no_offsets(broker: Coordinator) -> None:
    (topic,) = described(broker, ("nothing", [0])).topics
    assert (topic.topic_id, topic.partitions[0].start_offset) == (ZERO_UUID, -1)
    assert (described(broker).topics, described(broker).error_code) == ([], 0)
    assert ask_offsets(broker, DescribeShareGroupOffsetsRequest()).groups == []


def test_a_long_description_is_made_in_turns_and_repeats_nothing(broker: Coordinator) -> None:
    broker.set_topics(offsets_topic(), topic("orders", partitions=500, replicas=(1,)))
    empty(broker)
    every = DescribeShareGroupOffsetsRequestGroup(group_id="app", topics=None)
    some = DescribeShareGroupOffsetsRequestGroup(
        group_id="app",
        topics=[DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[]) for name in ("a", "b")],
    )
    replies = broker.post(
        describe_share_group_offsets, 1, DescribeShareGroupOffsetsRequest(groups=[every, some, every])
    )
    assert sum(1 for _ in broker.group_work.turns()) >= 3
    first, second = travel(1, replies.only).groups
    assert [[each.partition_index for each in told.partitions] for told in first.topics] == [list(range(500))]
    assert [each.topic_name for each in second.topics] == ["a", "b"]


def test_a_description_that_has_no_more_room_asks_to_be_asked_again(
    broker: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_share_group_offsets, "MAX_ANSWER_BYTES", 3 * PIECE_BYTES)
    empty(broker)
    asked = [DescribeShareGroupOffsetsRequestGroup(group_id=each, topics=None) for each in ("app", "b")]
    groups = ask_offsets(broker, DescribeShareGroupOffsetsRequest(groups=asked)).groups
    assert [each.error_code for each in groups] == [0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


@pytest.mark.parametrize(
    ("api", "version", "request_of"),
    [
        (alter_share_group_offsets, 0, lambda: AlterShareGroupOffsetsRequest(group_id="app")),
        (delete_share_group_offsets, 0, lambda: DeleteShareGroupOffsetsRequest(group_id="app")),
        (share_group_heartbeat, 1, beat),
    ],
)
def test_a_broker_that_is_not_the_coordinator_says_so(
    broker: Coordinator, api: ModuleType, version: int, request_of: Any
) -> None:
    broker.may_lead = False
    assert broker.ask(api, version, request_of()).error_code == ErrorCode.NOT_COORDINATOR
    assert described(broker).error_code == ErrorCode.NOT_COORDINATOR
    assert describe(broker).error_code == ErrorCode.NOT_COORDINATOR


def alter(broker: Coordinator, group_id: str = "app", **starts: dict[int, int]) -> Any:
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
                for number, offset in each.items()
            ],
        )
        for name, each in starts.items()
    ]
    request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
    return broker.ask(alter_share_group_offsets, 0, request)


def test_offsets_are_altered_and_each_partition_has_its_result(broker: Coordinator) -> None:
    empty(broker)
    broker.persister.errors = {"orders-2": ErrorCode.FENCED_STATE_EPOCH}
    answer = alter(broker, orders={0: 5, 1: -2, 2: 5, 9: 5}, nothing={0: 1})
    assert answer.error_code == 0
    told = {each.topic_name: [one.error_code for one in each.partitions] for each in answer.responses}
    assert told == {
        "orders": [
            0,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.FENCED_STATE_EPOCH,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ],
        "nothing": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    }
    topic_id = broker.image.topics["orders"].topic_id
    assert [each.topic_id for each in answer.responses] == [topic_id, ZERO_UUID]
    assert broker.persister.states[SharePartitionKey("app", topic_id, 0)].start_offset == 5


def test_offsets_of_a_group_with_members_are_refused_as_a_whole(broker: Coordinator) -> None:
    broker.ask(share_group_heartbeat, 1, beat())
    for answer in (alter(broker, orders={0: 5}), delete(broker, "orders")):
        assert (answer.error_code, answer.responses) == (ErrorCode.NON_EMPTY_GROUP, [])
        assert "app" in answer.error_message
    assert alter(broker, "", orders={0: 5}).error_code == ErrorCode.INVALID_GROUP_ID


def delete(broker: Coordinator, *topics: str) -> Any:
    asked = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    return broker.ask(delete_share_group_offsets, 0, DeleteShareGroupOffsetsRequest(group_id="app", topics=asked))


def test_offsets_are_deleted_and_each_topic_has_its_result(broker: Coordinator) -> None:
    assert delete(broker, "orders").error_code == NOT_FOUND
    empty(broker)
    answer = delete(broker, "orders", "nothing")
    told = [(each.topic_name, each.error_code, each.error_message) for each in answer.responses]
    nothing = "There is no offset information to delete."
    assert told == [("orders", 0, None), ("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, nothing)]
    assert broker.persister.states == {}
    assert described(broker).topics == []
