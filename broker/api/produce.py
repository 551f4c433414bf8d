"""Produce (key 0): append records, and acknowledge them as `acks` asks.

Versions 3–11 are answered; older ones carry message formats that this broker does not read, though ApiVersions says 0
(KAFKA-18659: librdkafka 2.0 reads a higher minimum as "no compression").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.errors import CorruptRecordError, ErrorCode
from purgatorio.protocol.messages.produce import (
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.records import read_header

ACKS = (-1, 0, 1)
NODE_ENDPOINTS_VERSION = 10
ZSTD_VERSION = 7
"""The first version that may carry zstd (KIP-110): an older consumer could not be told what it gets."""


def handle(replicas: ReplicaManager, ctx: RequestContext, request: ProduceRequest, reply: Reply) -> None:
    """Append, and answer now, when the in-sync replicas have it, or (acks=0) not at all."""
    if request.acks not in ACKS:
        reply(error_response(request, ErrorCode.INVALID_REQUIRED_ACKS))
        return
    response = _blank_response(request)

    def answer() -> None:
        if request.acks != 0:
            if ctx.api_version >= NODE_ENDPOINTS_VERSION:
                response.node_endpoints = _endpoints(replicas, response)
            reply(response)
            return
        error = first_error(response)
        if error is None:
            reply.nothing()
        else:
            # A producer with acks=0 reads no response: closing is the only way to tell it (Kafka does the same).
            reply.close(f"produce with acks=0 failed: {error}")

    replicas.produce(
        _batches(ctx.api_version, request, response),
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        answer=answer,
        client=ctx.client_id or "",
    )


def _endpoints(replicas: ReplicaManager, response: ProduceResponse) -> list[NodeEndpoint]:
    """Where the leaders named in the answer are, so that a client can go there at once (KIP-951)."""
    leaders = {
        partition.current_leader.leader_id: None
        for topic in response.responses
        for partition in topic.partition_responses
        if partition.current_leader.leader_id >= 0
    }
    return [
        NodeEndpoint(node_id=b.broker_id, host=b.host, port=b.port, rack=b.rack)
        for leader in leaders
        if (b := replicas.live_broker(leader)) is not None
    ]


def _blank_response(request: ProduceRequest) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(
                        index=partition.index, base_offset=-1, log_append_time_ms=-1, log_start_offset=-1
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _batches(
    version: int, request: ProduceRequest, response: ProduceResponse
) -> Iterator[tuple[TopicPartition, Buffer | None, PartitionProduceResponse]]:
    """The batches to append; one that this version must not carry has its error already, and is left out."""
    for topic, answers in zip(request.topic_data, response.responses, strict=True):
        for data, result in zip(topic.partition_data, answers.partition_responses, strict=True):
            # Decoded records are one view into the request.
            records = cast("Buffer | None", data.records)
            if version < ZSTD_VERSION and records is not None and _is_zstd(records):
                result.error_code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
                result.error_message = f"zstd needs Produce version {ZSTD_VERSION} or higher"
            else:
                yield TopicPartition(topic.name, data.index), records, result


def _is_zstd(records: Buffer) -> bool:
    """Whether the first batch says that it is compressed with zstd; what is no batch is refused by the log."""
    try:
        return read_header(records).compression == Compression.ZSTD
    except CorruptRecordError:
        return False


def first_error(response: ProduceResponse) -> str | None:
    """The first error of a response, as `NAME: message`, or None."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                return f"{ErrorCode(partition.error_code).name}: {partition.error_message}"
    return None


def error_response(request: ProduceRequest, error_code: ErrorCode) -> ProduceResponse | None:
    """Every partition answered with `error_code`; None (close) with acks=0, which has no response."""
    if request.acks == 0:
        return None
    response = _blank_response(request)
    for topic in response.responses:
        for partition in topic.partition_responses:
            partition.error_code = error_code
    return response
