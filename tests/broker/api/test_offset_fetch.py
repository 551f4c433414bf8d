"""OffsetFetch: the committed offsets of groups, and their errors where each client looks for them."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import offset_commit, offset_fetch
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.broker.api.group_requests import Coordinator, travel
from tests.broker.api.test_offset_commit import ORDERS_ID
from tests.broker.api.test_offset_commit import request as commit
from tests.broker.group.harness import offsets_topic
from tests.broker.replica.harness import topic

SINGLE = range(1, 8)
BATCHED = range(8, 11)


def single(*partitions: int, group_id: str = "app", name: str = "orders", all_topics: bool = False) -> Any:
    asked = [OffsetFetchRequestTopic(name=name, partition_indexes=list(partitions))]
    return OffsetFetchRequest(group_id=group_id, topics=None if all_topics else asked)


def group(
    *partitions: int,
    group_id: str = "app",
    name: str = "orders",
    topic_id: bytes = ORDERS_ID,
    all_topics: bool = False,
    **member: Any,
) -> OffsetFetchRequestGroup:
    asked = [OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=list(partitions))]
    return OffsetFetchRequestGroup(group_id=group_id, topics=None if all_topics else asked, **member)


def seen(topics: Any) -> list[tuple[int, int, int]]:
    """Partition, offset and error code of each."""
    return [
        (each.partition_index, each.committed_offset, each.error_code) for topic in topics for each in topic.partitions
    ]


@pytest.fixture
def broker() -> Coordinator:
    """Group app has committed 7 and 8 for partitions 0 and 1."""
    made = Coordinator()
    made.ask(offset_commit, 9, commit(7, 8, metadata="note"))
    return made


@pytest.mark.parametrize("version", SINGLE)
def test_offsets_of_one_group(broker: Coordinator, version: int) -> None:
    response = broker.ask(offset_fetch, version, single(0, 1, 2))
    assert seen(response.topics) == [(0, 7, 0), (1, 8, 0), (2, -1, 0)]
    assert [each.metadata for each in response.topics[0].partitions] == ["note", "note", ""]
    assert response.error_code == 0


@pytest.mark.parametrize("version", BATCHED)
def test_offsets_of_several_groups(broker: Coordinator, version: int) -> None:
    asked = OffsetFetchRequest(groups=[group(1), group(1, group_id="unknown")])
    app, unknown = broker.ask(offset_fetch, version, asked).groups
    assert (app.group_id, seen(app.topics), app.error_code) == ("app", [(1, 8, 0)], 0)
    assert (unknown.group_id, seen(unknown.topics), unknown.error_code) == ("unknown", [(1, -1, 0)], 0)


@pytest.mark.parametrize("version", BATCHED)
def test_a_group_whose_offsets_are_all_asked_for_again_and_again_is_answered_once(
    broker: Coordinator, version: int
) -> None:
    """A request of a few kilobytes would make an answer of megabytes."""
    asked = OffsetFetchRequest(groups=[group(all_topics=True), group(1), *[group(all_topics=True)] * 3, group(1)])
    answers = broker.ask(offset_fetch, version, asked).groups
    assert [seen(each.topics) for each in answers] == [[(0, 7, 0), (1, 8, 0)], [(1, 8, 0)], [(1, 8, 0)]]


@pytest.mark.parametrize("version", range(2, 8))
def test_null_topics_mean_all_with_an_offset(broker: Coordinator, version: int) -> None:
    assert seen(broker.ask(offset_fetch, version, single(all_topics=True)).topics) == [(0, 7, 0), (1, 8, 0)]


@pytest.mark.parametrize("version", BATCHED)
def test_null_topics_of_a_group_mean_all_with_an_offset(broker: Coordinator, version: int) -> None:
    asked = OffsetFetchRequest(groups=[group(all_topics=True), group(group_id="unknown", all_topics=True)])
    app, unknown = broker.ask(offset_fetch, version, asked).groups
    assert seen(app.topics) == [(0, 7, 0), (1, 8, 0)]
    assert app.topics[0].topic_id == (ORDERS_ID if version == 10 else bytes(16))
    assert unknown.topics == []


def test_an_unknown_topic_has_no_offset_and_no_error(broker: Coordinator) -> None:
    assert seen(broker.ask(offset_fetch, 7, single(0, name="nowhere")).topics) == [(0, -1, 0)]


def test_an_unknown_topic_id_is_an_error_of_its_partitions(broker: Coordinator) -> None:
    asked = OffsetFetchRequest(groups=[group(0, topic_id=b"x" * 16)])
    (app,) = broker.ask(offset_fetch, 10, asked).groups
    assert (app.error_code, seen(app.topics)) == (0, [(0, -1, ErrorCode.UNKNOWN_TOPIC_ID)])


def test_an_offset_of_a_deleted_topic_is_not_that_of_a_new_one_of_the_same_name(broker: Coordinator) -> None:
    broker.set_topics(offsets_topic((1,)), topic("orders", topic_id=b"n" * 16, replicas=(1,)))
    assert seen(broker.ask(offset_fetch, 7, single(0)).topics) == [(0, -1, 0)]
    assert broker.ask(offset_fetch, 7, single(all_topics=True)).topics == []


def test_the_leader_epoch_is_told(broker: Coordinator) -> None:
    asked = commit(7)
    asked.topics[0].partitions[0].committed_leader_epoch = 4
    broker.ask(offset_commit, 9, asked)
    assert broker.ask(offset_fetch, 5, single(0)).topics[0].partitions[0].committed_leader_epoch == 4


@pytest.mark.parametrize("version", SINGLE)
def test_before_version_8_a_groups_error_is_in_every_partition_too(broker: Coordinator, version: int) -> None:
    broker.may_lead = False
    response = broker.ask(offset_fetch, version, single(0, 1))
    assert seen(response.topics) == [(0, -1, ErrorCode.NOT_COORDINATOR), (1, -1, ErrorCode.NOT_COORDINATOR)]
    if version >= 2:
        assert response.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", BATCHED)
def test_since_version_8_each_group_has_its_error(broker: Coordinator, version: int) -> None:
    broker.elect(1, 2, replicas=(1,))
    (app,) = broker.ask(offset_fetch, version, OffsetFetchRequest(groups=[group(0)])).groups
    assert (app.error_code, app.topics) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


def test_kafka_17267_without_the_topic_of_groups_the_error_is_not_coordinator(broker: Coordinator) -> None:
    broker.set_topics(topic("orders"))
    assert broker.ask(offset_fetch, 7, single(0)).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(1, 11))
def test_a_whole_request_can_be_answered_with_an_error(version: int) -> None:
    asked = OffsetFetchRequest(groups=[group(0)]) if version >= 8 else single(0)
    response = travel(version, offset_fetch.API.failed(asked, ErrorCode.UNKNOWN_SERVER_ERROR))
    if version >= 8:
        assert response.groups[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        assert seen(response.topics) == [(0, -1, -1)]
