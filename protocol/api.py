"""Encoding and decoding of whole requests and responses: their headers, and the registry of APIs.

A frame is a 4-byte size, a header and a message. A request header carries API key, version, correlation id and client
id; a response header carries only the correlation id, so that the client has to remember API and version.

API and version determine the header's version. A request header is version 2 (with tagged fields) if the request is
flexible and else 1, but 0 (without a client id) for ControlledShutdown version 0. A response header is version 1 if
the response is flexible and else 0, but always 0 for ApiVersions (KIP-511). The client id is a string with an int16
length even in header version 2 (KIP-482).
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from struct import Struct
from struct import error as StructError  # noqa: N812
from types import MappingProxyType
from typing import Final, TypeVar

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.decoder import Decoder, compile_decoder
from purgatorio.protocol.encoder import Encoder, SteppedEncoder, compile_encoder, compile_stepped_encoder
from purgatorio.protocol.errors import BufferUnderflow, EncodeError, ErrorCode, InvalidUtf8, UnsupportedVersion
from purgatorio.protocol.message import Api, Message
from purgatorio.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_share_group_state,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    initialize_share_group_state,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    read_share_group_state,
    read_share_group_state_summary,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
    update_features,
    write_share_group_state,
    write_txn_markers,
)
from purgatorio.protocol.primitives import (
    MAX_REQUEST_ELEMENTS,
    MAX_STRING_BYTES,
    Buffer,
    bad_length,
    skip_tagged_fields,
)

__all__ = [
    "APIS",
    "Api",
    "ApiKey",
    "Buffer",
    "EncodedResponse",
    "Message",
    "RequestHeader",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode_request",
    "encode_response",
    "encode_response_in_steps",
]

APIS: Final[Mapping[int, Api]] = MappingProxyType(
    {
        module.API.key: module.API
        for module in (
            add_offsets_to_txn,
            add_partitions_to_txn,
            alter_client_quotas,
            alter_configs,
            alter_partition_reassignments,
            alter_replica_log_dirs,
            alter_share_group_offsets,
            alter_user_scram_credentials,
            api_versions,
            consumer_group_describe,
            consumer_group_heartbeat,
            create_acls,
            create_partitions,
            create_topics,
            delete_acls,
            delete_groups,
            delete_records,
            delete_share_group_offsets,
            delete_share_group_state,
            delete_topics,
            describe_acls,
            describe_client_quotas,
            describe_cluster,
            describe_configs,
            describe_groups,
            describe_log_dirs,
            describe_producers,
            describe_quorum,
            describe_share_group_offsets,
            describe_topic_partitions,
            describe_transactions,
            describe_user_scram_credentials,
            elect_leaders,
            end_txn,
            fetch,
            find_coordinator,
            heartbeat,
            incremental_alter_configs,
            init_producer_id,
            initialize_share_group_state,
            join_group,
            leave_group,
            list_config_resources,
            list_groups,
            list_offsets,
            list_partition_reassignments,
            list_transactions,
            metadata,
            offset_commit,
            offset_delete,
            offset_fetch,
            offset_for_leader_epoch,
            produce,
            read_share_group_state,
            read_share_group_state_summary,
            sasl_authenticate,
            sasl_handshake,
            share_acknowledge,
            share_fetch,
            share_group_describe,
            share_group_heartbeat,
            sync_group,
            txn_offset_commit,
            update_features,
            write_share_group_state,
            write_txn_markers,
        )
    }
)
"""The APIs that this package has codecs for, by key."""

_REQUEST_HEADER: Final = Struct(">hhih")
_REQUEST_PREFIX: Final = Struct(">ihhih")
_RESPONSE_PREFIX: Final = Struct(">ii")
_FLEXIBLE_RESPONSE_PREFIX: Final = Struct(">iix")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_CONTROLLED_SHUTDOWN_0: Final = ApiKey.CONTROLLED_SHUTDOWN << 16
"""API key and version of the only request with header version 0."""

F = TypeVar("F")


class RequestHeader:
    """The header of a request.

    Attributes:
        api_key: the API's number; `ApiKey` may not know it.
        api_version: the version of request and response.
        correlation_id: the number that the response repeats.
        client_id: the client's name for itself (`client.id`).
    """

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id")

    def __init__(self, api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id


class EncodedResponse:
    """A response that its handler has encoded: where many responses are alike, that takes less than its encoder does.

    Attributes:
        parts: the message, without size and header; the first part is `bytes`.
    """

    __slots__ = ("parts",)

    def __init__(self, *parts: Buffer) -> None:
        self.parts = parts


class _Codecs(dict[tuple[int, int], F]):
    """Compiled codecs, or other facts, by (API key, version); each is made at its first use."""

    def __init__(self, make: Callable[[Api, int], F]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: tuple[int, int]) -> F:
        api_key, version = key
        api = APIS.get(api_key)
        if api is None or version not in api.versions:
            raise UnsupportedVersion(api_key, version)
        codec = self[key] = self._make(api, version)
        return codec


_request_decoders = _Codecs[Decoder](
    lambda api, v: compile_decoder(api.request, v, api.is_flexible(v), max_elements=api.max_elements)
)
_request_encoders = _Codecs[Encoder](lambda api, v: compile_encoder(api.request, v, api.is_flexible(v)))
_response_decoders = _Codecs[Decoder](lambda api, v: compile_decoder(api.response, v, api.is_flexible(v)))
_response_encoders = _Codecs[Encoder](lambda api, v: compile_encoder(api.response, v, api.is_flexible(v)))
_stepped_response_encoders = _Codecs[SteppedEncoder](
    lambda api, v: compile_stepped_encoder(api.response, v, api.is_flexible(v))
)


_flexible_response_headers = _Codecs[bool](
    lambda api, version: api.key != ApiKey.API_VERSIONS and api.is_flexible(version)
)


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Read the header of a request, and return it with the start position of the message.

    The header of an API without a codec is read as header version 1; it is not an error here.

    Args:
        frame: a frame without its size.

    Raises:
        DecodeError: the frame is too short, or the client id is not UTF-8.
    """
    try:
        api_key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
    except StructError as error:
        if len(frame) == 8 and _INT32.unpack_from(frame)[0] == _CONTROLLED_SHUTDOWN_0:
            return RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 0, _INT32.unpack_from(frame, 4)[0], None), 8
        raise BufferUnderflow(f"a request header in {len(frame)} bytes") from error
    position = 10
    client_id = None
    if length != -1:
        position += length
        if length < 0 or position > len(frame):
            raise bad_length(length, len(frame) - 10, "client_id")
        try:
            client_id = str(frame[10:position], "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidUtf8(f"client_id: {error.reason}") from error
    api = APIS.get(api_key)
    if api is not None and version >= api.flexible_from:
        if position < len(frame) and not frame[position]:
            position += 1  # no tags, as ever: a call less
        else:
            position = _skip_header_tags(frame, position)
    return RequestHeader(api_key, version, correlation_id, client_id), position


def decode_request(header: RequestHeader, frame: Buffer, position: int) -> Message:
    """Decode the message after a request header; bytes after the message are ignored.

    Raises:
        UnsupportedVersion: this package has no codec for the API or version.
        DecodeError: the message is malformed.
    """
    message: Message = _request_decoders[header.api_key, header.api_version](frame, position)
    return message


def encode_response(
    api_key: int, version: int, correlation_id: int, response: Message | EncodedResponse
) -> list[Buffer]:
    """Encode a response with its size and header, as parts to write one after the other.

    Raises:
        UnsupportedVersion: this package has no codec for the API or version.
        EncodeError: the response cannot be encoded in this version.
    """
    if isinstance(response, EncodedResponse):
        parts = list(response.parts)
    else:
        parts = _response_encoders[api_key, version](response)
    size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
    if _flexible_response_headers[api_key, version]:
        parts[0] = _FLEXIBLE_RESPONSE_PREFIX.pack(size + 5, correlation_id) + parts[0]
    else:
        parts[0] = _RESPONSE_PREFIX.pack(size + 4, correlation_id) + parts[0]
    return parts


def encode_response_in_steps(
    api_key: int, version: int, correlation_id: int, response: Message | EncodedResponse
) -> Generator[int, None, list[Buffer]]:
    """Encode as `encode_response` does, in steps between which other work can be done; yields the µs of each."""
    if not isinstance(response, EncodedResponse):
        parts = yield from _stepped_response_encoders[api_key, version](response)
        response = EncodedResponse(*parts)
    return encode_response(api_key, version, correlation_id, response)


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, request: Message
) -> list[Buffer]:
    """Encode a request with its size and header, as parts to write one after the other.

    Raises:
        UnsupportedVersion: this package has no codec for the API or version.
        EncodeError: the request cannot be encoded in this version, or the client id is too long.
    """
    parts = _request_encoders[api_key, version](request)
    name = b"" if client_id is None else client_id.encode()
    if len(name) > MAX_STRING_BYTES:
        raise EncodeError(f"a client id of {len(name)} bytes is longer than {MAX_STRING_BYTES}")
    name_length = -1 if client_id is None else len(name)
    tags = b"\0" if APIS[api_key].is_flexible(version) else b""
    size = _REQUEST_HEADER.size + len(name) + len(tags) + sum(map(len, parts))
    prefix = _REQUEST_PREFIX.pack(size, api_key, version, correlation_id, name_length)
    parts[0] = b"".join((prefix, name, tags, parts[0]))
    return parts


