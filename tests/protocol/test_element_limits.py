"""A request's array entries, tagged fields and long strings are counted, and too many of them are refused early."""

from __future__ import annotations

import tracemalloc

import pytest

from purgatorio.protocol.api import APIS, ApiKey, decode_request, decode_request_header, encode_request
from purgatorio.protocol.errors import BufferUnderflow, TooManyElements
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages import fetch, metadata, produce
from purgatorio.protocol.primitives import MAX_REQUEST_ELEMENTS, encode_uvarint
from tests.broker.server.hostile import hostile_requests_of, wide_paths

FEW = 1_000
REFUSED_WITHIN_BYTES = 6 * 1024 * 1024
WITH_ARRAYS = [
    pytest.param(key, id=ApiKey(key).name)
    for key, api in APIS.items()
    if any(any(wide_paths(api.request, version)) for version in (api.versions[0], api.versions[-1]))
]


def decoded(frame: bytes) -> Message:
    header, position = decode_request_header(frame)
    return decode_request(header, frame, position)


def frame_of(key: ApiKey, version: int, request: Message) -> bytes:
    return b"".join(encode_request(key, version, 7, "test", request))[4:]


@pytest.mark.parametrize("key", WITH_ARRAYS)
def test_an_array_of_too_many_elements_is_refused_in_little_memory(key: ApiKey) -> None:
    for hostile in hostile_requests_of(key, None, distinct=False):
        with pytest.raises(TooManyElements):  # compiles the decoder, which takes memory too
            decoded(hostile.frame)
        tracemalloc.start()
        try:
            with pytest.raises(TooManyElements):
                decoded(hostile.frame)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak_bytes < REFUSED_WITHIN_BYTES, hostile.title


@pytest.mark.parametrize("key", WITH_ARRAYS)
def test_a_thousand_elements_are_decoded(key: ApiKey) -> None:
    for hostile in hostile_requests_of(key, FEW, distinct=True):
        assert decoded(hostile.frame), hostile.title


def topics(outer: int, inner: int) -> list[produce.TopicProduceData]:
    partitions = [produce.PartitionProduceData(index=0, records=b"")] * inner
    return [produce.TopicProduceData(name="", partition_data=partitions)] * outer


def test_elements_of_nested_arrays_are_counted_together() -> None:
    allowed = produce.ProduceRequest(topic_data=topics(MAX_REQUEST_ELEMENTS // 4, 3))
    decoded(frame_of(ApiKey.PRODUCE, 9, allowed))
    with pytest.raises(TooManyElements):
        decoded(frame_of(ApiKey.PRODUCE, 9, produce.ProduceRequest(topic_data=topics(MAX_REQUEST_ELEMENTS // 4, 4))))


def test_a_followers_fetch_may_name_ten_thousand_partitions() -> None:
    """Each in a topic of its own."""
    named = [fetch.FetchTopic(topic_id=bytes(16), partitions=[fetch.FetchPartition()])] * 10_000
    decoded(frame_of(ApiKey.FETCH, 16, fetch.FetchRequest(topics=named)))


def with_tagged_fields(count: int) -> bytes:
    """A Metadata request whose message ends in this many unknown tagged fields."""
    frame = frame_of(ApiKey.METADATA, 12, metadata.MetadataRequest(topics=[]))
    return frame[:-1] + encode_uvarint(count) + b"\x63\x00" * count


def with_header_fields(count: int) -> bytes:
    """A Metadata request whose header ends in this many unknown tagged fields."""
    frame = frame_of(ApiKey.METADATA, 12, metadata.MetadataRequest(topics=[]))
    at = 2 + 2 + 4 + 2 + len("test")
    return frame[:at] + encode_uvarint(count) + b"\x63\x00" * count + frame[at + 1 :]


@pytest.mark.parametrize("with_fields", [with_tagged_fields, with_header_fields])
def test_too_many_tagged_fields_are_refused_before_they_are_read(with_fields: object) -> None:
    assert callable(with_fields)
    decoded(with_fields(MAX_REQUEST_ELEMENTS))
    with pytest.raises(TooManyElements):
        decoded(with_fields(MAX_REQUEST_ELEMENTS + 1))


def names(length: int, count: int) -> bytes:
    """A Metadata request with this many names, each of this many bytes."""
    asked = [metadata.MetadataRequestTopic(name="x" * length)] * count
    return frame_of(ApiKey.METADATA, 9, metadata.MetadataRequest(topics=asked))


def test_long_strings_count_by_their_length() -> None:
    """125 of 32 KB are 4,000 KB, beside 125 elements."""
    decoded(names(32_000, 100))
    with pytest.raises(TooManyElements):
        decoded(names(32_000, 130))


@pytest.mark.parametrize("version", [8, 9])
def test_a_string_that_is_longer_than_the_data_is_refused_as_before(version: int) -> None:
    frame = frame_of(
        ApiKey.METADATA, version, metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="x" * 2_000)])
    )
    with pytest.raises(BufferUnderflow):
        decoded(frame[:-500])


def test_a_response_may_have_any_number_of_elements() -> None:
    """The broker's own clients trust their broker, and a cluster may have more topics than a request may name."""
    from purgatorio.protocol.api import decode_response, encode_response

    response = metadata.MetadataResponse(topics=[metadata.MetadataResponseTopic(name="t")] * (MAX_REQUEST_ELEMENTS + 1))
    _, seen = decode_response(ApiKey.METADATA, 9, b"".join(encode_response(ApiKey.METADATA, 9, 7, response))[4:])
    assert seen == response


def test_every_api_bounds_its_requests() -> None:
    unbounded = [ApiKey(api.key).name for api in APIS.values() if api.max_elements > 25_000]
    assert unbounded == []
