"""The records of `__consumer_offsets`: bytes worked out by hand from Kafka's definitions, and what readers skip."""

from __future__ import annotations

import pytest

from purgatorio.protocol.consumer_offsets import (
    KINDS,
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordKind,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from purgatorio.protocol.errors import DecodeError, EncodeError
from purgatorio.protocol.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentPartitions,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TargetPartitions,
    TopicInfo,
    TopicPartitionsInfo,
)
from tests.protocol.random_messages import Maker

ROUNDS = 20
TOPIC_ID = bytes(range(16))
TOPIC_ID_HEX = TOPIC_ID.hex()
SHARED_ID = bytes.fromhex("112233445566778899aabbccddeeff00")

OFFSET_KEY = OffsetCommitKey(group_id="g", topic="t", partition=3)
OFFSET = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp_ms=9)

RECORDS: list[tuple[Key, str, Value, str]] = [
    (
        OFFSET_KEY,
        "0001 000167 000174 00000003",
        OFFSET,
        "0004 0000000000000005 00000002 026d 0000000000000009 00",
    ),
    (
        OFFSET_KEY,
        "0001 000167 000174 00000003",
        OffsetCommitValue(offset=5, metadata="m", commit_timestamp_ms=9, topic_id=TOPIC_ID),
        f"0004 0000000000000005 ffffffff 026d 0000000000000009 01 00 10 {TOPIC_ID_HEX}",
    ),
    (
        OFFSET_KEY,
        "0001 000167 000174 00000003",
        OffsetCommitValue(offset=5, metadata="m", commit_timestamp_ms=9, expire_timestamp_ms=10),
        "0001 0000000000000005 00016d 0000000000000009 000000000000000a",
    ),
    (
        GroupMetadataKey(group_id="g"),
        "0002 000167",
        GroupMetadataValue(protocol_type="", generation=2, current_state_timestamp_ms=9),
        "0003 0000 00000002 ffff ffff 0000000000000009 00000000",
    ),
    (
        GroupMetadataKey(group_id="g"),
        "0002 000167",
        GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol="range",
            leader="m",
            current_state_timestamp_ms=9,
            members=[
                MemberMetadata(
                    member_id="m",
                    client_id="c",
                    client_host="/h",
                    rebalance_timeout_ms=7,
                    session_timeout_ms=6,
                    subscription=b"s",
                    assignment=b"a",
                )
            ],
        ),
        "0003 0008636f6e73756d6572 00000001 000572616e6765 00016d 0000000000000009 00000001"
        "00016d ffff 000163 00022f68 00000007 00000006 0000000173 0000000161",
    ),
    (
        ConsumerGroupMetadataKey(group_id="g"),
        "0003 000167",
        ConsumerGroupMetadataValue(epoch=4, metadata_hash=-2),
        "0000 00000004 01 00 08 fffffffffffffffe",
    ),
    (
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        "0005 000167 00016d",
        ConsumerGroupMemberMetadataValue(
            client_id="c", client_host="/h", subscribed_topic_names=["t"], rebalance_timeout_ms=7
        ),
        # Kafka 4.3 takes a record without tag 0 for a classic member's: one byte of 0 in the tag is null.
        "0000 00 00 0263 032f68 02 0274 00 00000007 00 01 00 01 00",
    ),
    (
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        "0005 000167 00016d",
        ConsumerGroupMemberMetadataValue(
            instance_id="i",
            rack_id="r",
            client_id="c",
            client_host="/h",
            subscribed_topic_regex="x",
            rebalance_timeout_ms=7,
            server_assignor="u",
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=6, supported_protocols=[ClassicProtocol(name="p", metadata=b"s")]
            ),
        ),
        "0000 0269 0272 0263 032f68 01 0278 00000007 0275 01 00 0c 01 00000006 02 0270 0273 00 00",
    ),
    (
        ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
        "0006 000167",
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4, assignment_timestamp_ms=9),
        "0000 00000004 01 00 08 0000000000000009",
    ),
    (
        ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
        "0007 000167 00016d",
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[TargetPartitions(topic_id=TOPIC_ID, partitions=[1, 2])]
        ),
        f"0000 02 {TOPIC_ID_HEX} 03 00000001 00000002 00 00",
    ),
    (
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        "0008 000167 00016d",
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=5,
            previous_member_epoch=4,
            state=1,
            assigned_partitions=[CurrentPartitions(topic_id=TOPIC_ID, partitions=[1], assignment_epochs=[4])],
            partitions_pending_revocation=[CurrentPartitions(topic_id=TOPIC_ID, partitions=[2])],
        ),
        f"0000 00000005 00000004 01 02 {TOPIC_ID_HEX} 02 00000001 01 00 05 02 00000004"
        f"02 {TOPIC_ID_HEX} 02 00000002 00 00",
    ),
    (
        ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="x.*"),
        "0010 000167 0003782e2a",
        ConsumerGroupRegularExpressionValue(topics=["xa"], version=8, timestamp_ms=9),
        "0000 02 037861 0000000000000008 0000000000000009 00",
    ),
    # The bytes of share groups were made by the classes of Kafka 4.4.0.
    (
        ShareGroupMemberMetadataKey(group_id="g", member_id="m"),
        "000a 000167 00016d",
        ShareGroupMemberMetadataValue(client_id="c", client_host="/127.0.0.1", subscribed_topic_names=["t"]),
        "0000 00 0263 0b2f3132372e302e302e31 02 0274 00",
    ),
    (
        ShareGroupMetadataKey(group_id="g"),
        "000b 000167",
        ShareGroupMetadataValue(epoch=7, metadata_hash=42),
        "0000 00000007 000000000000002a 00",
    ),
    (
        ShareGroupTargetAssignmentMetadataKey(group_id="g"),
        "000c 000167",
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch=7, assignment_timestamp_ms=1_000),
        "0000 00000007 01 00 08 00000000000003e8",
    ),
    (
        ShareGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
        "000d 000167 00016d",
        ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[TargetPartitions(topic_id=SHARED_ID, partitions=[0, 1])]
        ),
        "0000 02 112233445566778899aabbccddeeff00 03 00000000 00000001 00 00",
    ),
    (
        ShareGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        "000e 000167 00016d",
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=7,
            previous_member_epoch=6,
            assigned_partitions=[TargetPartitions(topic_id=SHARED_ID, partitions=[0, 1])],
        ),
        "0000 00000007 00000006 00 02 112233445566778899aabbccddeeff00 03 00000000 00000001 00 00",
    ),
    (
        ShareGroupStatePartitionMetadataKey(group_id="g"),
        "000f 000167",
        ShareGroupStatePartitionMetadataValue(
            initialized_topics=[TopicPartitionsInfo(topic_id=SHARED_ID, topic_name="t", partitions=[0, 1])]
        ),
        "0000 01 02 112233445566778899aabbccddeeff00 0274 03 00000000 00000001 00 01 00",
    ),
    (
        ShareGroupStatePartitionMetadataKey(group_id="g"),
        "000f 000167",
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=[TopicPartitionsInfo(topic_id=SHARED_ID, topic_name="t", partitions=[2])],
            deleting_topics=[TopicInfo(topic_id=SHARED_ID, topic_name="d")],
        ),
        "0000 02 112233445566778899aabbccddeeff00 0274 02 00000002 00 0102 112233445566778899aabbccddeeff00 0264 00 00",
    ),
]
CASES = [
    pytest.param(kind, record_type, version, id=f"{kind.values.cls.__name__}-{record_type}-{version}")
    for kind in KINDS
    for record_type in kind.keys.versions
    for version in kind.values.versions
]


