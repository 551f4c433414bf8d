"""The records of `__share_group_state`: bytes that Kafka's own classes made, and what readers skip."""

from __future__ import annotations

import pytest

from purgatorio.protocol.api import decode_request, decode_request_header, encode_request
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import DecodeError
from purgatorio.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStatePartition,
    WriteStateTopic,
)
from purgatorio.protocol.share_state import (
    Key,
    RecordState,
    SharePartitionKey,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

TOPIC_ID = bytes.fromhex("112233445566778899aabbccddeeff00")

SNAPSHOT = ShareSnapshotValue(
    snapshot_epoch=0,
    state_epoch=1,
    leader_epoch=2,
    start_offset=10,
    create_timestamp_ms=1_000,
    write_timestamp_ms=1_000,
    state_batches=[
        StateBatch(first_offset=10, last_offset=14, delivery_state=RecordState.ACKNOWLEDGED, delivery_count=1)
    ],
    delivery_complete_count=5,
)
UPDATE = ShareUpdateValue(
    snapshot_epoch=0,
    leader_epoch=2,
    start_offset=-1,
    state_batches=[StateBatch(first_offset=15, last_offset=15, delivery_state=RecordState.AVAILABLE, delivery_count=2)],
    delivery_complete_count=0,
)
KEY_REST = "0001 67 112233445566778899aabbccddeeff00 00000003"
RECORDS = [
    pytest.param(
        ShareSnapshotKey(group_id="g", topic_id=TOPIC_ID, partition=3),
        SNAPSHOT,
        f"0000 {KEY_REST}",
        "0000 00000000 00000001 00000002 000000000000000a 00000000000003e8 00000000000003e8"
        "02 000000000000000a 000000000000000e 02 0001 00 01 00 04 00000005",
        id="snapshot",
    ),
    pytest.param(
        ShareUpdateKey(group_id="g", topic_id=TOPIC_ID, partition=3),
        UPDATE,
        f"0001 {KEY_REST}",
        "0000 00000000 00000002 ffffffffffffffff 02 000000000000000f 000000000000000f 00 0002 00 01 00 04 00000000",
        id="update",
    ),
]


@pytest.mark.parametrize(("key", "value", "key_hex", "value_hex"), RECORDS)
def test_records_are_those_of_kafka(key: Key, value: Value, key_hex: str, value_hex: str) -> None:
    assert encode_key(key) == bytes.fromhex(key_hex)
    assert encode_value(value) == bytes.fromhex(value_hex)
    assert decode_key(bytes.fromhex(key_hex)) == key
    assert decode_value(key, bytes.fromhex(value_hex)) == value


def test_a_tombstone_has_no_value() -> None:
    key = ShareSnapshotKey(group_id="g", topic_id=TOPIC_ID, partition=3)
    assert decode_value(key, None) is None


def test_records_of_other_types_are_skipped() -> None:
    assert decode_key(bytes.fromhex(f"0002 {KEY_REST}")) is None
    assert decode_key(bytes.fromhex(f"ffff {KEY_REST}")) is None


def test_a_value_of_an_unknown_version_is_refused() -> None:
    key = ShareSnapshotKey(group_id="g", topic_id=TOPIC_ID, partition=3)
    with pytest.raises(DecodeError, match="version 1"):
        decode_value(key, bytes.fromhex("0001 00"))


def test_a_share_partition_has_the_coordinator_that_kafka_gives_it() -> None:
    key = SharePartitionKey("g", TOPIC_ID, 3)
    assert str(key) == "g:ESIzRFVmd4iZqrvM3e7_AA:3"
    assert coordinator_partition(str(key), 50) == 3
    assert SharePartitionKey.parse(str(key)) == key


def test_a_group_id_may_have_colons() -> None:
    key = SharePartitionKey("a:b:c", TOPIC_ID, 12)
    assert SharePartitionKey.parse(str(key)) == key


@pytest.mark.parametrize(
    "text",
    ["", "g", "g:3", "g:ESIzRFVmd4iZqrvM3e7_AA", ":ESIzRFVmd4iZqrvM3e7_AA:3", "g:ESIz:3", "g:ESIzRFVmd4iZqrvM3e7_AA:x"],
)
def test_what_names_no_share_partition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        SharePartitionKey.parse(text)


def test_acknowledged_and_archived_records_are_never_delivered_again() -> None:
    assert [state.name for state in RecordState if state.is_terminal] == ["ACKNOWLEDGED", "ARCHIVED"]


# --- requests ---


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (
            0,
            "026702112233445566778899aabbccddeeff0002000000030000000100000002000000000000000a"
            "02000000000000000a000000000000000e02000100000000",
        ),
        (
            1,
            "026702112233445566778899aabbccddeeff0002000000030000000100000002000000000000000a00000000"
            "02000000000000000a000000000000000e02000100000000",
        ),
    ],
)
def test_a_write_is_that_of_kafka(version: int, data: str) -> None:
    partition = WriteStatePartition(
        partition=3,
        state_epoch=1,
        leader_epoch=2,
        start_offset=10,
        delivery_complete_count=0,
        state_batches=SNAPSHOT.state_batches,
    )
    topics = [WriteStateTopic(topic_id=TOPIC_ID, partitions=[partition])]
    request = WriteShareGroupStateRequest(group_id="g", topics=topics)
    frame = b"".join(encode_request(ApiKey.WRITE_SHARE_GROUP_STATE, version, 7, "c", request))
    assert frame.endswith(bytes.fromhex(data))
    header, position = decode_request_header(frame[4:])
    decoded = decode_request(header, frame[4:], position)
    if version == 0:
        partition.delivery_complete_count = -1
    assert decoded == request
