"""The handlers of the five APIs about the states of share partitions."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, ClassVar

import pytest

from purgatorio.broker.api import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.routing.request import Route
from purgatorio.broker.share.state_client import MAX_PARTITIONS, MAX_READS
from purgatorio.protocol.api import APIS, decode_request, decode_request_header, decode_response, encode_request
from purgatorio.protocol.api import encode_response as encode
from purgatorio.protocol.api_key import SHARE_APIS, SHARE_STATE_APIS, ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStatePartition,
    DeleteStateTopic,
)
from purgatorio.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
    InitializeStateTopic,
)
from purgatorio.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStatePartition,
    ReadStateTopic,
)
from purgatorio.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryPartition,
    ReadStateSummaryTopic,
)
from purgatorio.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStatePartition,
    WriteStateTopic,
)
from tests.broker.api.harness import Replies, context
from tests.broker.share.state.harness import KEY, ORDERS_ID, OTHER, ShareHarness, batch, initialized

Result = tuple[bytes, int, int]
MODULES: dict[ApiKey, ModuleType] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: initialize_share_group_state,
    ApiKey.READ_SHARE_GROUP_STATE: read_share_group_state,
    ApiKey.WRITE_SHARE_GROUP_STATE: write_share_group_state,
    ApiKey.DELETE_SHARE_GROUP_STATE: delete_share_group_state,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: read_share_group_state_summary,
}
SHAPES: dict[ApiKey, tuple[Any, Any, Any]] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (
        InitializeShareGroupStateRequest,
        InitializeStateTopic,
        InitializeStatePartition,
    ),
    ApiKey.READ_SHARE_GROUP_STATE: (ReadShareGroupStateRequest, ReadStateTopic, ReadStatePartition),
    ApiKey.WRITE_SHARE_GROUP_STATE: (WriteShareGroupStateRequest, WriteStateTopic, WriteStatePartition),
    ApiKey.DELETE_SHARE_GROUP_STATE: (DeleteShareGroupStateRequest, DeleteStateTopic, DeleteStatePartition),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (
        ReadShareGroupStateSummaryRequest,
        ReadStateSummaryTopic,
        ReadStateSummaryPartition,
    ),
}
EACH = pytest.mark.parametrize("key", sorted(SHARE_STATE_APIS), ids=lambda key: key.name.lower())


def request_of(key: ApiKey, *partitions: int, group_id: str = "billing", **fields: Any) -> Any:
    """A request about these partitions of "orders"."""
    request, topic, entry = SHAPES[key]
    entries = [entry(partition=each, **fields) for each in partitions]
    return request(group_id=group_id, topics=[topic(topic_id=ORDERS_ID, partitions=entries)])


def send(broker: ShareHarness, key: ApiKey, request: Any, version: int = -1) -> Replies:
    """Encode and decode a request, and call its handler."""
    version = APIS[key].versions[version]
    frame = b"".join(encode_request(key, version, 7, "test", request))[4:]
    header, position = decode_request_header(frame)
    replies = Replies()
    handle = MODULES[key].handle
    handle(broker.coordinator, context(key, version), decode_request(header, frame, position), replies)
    replies.said = [
        decode_response(key, version, b"".join(encode(key, version, 7, each))[4:])[1] for each in replies.said
    ]
    return replies


def ask(broker: ShareHarness, key: ApiKey, request: Any, version: int = -1) -> Any:
    return send(broker, key, request, version).only


def codes(answer: Any) -> list[int]:
    return [each.error_code for topic in answer.results for each in topic.partitions]


def only(answer: Any) -> Any:
    """The only entry of an answer."""
    ((topic,), (entry,)) = answer.results, answer.results[0].partitions
    assert topic.topic_id == ORDERS_ID
    return entry


def test_a_state_is_begun_read_written_summed_up_and_deleted() -> None:
    broker = ShareHarness()
    initialize = request_of(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 1, state_epoch=3, start_offset=10)
    assert only(ask(broker, ApiKey.INITIALIZE_SHARE_GROUP_STATE, initialize)).error_code == 0
    write = request_of(
        ApiKey.WRITE_SHARE_GROUP_STATE,
        1,
        state_epoch=3,
        leader_epoch=2,
        start_offset=12,
        delivery_complete_count=2,
        state_batches=[batch(13, 14)],
    )
    assert only(ask(broker, ApiKey.WRITE_SHARE_GROUP_STATE, write)).error_code == 0
    read = only(
        ask(broker, ApiKey.READ_SHARE_GROUP_STATE, request_of(ApiKey.READ_SHARE_GROUP_STATE, 1, leader_epoch=5))
    )
    assert (read.partition, read.error_code, read.error_message) == (1, 0, None)
    assert (read.state_epoch, read.start_offset, read.state_batches) == (3, 12, [batch(13, 14)])
    summary = request_of(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 1, leader_epoch=5)
    found = only(ask(broker, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, summary))
    assert (found.state_epoch, found.leader_epoch, found.start_offset) == (3, 5, 12)
    assert found.delivery_complete_count == 2
    old = only(ask(broker, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, summary, 0))
    assert (old.start_offset, old.delivery_complete_count) == (12, -1)
    delete = request_of(ApiKey.DELETE_SHARE_GROUP_STATE, 1)
    assert only(ask(broker, ApiKey.DELETE_SHARE_GROUP_STATE, delete)).error_code == 0
    found = only(ask(broker, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, summary))
    assert (found.error_code, found.start_offset, found.delivery_complete_count) == (0, -1, -1)


def test_a_write_of_version_0_tells_no_complete_count() -> None:
    broker = ShareHarness()
    initialized(broker)
    request = request_of(ApiKey.WRITE_SHARE_GROUP_STATE, 0, state_epoch=1, delivery_complete_count=5)
    assert codes(ask(broker, ApiKey.WRITE_SHARE_GROUP_STATE, request, 0)) == [0]
    assert broker.summary().state.delivery_complete_count == -1


@EACH
def test_each_share_partition_has_its_own_error_with_a_message(key: ApiKey) -> None:
    broker = ShareHarness()
    for each in (KEY, OTHER):
        broker.initialize(each, state_epoch=0)
    answer = ask(broker, key, request_of(key, 0, -1, 1))
    assert codes(answer) == [0, ErrorCode.INVALID_REQUEST, 0]
    assert answer.results[0].partitions[1].error_message == "There is no partition -1."


def test_fenced_requests_are_told_so() -> None:
    broker = ShareHarness()
    broker.initialize(state_epoch=5)
    broker.read(leader_epoch=5)
    for key, fields, code in (
        (ApiKey.INITIALIZE_SHARE_GROUP_STATE, {"state_epoch": 4}, ErrorCode.FENCED_STATE_EPOCH),
        (ApiKey.WRITE_SHARE_GROUP_STATE, {"state_epoch": 4, "leader_epoch": 5}, ErrorCode.FENCED_STATE_EPOCH),
        (ApiKey.WRITE_SHARE_GROUP_STATE, {"state_epoch": 5, "leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        (ApiKey.READ_SHARE_GROUP_STATE, {"leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
    ):
        assert codes(ask(broker, key, request_of(key, 0, **fields))) == [code]


def test_invalid_request_of_a_read_without_a_leader_epoch() -> None:
    broker = ShareHarness()
    initialized(broker)
    answer = ask(broker, ApiKey.READ_SHARE_GROUP_STATE, request_of(ApiKey.READ_SHARE_GROUP_STATE, 0, leader_epoch=-1))
    assert codes(answer) == [ErrorCode.INVALID_REQUEST]


@EACH
def test_requests_are_answered_when_all_outcomes_are_committed(key: ApiKey) -> None:
    broker = ShareHarness((1, 2))
    initialized(broker)
    broker.write(batch(0, 0))
    replies = send(broker, key, request_of(key, 0, 1))
    assert replies.said == []
    # The harness decodes answers that are there at once; this one comes later.
    broker.commit()
    assert len(replies.said) == 1


@EACH
@pytest.mark.parametrize(
    ("group_id", "partitions"), [("", (0,)), ("billing", ())], ids=["no group", "topic without partitions"]
)
def test_a_request_about_nothing_has_an_empty_answer_as_in_kafka(
    key: ApiKey, group_id: str, partitions: Sequence[int]
) -> None:
    request = request_of(key, *partitions, group_id=group_id)
    assert ask(ShareHarness(), key, request).results == []


@EACH
def test_a_request_without_topics_has_an_empty_answer(key: ApiKey) -> None:
    assert ask(ShareHarness(), key, SHAPES[key][0](group_id="billing")).results == []


@EACH
def test_too_many_share_partitions_are_to_be_asked_about_again(key: ApiKey) -> None:
    broker = ShareHarness()
    limit = MAX_READS if key == ApiKey.READ_SHARE_GROUP_STATE else MAX_PARTITIONS
    broker.initialize()
    found = codes(ask(broker, key, request_of(key, *[0] * limit, 0, 0)))
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS not in found[:limit]
    assert found[limit:] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2


@EACH
def test_share_groups_that_are_switched_off_refuse_each_share_partition(key: ApiKey) -> None:
    registered: ApiHandler = MODULES[key].API

    class Off:
        share_version = 0
        versions: ClassVar = {registered.key: registered.versions}

    route: Route = registered.route(Off())  # type: ignore[arg-type]
    replies = Replies()
    route.handler(context(key, 0), request_of(key, 0, 1), replies)
    assert codes(replies.only) == [ErrorCode.UNSUPPORTED_VERSION] * 2


def test_the_apis_of_share_groups_are_known() -> None:
    assert {key.value for key in SHARE_APIS} == {*range(76, 80), *range(83, 88), *range(90, 93)}
    assert {key.value for key in SHARE_STATE_APIS} == {*range(83, 88)}
