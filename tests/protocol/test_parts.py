"""Requests taken apart: what they name, how they fail, what is split and put together again."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.protocol import parts
from purgatorio.protocol.api import APIS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.encoder import compile_encoder
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStatePartition,
    DeleteStateTopic,
)
from purgatorio.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from purgatorio.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from purgatorio.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.protocol.random_messages import Maker

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ORDERS_ID = bytes(15) + b"\1"
LIST = parts.part_of(ApiKey.LIST_OFFSETS, "topics")


def offsets(**topics: tuple[int, ...]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=each) for each in indexes])
            for name, indexes in topics.items()
        ]
    )


def told(response: Any) -> dict[str, dict[int, int]]:
    return {
        topic.name: {each.partition_index: each.error_code for each in topic.partitions} for topic in response.topics
    }


def named(request: Any) -> list[str]:
    names = {ORDERS_ID: "orders"}
    return [str(each) for each in parts.named_partitions(request, names.get)]


# --- failures ---


@pytest.mark.parametrize("key", APIS)
def test_a_failed_request_has_an_answer_in_each_version(key: ApiKey) -> None:
    """Clients read it, whatever the request named; METADATA has a rule of its own for names that are null."""
    api = APIS[key]
    for version in api.versions:
        if key == ApiKey.METADATA and version >= 10:
            continue
        request = Maker(f"{key} {version}", version).message(api.request)
        compile_encoder(api.response, version, api.is_flexible(version))(parts.failed(key, request, DENIED))


def test_each_part_of_a_failed_request_has_the_error() -> None:
    failed = parts.failed(ApiKey.LIST_OFFSETS, offsets(orders=(1, 2), audits=(0,)), DENIED)
    assert told(failed) == {"orders": {1: DENIED, 2: DENIED}, "audits": {0: DENIED}}


def test_parts_within_parts_have_the_error() -> None:
    topic = WritableTxnMarkerTopic(name="orders", partition_indexes=[3])
    request = WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=7, topics=[topic])])
    (marker,) = parts.failed(ApiKey.WRITE_TXN_MARKERS, request, DENIED).markers
    assert marker.producer_id == 7
    assert marker.topics[0].partitions[0].partition_index == 3
    assert marker.topics[0].partitions[0].error_code == DENIED


def test_the_error_of_a_failed_fetch_is_that_of_its_session() -> None:
    request = FetchRequest(topics=[FetchTopic(topic="orders", partitions=[FetchPartition()])])
    failed = parts.failed(ApiKey.FETCH, request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert failed.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert failed.responses == []


def test_fields_of_refused_parts_say_that_nothing_is_known() -> None:
    topics = [FetchTopic(topic="orders", partitions=[FetchPartition(partition=4)])]
    ((partition,),) = (each.partitions for each in parts.part_of(ApiKey.FETCH, "topics").refused(topics, DENIED))
    assert (partition.partition_index, partition.error_code) == (4, DENIED)
    assert (partition.high_watermark, partition.records) == (-1, b"")


def test_topics_that_are_named_twice_are_refused_once_where_the_handler_does_so() -> None:
    twice = [DeleteTopicState(name="orders"), DeleteTopicState(name="audits"), DeleteTopicState(name="orders")]
    failed = parts.failed(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topics=twice), DENIED)
    assert [each.name for each in failed.responses] == ["orders", "audits"]


# --- splitting and merging ---


def test_a_request_is_split_and_its_answers_are_merged() -> None:
    request = offsets(orders=(1, 2), audits=(0,))
    chosen, others = parts.split(LIST, request, {(0, 1)})
    assert chosen == offsets(orders=(2,))
    assert others == offsets(orders=(1,), audits=(0,))
    assert request == offsets(orders=(1, 2), audits=(0,))
    answer = parts.failed(ApiKey.LIST_OFFSETS, others, ErrorCode.NONE)
    merged = LIST.merge(answer, parts.failed(ApiKey.LIST_OFFSETS, chosen, DENIED))
    assert told(merged) == {"orders": {1: 0, 2: DENIED}, "audits": {0: 0}}


def test_nothing_is_left_of_a_request_that_is_chosen_as_a_whole() -> None:
    assert parts.split(LIST, offsets(orders=(1,)), {(0, 0)}) == (offsets(orders=(1,)), None)


# --- names ---


def test_partitions_are_named_by_names_and_by_ids() -> None:
    topics = [
        FetchTopic(topic="audits", partitions=[FetchPartition(partition=1), FetchPartition(partition=2)]),
        FetchTopic(topic_id=ORDERS_ID, partitions=[FetchPartition(partition=0)]),
        FetchTopic(topic_id=bytes(15) + b"\2", partitions=[FetchPartition(partition=5)]),
    ]
    assert named(FetchRequest(topics=topics)) == ["audits-1", "audits-2", "orders-0", "-5"]


def test_a_fetch_does_not_ask_about_what_it_forgets() -> None:
    assert named(FetchRequest(forgotten_topics_data=[ForgottenTopic(topic="orders", partitions=[0])])) == []


def test_topics_are_named_in_the_arrays_of_all_versions() -> None:
    assert named(DeleteTopicsRequest(topic_names=["audits"])) == ["audits"]
    assert named(DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=ORDERS_ID)])) == ["orders"]


def test_groups_and_their_topics_are_named_within_arrays() -> None:
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1])]
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="a", topics=topics),
            OffsetFetchRequestGroup(group_id="b", topics=None),
        ]
    )
    assert named(request) == ["orders-0", "orders-1"]
    assert parts.named(request, Entity.GROUP_ID) == ["a", "b"]
    assert not parts.names(ApiKey.OFFSET_FETCH, Entity.TRANSACTIONAL_ID)


def test_a_coordinators_keys_are_what_its_type_says() -> None:
    groups = FindCoordinatorRequest(key="a")
    assert parts.named(groups, Entity.GROUP_ID) == ["a"]
    assert parts.named(groups, Entity.TRANSACTIONAL_ID) == []
    transactions = FindCoordinatorRequest(key_type=1, coordinator_keys=["t", "u"])
    assert parts.named(transactions, Entity.GROUP_ID) == []
    assert parts.named(transactions, Entity.TRANSACTIONAL_ID) == ["t", "u"]
    assert parts.names(ApiKey.FIND_COORDINATOR, Entity.GROUP_ID)


def test_requests_name_topics_by_their_ids_alone() -> None:
    topics = [
        DeleteStateTopic(topic_id=ORDERS_ID, partitions=[DeleteStatePartition(partition=3)]),
        DeleteStateTopic(topic_id=bytes(15) + b"\2", partitions=[DeleteStatePartition(partition=0)]),
    ]
    request = DeleteShareGroupStateRequest(group_id="billing", topics=topics)
    found = list(parts.named_partitions(request, {ORDERS_ID: "orders"}.get))
    assert [(each.topic, each.topic_id, each.partition) for each in found] == [
        ("orders", ORDERS_ID, 3),
        ("", bytes(15) + b"\2", 0),
    ]
    assert parts.named(request, Entity.GROUP_ID) == ["billing"]
    assert parts.topics_of(ApiKey.DELETE_SHARE_GROUP_STATE)
