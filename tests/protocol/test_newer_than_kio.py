"""Messages that kio does not have yet, and one of share groups, against bytes that Kafka 4.4.0's own classes made."""

from __future__ import annotations

import pytest

from purgatorio.protocol.api import APIS
from purgatorio.protocol.decoder import compile_decoder
from purgatorio.protocol.encoder import compile_encoder
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from purgatorio.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from purgatorio.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

DELETED = DeleteGroupsResponse(
    throttle_time_ms=5,
    results=[
        DeletableGroupResult(group_id="g", error_code=ErrorCode.GROUP_DELETION_FAILED, error_message="no"),
        DeletableGroupResult(group_id="h"),
    ],
)

TOPIC_ID = (1).to_bytes(8, "big") + (2).to_bytes(8, "big")
TXN_COMMIT = TxnOffsetCommitRequest(
    transactional_id="x",
    group_id="g",
    producer_id=5,
    producer_epoch=6,
    generation_id=3,
    member_id="m",
    topics=[
        TxnOffsetCommitRequestTopic(
            topic_id=TOPIC_ID,
            partitions=[TxnOffsetCommitRequestPartition(partition_index=1, committed_offset=9, committed_metadata="n")],
        )
    ],
)
TXN_COMMITTED = TxnOffsetCommitResponse(
    topics=[
        TxnOffsetCommitResponseTopic(
            topic_id=TOPIC_ID,
            partitions=[TxnOffsetCommitResponsePartition(partition_index=1, error_code=ErrorCode.UNKNOWN_TOPIC_ID)],
        )
    ]
)


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (DELETED, 3, "00000005 03 0267 0086 036e6f 00 0268 0000 00 00 00"),
        (DeleteGroupsRequest(groups_names=["g"]), 3, "02 0267 00"),
        (
            ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"]),
            1,
            "0267 026d 00000000 00 02 0274 00",
        ),
        (
            ApiVersionsRequest(client_software_name="a", client_software_version="1", cluster_id="c", node_id=7),
            5,
            "0261 0231 0263 00000007 00",
        ),
        (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 5, "0261 0231 00 ffffffff 00"),
        (
            TXN_COMMIT,
            6,
            "0278 0267 0000000000000005 0006 00000003 026d 00 02 00000000000000010000000000000002"
            "02 00000001 0000000000000009 ffffffff 026e 00 00 00",
        ),
        (TXN_COMMITTED, 6, "00000000 02 00000000000000010000000000000002 02 00000001 0064 00 00 00"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Message) else "",
)
def test_the_bytes_are_kafkas(message: Message, version: int, expected: str) -> None:
    cls = type(message)
    assert any(cls in (api.request, api.response) and version in api.versions for api in APIS.values())
    data = bytes.fromhex(expected)
    assert b"".join(compile_encoder(cls, version, True)(message)) == data
    assert compile_decoder(cls, version, True)(data) == message


def test_a_message_is_for_the_newest_version_alone() -> None:
    older = b"".join(compile_encoder(DeleteGroupsResponse, 2, True)(DELETED))
    assert older == bytes.fromhex("00000005 03 0267 0086 00 0268 0000 00 00")
