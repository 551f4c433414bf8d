"""What fault rules do to the answers of handlers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from purgatorio.broker.routing.request import RequestContext
from purgatorio.protocol.api import EncodedResponse, encode_response
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode


def failed_topics(response: Any, topics: Collection[str] | None, error: ErrorCode) -> Any:
    """Return a Metadata response whose topics, these or all, have an error instead of partitions."""
    for topic in response.topics:
        if topics is None or topic.name in topics:
            topic.error_code, topic.partitions = error, []
    return response


def without_broker(broker_id: int, response: Any) -> Any:
    """Return a response to Metadata or DescribeCluster that does not list a broker."""
    response.brokers = [each for each in response.brokers if _id(each) != broker_id]
    return response


def _id(broker: Any) -> int:
    """Return the id of a broker in a response; Metadata calls it a node."""
    found: int = broker.node_id if hasattr(broker, "node_id") else broker.broker_id
    return found


def corrupted(ctx: RequestContext, response: Any) -> Any:
    """Return a damaged response: a bit of some records is wrong; without records, its second half is missing."""
    if ctx.api_key == ApiKey.FETCH:
        for topic in response.responses:
            for partition in topic.partitions:
                records = partition.records
                data = bytearray(records if isinstance(records, (bytes, memoryview)) else b"".join(records or ()))
                if data:
                    data[-1] ^= 1
                    partition.records = bytes(data)
                    return response
    encoded = b"".join(encode_response(ctx.api_key, ctx.api_version, 0, response))
    prefix = len(b"".join(encode_response(ctx.api_key, ctx.api_version, 0, EncodedResponse(b""))))
    message = encoded[prefix:]
    return EncodedResponse(message[: len(message) // 2])
