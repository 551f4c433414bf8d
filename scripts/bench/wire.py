"""Ready frames over blocking connections, for measurements without a client library, and our client over them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing

from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.client.client import KafkaClient
from purgatorio.client.fetch import fetch_request
from purgatorio.client.link import Address
from purgatorio.client.produce import batch_of, produce_request
from purgatorio.client.wire import TIMEOUT_SECONDS, Wire, frame, now
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

RETRY_SECONDS = 0.02


class BlockingClient(KafkaClient[Wire]):
    """Our client over wires; `now` returns what it is asked for."""

    def __init__(self, bootstrap: Address, retry_seconds: float = RETRY_SECONDS) -> None:
        super().__init__(Wire.open, lambda: [bootstrap], clock=SystemClock())
        self._retry_seconds = retry_seconds

    async def back_off(self) -> None:
        time.sleep(self._retry_seconds)  # noqa: ASYNC251 - as all that it does


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


def create_topic(
    bootstrap: Address,
    topic: str,
    replication_factor: int,
    *,
    partitions: int = 1,
    configs: Mapping[str, str] | None = None,
) -> Address:
    """Create a topic, wait until its partitions have leaders, and return the address of the first one's leader."""
    client = BlockingClient(bootstrap)
    new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replication_factor)
    new.configs = [CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()]
    created = now(client.ask_any(CreateTopicsRequest(topics=[new], timeout_ms=TIMEOUT_SECONDS * 1000)))
    assert created.topics[0].error_code == 0, created
    deadline = time.perf_counter() + TIMEOUT_SECONDS
    # Apache Kafka answers before all of its brokers know the topic.
    while len(found := now(client.partitions(topic))) != partitions:
        assert time.perf_counter() < deadline, found
        time.sleep(RETRY_SECONDS)
    return client.addresses[client.leaders[topic, 0].broker_id]


def wait_for_all_replicas(bootstrap: Address, topic: str) -> None:
    """Wait until the in-sync sets of a topic's partitions have three replicas."""
    deadline = time.perf_counter() + TIMEOUT_SECONDS
    with closing(Wire(bootstrap)) as wire:
        while any(len(each.isr_nodes) < 3 for each in metadata_of(wire, [topic]).topics[0].partitions):
            assert time.perf_counter() < deadline, "the in-sync sets are not full"
            time.sleep(0.005)
