"""The cost of decoding and encoding."""

from __future__ import annotations

import timeit

from purgatorio.client.client import VERSIONS
from purgatorio.protocol.api import ApiKey, decode_request, decode_request_header, encode_response
from purgatorio.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from purgatorio.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from rows import Row
from wire import produce_frame


def _microseconds(statement: object, quick: bool) -> float:
    timer = timeit.Timer(statement)  # type: ignore[arg-type]
    number = 200 if quick else 20_000
    return min(timer.repeat(5, number)) / number * 1e6


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    frame = memoryview(produce_frame("orders", 16 * 1024, acks=1))[4:]
    records = [bytes(16 * 1024)]

    def decode_produce() -> None:
        header, position = decode_request_header(frame)
        decode_request(header, frame, position)

    def encode_fetch() -> None:
        data = PartitionData(high_watermark=1, last_stable_offset=1, log_start_offset=0, records=records)
        response = FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[data])])
        encode_response(ApiKey.FETCH, VERSIONS[ApiKey.FETCH], 1, response)

    partitions = [MetadataResponsePartition(replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]) for _ in range(4)]
    metadata = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=i, host="localhost", port=9091 + i) for i in (1, 2, 3)],
        topics=[MetadataResponseTopic(name="orders", partitions=partitions)],
    )
    statements = {
        "Produce v9, 16 KiB: decode": decode_produce,
        "Fetch v12, 16 KiB: build and encode": encode_fetch,
        "Metadata v9, 4 partitions: encode": lambda: encode_response(ApiKey.METADATA, 9, 1, metadata),
    }
    return [
        Row(f"codec: {name}", f"{_microseconds(statement, quick):.1f} µs") for name, statement in statements.items()
    ]
