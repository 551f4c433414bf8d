"""Connections to brokers for the toy programs: send a request after its size, wait for its response."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Coroutine
from typing import Any

from purgatorio.protocol.api import ApiKey, decode_response, encode_request
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.metadata import (
    METADATA_VERSION,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

DEFAULT_PORT = 9092
INTERRUPTED = 130  # what a shell expects of a program that Ctrl-C ended


class ToyError(Exception):
    """Ends a toy program, which prints the message only."""


class Moved(Exception):
    """The broker is gone, or is not the leader any more: find the new leader, and try again."""


def run(program: Coroutine[Any, Any, int]) -> int:
    """Run a toy program until it ends, fails or is interrupted; returns the exit status."""
    status = INTERRUPTED
    with contextlib.suppress(KeyboardInterrupt):
        try:
            status = asyncio.run(program)
        except* (ToyError, OSError) as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):  # one of several tasks failed
                error = error.exceptions[0]
            print(error, file=sys.stderr)
            status = 1
    return status


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
        """Send a request and wait for its response.

        Raises:
            Moved: the broker closed the connection.
        """
        correlation_id = next(self._correlation_ids)
        self._writer.writelines(encode_request(api_key, version, correlation_id, "toy", message))
        try:
            size_bytes = int.from_bytes(await self._reader.readexactly(4))
            frame = await self._reader.readexactly(size_bytes)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Moved("the broker closed the connection") from error
        answered_id, response = decode_response(api_key, version, frame)
        assert answered_id == correlation_id, "responses come in the order of the requests"
        return response

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


async def open_any(bootstrap: str) -> Connection:
    """Connect to the first broker of `host:port,host:port` that answers.

    Raises:
        ToyError: no broker answers.
    """
    errors = []
    for address in bootstrap.split(","):
        host, _, port = (address if ":" in address else f"{address}:{DEFAULT_PORT}").strip().rpartition(":")
        try:
            return await Connection.open(host, int(port))
        except (OSError, ValueError) as error:
            errors.append(f"{address}: {error}")
    raise ToyError("no broker answers: " + "; ".join(errors))


async def find_leaders(
    bootstrap: str, topic: str, *, create: bool
) -> tuple[dict[int, tuple[str, int]], list[tuple[str, int]]]:
    """Ask any broker for the leaders of a topic's partitions.

    Returns:
        Host and port of the leader, by partition, and of all brokers.

    Raises:
        ToyError: no broker answers, or there is no such topic.
    """
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=create)
    while True:
        connection = await open_any(bootstrap)
        try:
            response: MetadataResponse = await connection.request(ApiKey.METADATA, METADATA_VERSION, request)
        except Moved:
            continue
        finally:
            await connection.close()
        (found,) = response.topics
        error = ErrorCode(found.error_code)
        if error and (not error.retriable or (error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create)):
            raise ToyError(f"{topic}: {error.name}")
        addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        if not error and all(partition.leader_id in addresses for partition in found.partitions):
            leaders = {partition.partition_index: addresses[partition.leader_id] for partition in found.partitions}
            return leaders, list(addresses.values())
        await asyncio.sleep(0.1)


class Leaders:
    """Connections to the leaders of a topic's partitions.

    Args:
        bootstrap: addresses of brokers, with commas between.
        topic: the topic; created if it does not exist.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._brokers: list[str] = []  # where to ask when the bootstrap brokers are gone
        self._addresses: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], Connection] = {}

    async def find(self) -> list[int]:
        """Find the leaders, and close the old connections; returns the partitions."""
        await self.close()
        self._addresses, brokers = await find_leaders(
            ",".join([self._bootstrap, *self._brokers]), self._topic, create=True
        )
        self._brokers = [f"{host}:{port}" for host, port in brokers]
        return sorted(self._addresses)

    async def request(self, partition: int, api_key: ApiKey, version: int, message: Any) -> Any:
        """Ask a partition's leader.

        Raises:
            Moved: the leader does not answer.
        """
        address = self._addresses[partition]
        if address not in self._connections:
            try:
                self._connections[address] = await Connection.open(*address)
            except OSError as error:
                raise Moved(f"{address[0]}:{address[1]}: {error}") from error
        return await self._connections[address].request(api_key, version, message)

    async def close(self) -> None:
        """Close all connections."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.close()
