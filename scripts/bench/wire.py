"""A blocking client that sends ready frames, for measurements without a client library."""

from __future__ import annotations

import socket
import time
from typing import Any

from purgatorio.protocol.api import ApiKey, decode_response, encode_request
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from purgatorio.protocol.messages.metadata import (
    METADATA_VERSION,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch

PRODUCE_VERSION = 9
FETCH_VERSION = 12
CREATE_TOPICS_VERSION = 5
TIMEOUT_SECONDS = 30


class Wire:
    """One connection; `frame` builds requests, `exchange` sends one and reads its response."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

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

    def ask(self, api_key: ApiKey, version: int, message: Any) -> Any:
        """Send a message, and return the response."""
        return decode_response(api_key, version, self.exchange(frame(api_key, version, message)))[1]

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


def frame(api_key: ApiKey, version: int, message: Any, client_id: str = "bench") -> bytes:
    """A request, its size in front."""
    return b"".join(encode_request(api_key, version, 1, client_id, message))


def produce_frame(topic: str, value_bytes: int, *, acks: int, records: int = 1, client_id: str = "bench") -> bytes:
    """A produce request of one batch."""
    now_ms = time.time_ns() // 1_000_000
    batch = build_batch([Record(delta, now_ms, None, b"x" * value_bytes, ()) for delta in range(records)])
    data = PartitionProduceData(index=0, records=batch)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)
    return frame(ApiKey.PRODUCE, PRODUCE_VERSION, request, client_id)


def fetch_frame(topic: str, offset: int, *, max_wait_ms: int = 10_000) -> bytes:
    """A fetch request for partition 0 from an offset on."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1024 * 1024)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1024 * 1024, topics=topics)
    return frame(ApiKey.FETCH, FETCH_VERSION, request)


def metadata_of(wire: Wire, topics: list[str]) -> MetadataResponse:
    """What a broker knows of the cluster and of these topics."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics])
    answer: MetadataResponse = wire.ask(ApiKey.METADATA, METADATA_VERSION, request)
    return answer


def create_topic(
    bootstrap: tuple[str, int], topic: str, replication_factor: int, *, partitions: int = 1
) -> tuple[str, int]:
    """Create a topic, wait until its partitions have leaders, and return the address of the first one's leader."""
    wire = Wire(bootstrap)
    new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replication_factor)
    request = CreateTopicsRequest(topics=[new], timeout_ms=TIMEOUT_SECONDS * 1000)
    created = wire.ask(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, request)
    assert created.topics[0].error_code == 0, created
    deadline = time.perf_counter() + TIMEOUT_SECONDS
    while True:
        metadata = metadata_of(wire, [topic])
        leaders = {p.partition_index: p.leader_id for p in metadata.topics[0].partitions}
        if len(leaders) == partitions and min(leaders.values()) >= 0:
            break
        # Apache Kafka answers before all of its brokers know the topic.
        assert time.perf_counter() < deadline, metadata
        time.sleep(0.02)
    address = next((broker.host, broker.port) for broker in metadata.brokers if broker.node_id == leaders[0])
    wire.close()
    return address
