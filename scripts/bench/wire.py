"""A blocking connection that sends ready frames, for measurements without a client library, and our client over it."""

from __future__ import annotations

import socket
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.client.client import KEYS, VERSIONS, KafkaClient
from purgatorio.client.fetch import fetch_request
from purgatorio.client.link import Address
from purgatorio.client.produce import batch_of, produce_request
from purgatorio.protocol.api import ApiKey, decode_response, encode_request
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

TIMEOUT_SECONDS = 30
RETRY_SECONDS = 0.02
T = TypeVar("T")


class Wire:
    """One connection, which is a link of our client, too; `frame` builds requests, `exchange` sends one and reads its
    response.
    """

    def __init__(self, address: Address) -> None:
        self.socket = socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.closed = False

    def exchange(self, frame: bytes) -> bytes:
        """Send a request, and return the response without its size."""
        self.socket.sendall(frame)
        return self.receive()

    def receive(self) -> bytes:
        """Read one response, without its size."""
        size_bytes = int.from_bytes(self.socket.recv(4, socket.MSG_WAITALL))
        response = self.socket.recv(size_bytes, socket.MSG_WAITALL)
        while len(response) < size_bytes:  # a socket with a timeout does not wait for all
            rest = self.socket.recv(size_bytes - len(response), socket.MSG_WAITALL)
            assert rest, "the connection was closed within a response"
            response += rest
        return response

    def ask(self, message: Message, version: int | None = None) -> Any:
        """Send a message, and return the response."""
        key = KEYS[type(message)]
        return decoded(key, self.exchange(frame(message, version)), version)

    async def request(self, api_key: int, api_version: int, message: Any, *, timeout_ms: int) -> Any:
        """Send a message, and return the response; it blocks."""
        return self.ask(message, api_version)

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
        self.socket.close()


class BlockingClient(KafkaClient[Wire]):
    """Our client over wires; `now` returns what it is asked for."""

    def __init__(self, bootstrap: Address, retry_seconds: float = RETRY_SECONDS) -> None:
        super().__init__(_opened, lambda: [bootstrap], clock=SystemClock())
        self._retry_seconds = retry_seconds

    async def back_off(self) -> None:
        time.sleep(self._retry_seconds)  # noqa: ASYNC251 - as all that it does


async def _opened(address: Address) -> Wire:
    return Wire(address)


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that blocks where others wait for the event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits for an event loop")


def frame(message: Message, version: int | None = None, client_id: str = "bench") -> bytes:
    """A request, its size in front."""
    key = KEYS[type(message)]
    return b"".join(encode_request(key, VERSIONS[key] if version is None else version, 1, client_id, message))


def decoded(api_key: ApiKey, answer: bytes, version: int | None = None) -> Any:
    """The response of an answer."""
    return decode_response(api_key, VERSIONS[api_key] if version is None else version, answer)[1]


def produce_frame(topic: str, value_bytes: int, *, acks: int, records: int = 1, client_id: str = "bench") -> bytes:
    """A produce request of one batch."""
    batch = batch_of([b"x" * value_bytes] * records, time.time_ns() // 1_000_000)
    return frame(produce_request((topic, 0), batch, acks=acks), client_id=client_id)


def fetch_frame(topic: str, offset: int, *, max_wait_ms: int = 10_000, committed: bool = False) -> bytes:
    """A fetch request for partition 0 from an offset on."""
    return frame(fetch_request((topic, 0), offset, max_wait_ms=max_wait_ms, committed=committed))


def metadata_of(wire: Wire, topics: list[str]) -> MetadataResponse:
    """What a broker knows of the cluster and of these topics."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics])
    answer: MetadataResponse = wire.ask(request)
    return answer


def create_topic(bootstrap: Address, topic: str, replication_factor: int, *, partitions: int = 1) -> Address:
    """Create a topic, wait until its partitions have leaders, and return the address of the first one's leader."""
    client = BlockingClient(bootstrap)
    new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replication_factor)
    created = now(client.ask_any(CreateTopicsRequest(topics=[new], timeout_ms=TIMEOUT_SECONDS * 1000)))
    assert created.topics[0].error_code == 0, created
    deadline = time.perf_counter() + TIMEOUT_SECONDS
    # Apache Kafka answers before all of its brokers know the topic.
    while len(found := now(client.partitions(topic))) != partitions:
        assert time.perf_counter() < deadline, found
        time.sleep(RETRY_SECONDS)
    return client.addresses[client.leaders[topic, 0].broker_id]