def decode_response(api_key: int, version: int, frame: Buffer) -> tuple[int, Message]:
    """Decode the response, a frame without its size, to a request of this API and version.

    A broker that does not know the version of an ApiVersions request answers UNSUPPORTED_VERSION in version 0
    (KIP-511); such a response is decoded as version 0.

    Returns:
        The correlation id, and the response.

    Raises:
        UnsupportedVersion: this package has no codec for the API or version.
        DecodeError: the frame is malformed.
    """
    decoder = _response_decoders[api_key, version]
    try:
        correlation_id: int = _INT32.unpack_from(frame)[0]
        position = 4
        if _flexible_response_headers[api_key, version]:
            position = _skip_header_tags(frame, position)
        if api_key == ApiKey.API_VERSIONS and _INT16.unpack_from(frame, position)[0] == ErrorCode.UNSUPPORTED_VERSION:
            decoder = _response_decoders[api_key, 0]
    except StructError as error:
        raise BufferUnderflow(f"a response header in {len(frame)} bytes") from error
    return correlation_id, decoder(frame, position)


def _skip_header_tags(frame: Buffer, position: int) -> int:
    """Skip the tagged fields of a header, as no header has a known one; return the position after them."""
    try:
        first = frame[position]
        if first == 0:
            return position + 1
        return skip_tagged_fields(frame, position + 1, len(frame), first, MAX_REQUEST_ELEMENTS)[0]
    except IndexError as error:
        raise BufferUnderflow("the data ends within the tagged fields of a header") from error
