"""Records as JSON objects: what is read, what is shown, and which partition a key has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.admin.operations.record_json import (
    JsonRecord,
    NotARecord,
    murmur2,
    parse_record,
    partition_of,
    shown_record,
)
from purgatorio.protocol.record import Record


@pytest.mark.parametrize(
    ("given", "record"),
    [
        ({}, JsonRecord(None, None)),
        ({"key": "17", "value": "paid"}, JsonRecord(b"17", b"paid")),
        ({"value": {"id": 17, "of": "é"}}, JsonRecord(None, '{"id":17,"of":"é"}'.encode())),
        ({"key": 17, "value": [1, None]}, JsonRecord(b"17", b"[1,null]")),
        ({"key_base64": "/w==", "value_base64": ""}, JsonRecord(b"\xff", b"")),
        ({"headers": {"trace": "9f", "none": None}}, JsonRecord(None, None, (("trace", b"9f"), ("none", None)))),
        (
            {"headers": [{"name": "a", "value_base64": "/w=="}, {"name": "a"}]},
            JsonRecord(None, None, (("a", b"\xff"), ("a", None))),
        ),
        ({"partition": 3, "timestamp_ms": 5, "offset": 9}, JsonRecord(None, None, (), 5, 3)),
    ],
)
def test_an_object_is_a_record(given: Any, record: JsonRecord) -> None:
    assert parse_record(given) == record


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["paid"], "a record is an object such as"),
        (None, "not null"),
        ({"vlaue": "paid"}, "a record has no 'vlaue', only key, key_base64,"),
        ({"key": {"id": 1}}, "key is text, a number or null, not an object"),
        ({"value": "a", "value_base64": "YQ=="}, "give value or value_base64, not both"),
        ({"value_base64": "a!"}, "value_base64 is no base64"),
        ({"value_base64": 5}, "value_base64 is no base64"),
        ({"value": "\ud800"}, "half of a surrogate pair"),
        ({"headers": "trace"}, "headers is a list such as"),
        ({"headers": [["trace", "9f"]]}, "a header is an object such as"),
        ({"headers": [{"name": "a", "vlaue": "b"}]}, "a header has no 'vlaue'"),
        ({"partition": -1}, "partition is a whole number from 0 on"),
        ({"partition": True}, "partition is a whole number from 0 on"),
        ({"timestamp_ms": 1.5}, "timestamp_ms is a whole number from 0 on"),
    ],
)
def test_what_is_no_record_is_told(given: Any, why: str) -> None:
    with pytest.raises(NotARecord, match=r".") as refused:
        parse_record(given)
    assert why in str(refused.value)


_BYTES = st.none() | st.binary(max_size=20)


@given(key=_BYTES, value=_BYTES, headers=st.lists(st.tuples(st.text(max_size=5), _BYTES), max_size=3))
def test_what_is_shown_reads_back(key: bytes | None, value: bytes | None, headers: Any) -> None:
    shown = shown_record(2, Record(7, 1000, key, value, tuple(headers)))
    assert shown["offset"] == 7
    try:
        assert parse_record(shown) == JsonRecord(key, value, tuple(headers), 1000, 2)
    except UnicodeEncodeError:
        pytest.fail("text that was shown can be written")


@pytest.mark.parametrize(
    ("key", "hashed"),
    [("21", -973932308), ("foobar", -790332482), ("a-little-bit-long-string", -985981536), ("", 275646681)],
)
def test_the_hash_is_that_of_kafkas_producers(key: str, hashed: int) -> None:
    """The values are those of `Utils.murmur2` of Apache Kafka."""
    assert murmur2(key.encode()) == hashed & 0xFFFFFFFF


def test_records_without_a_key_go_to_the_partitions_in_turn() -> None:
    assert [partition_of(None, 3, place) for place in range(4)] == [0, 1, 2, 0]
    assert partition_of(b"foobar", 6, 0) == (-790332482 & 0x7FFFFFFF) % 6
