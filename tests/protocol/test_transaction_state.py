"""The records of `__transaction_state`: bytes worked out by hand from Kafka's definitions, and what readers skip."""

from __future__ import annotations

import pytest

from purgatorio.protocol.errors import DecodeError, EncodeError
from purgatorio.protocol.transaction_state import (
    VALUES,
    TransactionLogValue,
    TransactionState,
    TransactionTopic,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.protocol.random_messages import Maker

ROUNDS = 20
LOGGED = [state for state in TransactionState if state < TransactionState.DEAD]

EMPTY = TransactionLogValue(
    producer_id=5,
    producer_epoch=2,
    transaction_timeout_ms=60_000,
    transaction_partitions=None,
    transaction_last_update_timestamp_ms=9,
    transaction_start_timestamp_ms=-1,
)
EMPTY_HEX = "0001 0000000000000005 0002 0000ea60 00 00 0000000000000009 ffffffffffffffff 00"
ONGOING = TransactionLogValue(
    producer_id=5,
    producer_epoch=2,
    transaction_timeout_ms=60_000,
    transaction_status=TransactionState.ONGOING,
    transaction_partitions=[TransactionTopic(topic="t", partition_ids=[0, 3])],
    transaction_last_update_timestamp_ms=9,
    transaction_start_timestamp_ms=8,
)
COMPLETE = TransactionLogValue(
    producer_id=5,
    previous_producer_id=4,
    next_producer_id=6,
    producer_epoch=0x7FFF,
    next_producer_epoch=1,
    transaction_timeout_ms=60_000,
    transaction_status=TransactionState.COMPLETE_COMMIT,
    transaction_last_update_timestamp_ms=9,
    transaction_start_timestamp_ms=8,
    client_transaction_version=2,
)
RECORDS = [
    pytest.param(1, EMPTY, EMPTY_HEX, id="empty"),
    pytest.param(
        1,
        ONGOING,
        "0001 0000000000000005 0002 0000ea60 01 02 0274 03 00000000 00000003 000000000000000009 0000000000000008 00",
        id="ongoing",
    ),
    pytest.param(
        1,
        COMPLETE,
        "0001 0000000000000005 7fff 0000ea60 04 01 0000000000000009 0000000000000008"
        "04 00 08 0000000000000004 01 08 0000000000000006 02 02 0002 03 02 0001",
        id="complete",
    ),
    pytest.param(
        0,
        EMPTY,
        "0000 0000000000000005 0002 0000ea60 00 ffffffff 0000000000000009 ffffffffffffffff",
        id="empty in version 0",
    ),
    pytest.param(
        0,
        ONGOING,
        "0000 0000000000000005 0002 0000ea60 01 00000001 000174 00000002 00000000 00000003"
        "0000000000000009 0000000000000008",
        id="ongoing in version 0",
    ),
]


def test_the_bytes_of_a_key() -> None:
    data = bytes.fromhex("0000 0009 62696c6c696e672d31")
    assert encode_key("billing-1") == data
    assert decode_key(memoryview(data)) == "billing-1"


@pytest.mark.parametrize(("version", "value", "value_hex"), RECORDS)
def test_the_bytes_of_a_value(version: int, value: TransactionLogValue, value_hex: str) -> None:
    data = bytes.fromhex(value_hex)
    assert encode_value(value, version) == data
    assert decode_value(data) == decode_value(memoryview(data)) == value


def test_values_are_written_in_version_1_unless_another_one_is_asked_for() -> None:
    assert encode_value(EMPTY) == bytes.fromhex(EMPTY_HEX)


@pytest.mark.parametrize("version", VALUES.versions)
@pytest.mark.parametrize("state", LOGGED)
def test_every_version_is_read_as_it_was_written(version: int, state: TransactionState) -> None:
    for number in range(ROUNDS):
        value = Maker(f"{version} {state} {number}", version).message(TransactionLogValue)
        value.transaction_status = state
        assert decode_value(encode_value(value, version)) == value


def test_version_0_loses_the_tagged_fields() -> None:
    read = decode_value(encode_value(COMPLETE, 0))
    assert read is not None
    lost = (read.previous_producer_id, read.next_producer_id, read.next_producer_epoch, read.client_transaction_version)
    assert lost == (-1, -1, -1, 0)


@pytest.mark.parametrize("state", [-1, TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE, 8])
def test_states_that_are_never_logged_are_neither_written_nor_read(state: int) -> None:
    value = TransactionLogValue(transaction_status=state)
    with pytest.raises(EncodeError, match="never logged"):
        encode_value(value)
    with pytest.raises(DecodeError, match="never logged"):
        decode_value(VALUES.encode(value, 1))


def test_states_have_kafkas_names() -> None:
    assert [state.state_name for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


@pytest.mark.parametrize("record_type", [-1, 1, 0x7FFF])
def test_keys_of_other_types_are_skipped(record_type: int) -> None:
    assert decode_key(record_type.to_bytes(2, signed=True) + b"anything") is None


def test_a_null_value_deletes() -> None:
    assert decode_value(None) is None


def test_kip_915_unknown_tagged_fields_are_skipped() -> None:
    assert decode_value(bytes.fromhex(EMPTY_HEX)[:-1] + bytes.fromhex("01 05 02 aabb")) == EMPTY


@pytest.mark.parametrize("version", [-1, 2])
def test_a_value_of_an_unknown_version_is_an_error(version: int) -> None:
    with pytest.raises(DecodeError, match=f"version {version} of TransactionLogValue"):
        decode_value(version.to_bytes(2, signed=True) + bytes(50))
    with pytest.raises(EncodeError, match=f"version {version} of TransactionLogValue"):
        encode_value(EMPTY, version)


@pytest.mark.parametrize(("version", "value", "value_hex"), RECORDS)
def test_a_value_that_is_cut_short_is_an_error(version: int, value: TransactionLogValue, value_hex: str) -> None:
    data = bytes.fromhex(value_hex)
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode_value(data[:end])


def test_a_key_that_is_cut_short_is_an_error() -> None:
    data = encode_key("billing-1")
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode_key(data[:end])


def test_a_transactional_id_that_is_too_long_is_an_error() -> None:
    with pytest.raises(EncodeError):
        encode_key("i" * 32_768)
