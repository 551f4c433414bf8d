"""Records of committed offsets are read and written as their codecs do it."""

from __future__ import annotations

import random

import pytest

from purgatorio.protocol.consumer_offsets import (
    KINDS,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from purgatorio.protocol.errors import DecodeError, EncodeError
from purgatorio.protocol.offset_records import (
    encode_offset_key,
    encode_offset_value,
    read_offset_key,
    read_offset_value,
)

KEY = OffsetCommitKey(group_id="app-é", topic="orders", partition=3)
ID = bytes(range(16))
VALUE_CODEC = KINDS[0].values


def value(metadata: str = "", topic_id: bytes = ID) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=1 << 40, leader_epoch=5, metadata=metadata, commit_timestamp_ms=1_700_000_000_000, topic_id=topic_id
    )


def fields(value: OffsetCommitValue) -> tuple[int, int, str, int, bytes]:
    return value.offset, value.leader_epoch, value.metadata, value.commit_timestamp_ms, value.topic_id


def straight(value: OffsetCommitValue) -> bytes:
    return encode_offset_value(
        value.offset, value.leader_epoch, value.metadata, value.commit_timestamp_ms, value.topic_id
    )


@pytest.mark.parametrize("key", [KEY, OffsetCommitKey(group_id="", topic="t", partition=0)])
def test_a_key_is_written_and_read_as_by_its_codec(key: OffsetCommitKey) -> None:
    encoded = encode_offset_key(key.group_id, key.topic, key.partition)
    assert encoded == encode_key(key)
    assert read_offset_key(encoded) == (key.group_id, key.topic, key.partition)
    assert read_offset_key(b"\x00\x00" + encoded[2:]) == (key.group_id, key.topic, key.partition)


def test_keys_of_other_records_are_left_to_the_codecs() -> None:
    assert read_offset_key(b"\x00\x02\x00\x03app") is None
    assert read_offset_key(b"") is None


@pytest.mark.parametrize("topic_id", [ID, bytes(16)])
@pytest.mark.parametrize("metadata", ["", "note", "é" * 63, "m" * 127, "m" * 4_096])
def test_a_value_is_written_as_by_its_codec(metadata: str, topic_id: bytes) -> None:
    assert straight(value(metadata, topic_id)) == encode_value(value(metadata, topic_id))


@pytest.mark.parametrize("topic_id", [ID, bytes(16)])
@pytest.mark.parametrize("metadata", ["", "note", "é" * 63])
@pytest.mark.parametrize("version", [3, 4])
def test_usual_values_are_read_as_by_their_codec(metadata: str, topic_id: bytes, version: int) -> None:
    encoded = VALUE_CODEC.encode(value(metadata, topic_id if version == 4 else bytes(16)), version)
    assert read_offset_value(encoded) == fields(VALUE_CODEC.decode(encoded))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_values_of_early_versions_are_left_to_the_codec(version: int) -> None:
    encoded = VALUE_CODEC.encode(OffsetCommitValue(offset=7, metadata="note"), version)
    assert read_offset_value(encoded) is None


def test_long_metadata_and_unknown_tags_are_left_to_the_codec() -> None:
    assert read_offset_value(straight(value("m" * 127))) is None
    tagged = straight(value(topic_id=bytes(16)))[:-1] + b"\x01\x05\x01x"
    assert read_offset_value(tagged) is None
    assert isinstance(decode_value(KEY, tagged), OffsetCommitValue)


def test_damaged_records_are_errors_or_left_to_the_codec() -> None:
    rng = random.Random(1)
    keys = encode_offset_key("app", "orders", 1)
    values = [straight(value("note")), VALUE_CODEC.encode(value("note", bytes(16)), 3)]
    for _ in range(2_000):
        damaged = bytearray(keys)
        damaged[rng.randrange(2, len(keys))] = rng.randrange(256)
        damaged = damaged[: rng.randrange(2, len(keys) + 1)]
        try:
            expected = decode_key(damaged)
        except DecodeError:
            with pytest.raises(DecodeError):
                read_offset_key(bytes(damaged))
        else:
            assert isinstance(expected, OffsetCommitKey)
            assert read_offset_key(bytes(damaged)) == (expected.group_id, expected.topic, expected.partition)
        damaged = bytearray(rng.choice(values))
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        damaged = damaged[: rng.randrange(2, len(damaged) + 1)]
        read = read_offset_value(bytes(damaged))
        if read is not None:
            decoded = decode_value(KEY, bytes(damaged))
            assert isinstance(decoded, OffsetCommitValue)
            assert read == fields(decoded)


def test_a_group_id_that_does_not_fit_into_a_record_is_an_error() -> None:
    with pytest.raises(EncodeError):
        encode_offset_key("g" * 32_768, "orders", 0)


def test_a_number_out_of_range_is_an_error() -> None:
    with pytest.raises(EncodeError):
        encode_offset_value(1 << 63, 0, "", 0)
