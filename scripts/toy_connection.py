"""One connection to one broker, for the toy programs: a request goes out, size first, and its response comes back."""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Any

from protocol.api import ApiKey, decode_response, encode_request
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

METADATA_VERSION = 9


class Connection:
    """Requests and responses over one TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._correlation_ids = itertools.count(1)

    @classmethod
    async def open(cls, host: str, port: int) -> Connection:
        """Connect to a broker."""
        return cls(*await asyncio.open_connection(host, port))

    async def request(self, api_key: ApiKey, version: int, message: Any) -> Any:
        """Send a request and wait for its response."""
        correlation_id = next(self._correlation_ids)
        self._writer.writelines(encode_request(api_key, version, correlation_id, "toy", message))
        try:
            size_bytes = int.from_bytes(await self._reader.readexactly(4))
            frame = await self._reader.readexactly(size_bytes)
        except (asyncio.IncompleteReadError, ConnectionError):
            sys.exit("the broker closed the connection")
        answered_id, response = decode_response(api_key, version, frame)
        assert answered_id == correlation_id, "responses come in the order of the requests"
        return response

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        await self._writer.wait_closed()


async def open_any(bootstrap: str) -> Connection:
    """Connect to the first broker of `host:port,host:port` that answers."""
    errors = []
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            return await Connection.open(host, int(port))
        except OSError as error:
            errors.append(f"{address}: {error.strerror or error}")
    sys.exit("no broker answers: " + "; ".join(errors))


async def find_leaders(bootstrap: str, topic: str, *, create: bool) -> dict[int, tuple[str, int]]:
    """Ask any broker who leads the partitions of a topic.

    Returns:
        Host and port of the leader, by partition.
    """
    connection = await open_any(bootstrap)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=create)
    while True:
        response: MetadataResponse = await connection.request(ApiKey.METADATA, METADATA_VERSION, request)
        (found,) = response.topics
        error = ErrorCode(found.error_code)
        if not error.retriable or (error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create):
            break
        await asyncio.sleep(0.1)
    await connection.close()
    if error:
        sys.exit(f"{topic}: {error.name}")
    addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
    return {partition.partition_index: addresses[partition.leader_id] for partition in found.partitions}
