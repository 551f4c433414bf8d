"""The test kit's own connections to brokers that are other processes: topics, records and leaders over the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.admin.operations.reading.records import check_isolation_level
from purgatorio.broker.cluster.errors import AwaitsElection
from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.log.config import TOPIC_CONFIGS
from purgatorio.broker.server.peer import CONNECT_TIMEOUT_MS, PeerConnection, open_peer
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.client.client import KafkaClient, Refused, check
from purgatorio.client.fetch import EARLIEST, LATEST, fetch, list_offset, read
from purgatorio.client.link import Address
from purgatorio.client.produce import produce_request
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from purgatorio.protocol.messages.produce import ProduceRequest
from purgatorio.protocol.record import Record as WireRecord
from purgatorio.protocol.records import build_batch
from purgatorio.testing.values import IsolationLevel, Record

CLIENT_ID: Final = "purgatorio.testing"
LIMIT_MS: Final = 10_000
FETCH_BYTES: Final = 16 * 1024 * 1024
CHANGING: Final = (CreateTopicsRequest, ProduceRequest)
"""Requests that are not sent again when their answer is lost."""
PASSING: Final = frozenset(
    (ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE)
)
"""Errors while a partition's leader changes, also of brokers that do not know it yet."""


class LeaderChanges(ValueError, AwaitsElection):
    """A partition has no leader that answers now; it will have one soon."""


class Connections(KafkaClient[PeerConnection]):
    """A connection to each broker, made when it is needed.

    Args:
        address: returns a broker's host and port.
    """

    def __init__(self, address: Callable[[int], Address]) -> None:
        clock = SystemClock()
        opened = partial(open_peer, clock, CLIENT_ID, CONNECT_TIMEOUT_MS)
        super().__init__(opened, lambda: (), clock=clock, timeout_ms=2 * LIMIT_MS)
        self._address = address

    def close_to(self, broker_id: int) -> None:
        """Close the connection to a broker that ends: what is asked next is not sent to it."""
        if (link := self._links.pop(broker_id, None)) is not None:
            link.close()

    async def ask(self, broker_id: int, request: Message, *, timeout_ms: int | None = None) -> Any:
        """Ask a broker; a LeaderChanges if it is not there, a ConnectionError if it may have done what changes it."""
        is_sent = False
        try:
            self.addresses[broker_id] = self._address(broker_id)
            await self.link(broker_id)
            is_sent = True
            return await super().ask(broker_id, request, timeout_ms=timeout_ms)
        except ConnectionError as error:
            self.close_to(broker_id)
            if is_sent and isinstance(request, CHANGING):
                raise
            raise LeaderChanges(f"broker {broker_id} does not answer: {error}") from error

    # --- topics ---

    async def create_topic(
        self, broker_id: int, name: str, partitions: int, replicas: int, configs: Mapping[str, str]
    ) -> None:
        """Create a topic; a ValueError with the broker's sentence if it is refused."""
        for config in configs:
            if config not in TOPIC_CONFIGS:
                hint = nearest(config, (*TOPIC_CONFIGS, "partitions", "replicas"))
                raise ValueError(f"topic {name!r} was not created: there is no topic config {config!r}{hint}")
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        response = await self.ask(broker_id, CreateTopicsRequest(topics=[topic], timeout_ms=LIMIT_MS))
        (result,) = response.topics
        if result.error_code:
            raise ValueError(
                f"topic {name!r} was not created: {result.error_message or ErrorCode(result.error_code).name}"
            )

    async def _topic(self, broker_id: int, name: str) -> Any:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        return (await self.ask(broker_id, request)).topics[0]

    async def knows_leaders(self, broker_id: int, name: str) -> bool:
        """Return whether a broker knows a leader of each partition of a topic."""
        topic = await self._topic(broker_id, name)
        return not topic.error_code and all(each.leader_id >= 0 for each in topic.partitions)

    async def partition_count(self, broker_id: int, name: str) -> int:
        """Return how many partitions a topic has; a ValueError if there is none of this name."""
        topic = await self._topic(broker_id, name)
        if topic.error_code:
            raise ValueError(f"there is no topic {name!r}")
        return len(topic.partitions)

    async def leader_of(self, broker_id: int, name: str, partition: int) -> int:
        """Return the leader of a partition, as a broker knows it."""
        topic = await self._topic(broker_id, name)
        if topic.error_code:
            raise ValueError(f"there is no topic {name!r}")
        found = {each.partition_index: int(each.leader_id) for each in topic.partitions}
        if partition not in found:
            raise ValueError(f"topic {name!r} has no partition {partition}")
        if found[partition] < 0:
            raise LeaderChanges(f"{name}-{partition} has no leader now")
        return found[partition]

    # --- records ---

    async def produce(
        self,
        leader: int,
        topic: str,
        partition: int,
        key: bytes | None,
        values: Sequence[bytes | None],
        headers: Mapping[str, bytes],
        at_ms: int,
    ) -> int:
        """Append records with acks=all; return the offset of the first."""
        pairs = tuple(headers.items())
        batch = build_batch([WireRecord(nth, at_ms, key, value, pairs) for nth, value in enumerate(values)])
        request = produce_request((topic, partition), batch, timeout_ms=LIMIT_MS)
        response = await self.ask(leader, request)
        (result,) = response.responses[0].partition_responses
        if result.error_code == ErrorCode.REQUEST_TIMED_OUT:
            raise TimeoutError(f"{topic}-{partition}: the in-sync replicas do not have the records; see parked()")
        if result.error_code:
            raise _refusal(topic, partition, result.error_code, result.error_message)
        return int(result.base_offset)

    async def records(self, leader: int, topic: str, partition: int, isolation_level: IsolationLevel) -> list[Record]:
        """Return the records of a partition up to its high watermark, or with read_committed its last stable offset."""
        check_isolation_level(isolation_level)
        committed, tp = isolation_level == "read_committed", (topic, partition)
        found: list[Record] = []
        try:
            offset = await list_offset(self, leader, tp, EARLIEST, committed=committed)
            end_offset = await list_offset(self, leader, tp, LATEST, committed=committed)
            while offset < end_offset:
                data = await fetch(
                    self, leader, tp, offset, max_wait_ms=100, max_bytes=FETCH_BYTES, committed=committed
                )
                check(data.error_code)
                records, offset = read(data, offset)
                found += [
                    Record(topic, partition, each.offset, each.key, each.value, tuple(each.headers), each.timestamp_ms)
                    for each in records
                    if each.offset < end_offset
                ]
        except Refused as refused:
            raise _refusal(topic, partition, refused.code) from None
        return found


def _refusal(topic: str, partition: int, code: int, message: str | None = None) -> ValueError:
    refusal = LeaderChanges if code in PASSING else ValueError
    return refusal(f"{topic}-{partition}: {message or ErrorCode(code).name}")