@pytest.mark.parametrize(
    ("key", "key_hex", "value", "value_hex"), [pytest.param(*each, id=type(each[2]).__name__) for each in RECORDS]
)
def test_the_bytes_of_each_kind(key: Key, key_hex: str, value: Value, value_hex: str) -> None:
    key_bytes, value_bytes = bytes.fromhex(key_hex), bytes.fromhex(value_hex)
    assert (encode_key(key), encode_value(value)) == (key_bytes, value_bytes)
    for data in (value_bytes, memoryview(value_bytes)):
        assert decode_key(memoryview(key_bytes)) == key
        assert decode_value(key, data) == value


@pytest.mark.parametrize(("kind", "record_type", "version"), CASES)
def test_every_type_and_version_is_read(kind: RecordKind, record_type: int, version: int) -> None:
    for number in range(ROUNDS):
        maker = Maker(f"{kind.values.cls.__name__} {record_type} {version} {number}", version)
        key, value = maker.message(kind.keys.cls), maker.message(kind.values.cls)
        assert decode_key(kind.keys.encode(key, record_type)) == key
        assert decode_value(key, kind.values.encode(value, version)) == value


@pytest.mark.parametrize("record_type", [-1, 4, 9, 17, 18, 0x7FFF])
def test_keys_of_other_types_are_skipped(record_type: int) -> None:
    """Type 4 is Kafka 4.0's, those from 17 on are of streams groups, or of a newer Kafka."""
    assert decode_key(record_type.to_bytes(2, signed=True) + b"anything") is None


def test_a_null_value_deletes() -> None:
    for key, *_ in RECORDS:
        assert decode_value(key, None) is None


def test_kip_915_unknown_tagged_fields_are_skipped() -> None:
    key, _, value, value_hex = RECORDS[0]
    assert decode_value(key, bytes.fromhex(value_hex)[:-1] + bytes.fromhex("01 05 02 aabb")) == value


@pytest.mark.parametrize("version", [-1, 5])
def test_a_value_of_an_unknown_version_is_an_error(version: int) -> None:
    with pytest.raises(DecodeError, match=f"version {version} of OffsetCommitValue"):
        decode_value(OFFSET_KEY, version.to_bytes(2, signed=True) + bytes(50))


def test_records_that_are_cut_short_are_an_error() -> None:
    for key, key_hex, _, value_hex in RECORDS:
        key_bytes, value_bytes = bytes.fromhex(key_hex), bytes.fromhex(value_hex)
        for end in range(len(key_bytes)):
            with pytest.raises(DecodeError):
                decode_key(key_bytes[:end])
        for end in range(len(value_bytes)):
            with pytest.raises(DecodeError):
                decode_value(key, value_bytes[:end])


def test_a_group_id_that_is_too_long_is_an_error() -> None:
    with pytest.raises(EncodeError):
        encode_key(GroupMetadataKey(group_id="g" * 32_768))
