"""Request and response headers, the registry of APIs, and known bytes."""

from __future__ import annotations

import pytest

from purgatorio.protocol.api import (
    APIS,
    ApiKey,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from purgatorio.protocol.errors import BufferUnderflow, DecodeError, ErrorCode, ProtocolError
from purgatorio.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


def request_bytes(api_key: int, version: int, message: object, client_id: str | None = "me") -> bytes:
    return b"".join(encode_request(api_key, version, 7, client_id, message))  # type: ignore[arg-type]


def test_the_bytes_of_an_api_versions_request() -> None:
    assert request_bytes(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()) == bytes.fromhex(
        "0000000c001200000000000700026d65"
    )
    named = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    assert request_bytes(ApiKey.API_VERSIONS, 3, named) == bytes.fromhex("00000012001200030000000700026d65000261023100")


def test_the_bytes_of_an_api_versions_response_which_has_header_0_even_when_it_is_flexible() -> None:
    response = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)]
    )
    assert b"".join(encode_response(ApiKey.API_VERSIONS, 0, 7, response)) == bytes.fromhex(
        "0000001000000007002300000001001200000004"
    )
    assert b"".join(encode_response(ApiKey.API_VERSIONS, 3, 7, response)) == bytes.fromhex(
        "0000001300000007002302001200000004000000000000"
    )


def test_the_bytes_of_a_metadata_request() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    assert request_bytes(ApiKey.METADATA, 1, request) == bytes.fromhex("00000013000300010000000700026d6500000001000174")
    assert request_bytes(ApiKey.METADATA, 1, MetadataRequest(topics=None))[-4:] == b"\xff\xff\xff\xff"


@pytest.mark.parametrize("client_id", ["me", "", None, "ü" * 100])
@pytest.mark.parametrize("version", [1, 9])
def test_a_request_is_decoded_as_it_was_encoded(version: int, client_id: str | None) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    frame = request_bytes(ApiKey.METADATA, version, request, client_id)[4:]
    header, position = decode_request_header(frame)
    assert (header.api_key, header.api_version, header.correlation_id) == (ApiKey.METADATA, version, 7)
    assert header.client_id == client_id
    assert decode_request(header, frame, position) == request


def test_every_response_is_decoded_as_it_was_encoded() -> None:
    for api in APIS.values():
        for version in api.versions:
            data = b"".join(encode_response(api.key, version, 7, api.response()))
            assert int.from_bytes(data[:4]) == len(data) - 4
            assert decode_response(api.key, version, data[4:]) == (7, api.response())


def test_the_header_of_an_unknown_api_is_decoded() -> None:
    header, _ = decode_request_header(bytes.fromhex("03e700050000000700026d65"))
    assert (header.api_key, header.api_version, header.client_id) == (999, 5, "me")


@pytest.mark.parametrize("size_bytes", range(10))
def test_a_header_that_is_cut_short_is_an_error(size_bytes: int) -> None:
    with pytest.raises(DecodeError):
        decode_request_header(bytes.fromhex("000300090000000700026d6500")[:size_bytes])


def test_a_version_without_codec_is_an_error() -> None:
    with pytest.raises(ProtocolError):
        encode_request(ApiKey.METADATA, 99, 1, None, MetadataRequest())
    with pytest.raises(BufferUnderflow):
        decode_response(ApiKey.METADATA, 9, b"\0\0")
