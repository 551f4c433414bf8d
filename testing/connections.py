"""The test kit's own connections to brokers that are other processes: topics, records and leaders over the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from purgatorio.admin.operations.reading.records import check_isolation_level
from purgatorio.broker.cluster.errors import AwaitsElection
from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.log.config import TOPIC_CONFIGS
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.end_marker import read_end_marker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from purgatorio.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record as WireRecord
from purgatorio.protocol.records import build_batch, iter_batches, iter_records
from purgatorio.testing.values import IsolationLevel, Record

CLIENT_ID: Final = "purgatorio.testing"
LIMIT_MS: Final = 10_000
FETCH_BYTES: Final = 16 * 1024 * 1024
EARLIEST: Final = -2
LATEST: Final = -1
VERSIONS: Final = {
    ApiKey.METADATA: 9,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.PRODUCE: 9,
    ApiKey.LIST_OFFSETS: 5,
    ApiKey.FETCH: 12,
}
"""Versions that name topics, and answer with sentences where there are any."""
CHANGING: Final = frozenset((ApiKey.CREATE_TOPICS, ApiKey.PRODUCE))
"""Requests that are not sent again when their answer is lost."""
PASSING: Final = frozenset(
    (ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE)
)
"""Errors while a partition's leader changes, also of brokers that do not know it yet."""


class LeaderChanges(ValueError, AwaitsElection):
    """A partition has no leader that answers now; it will have one soon."""


class Connections:
    """A connection to each broker, made when it is needed.

    Args:
        address: returns a broker's host and port.
    """

    def __init__(self, address: Callable[[int], tuple[str, int]]) -> None:
        self._address = address
        self._open: dict[int, PeerConnection] = {}

    def close(self) -> None:
        """Close all connections."""
        for each in self._open.values():
            each.close()

    def forget(self, broker_id: int) -> None:
        """Close the connection to a broker that ends: what is asked next is not sent to it."""
        if broker_id in self._open:
            self._open.pop(broker_id).close()

    async def _ask(self, broker_id: int, api_key: ApiKey, message: Any) -> Any:
        """Ask a broker; a LeaderChanges if it is not there, a ConnectionError if it may have done what changes it."""
        is_sent = False
        try:
            connection = self._open.get(broker_id)
            if connection is None or connection.closed:
                connection = self._open[broker_id] = PeerConnection(SystemClock(), client_id=CLIENT_ID)
                await connection.connect(*self._address(broker_id))
            is_sent = True
            return await connection.request(api_key, VERSIONS[api_key], message, timeout_ms=2 * LIMIT_MS)
        except ConnectionError as error:
            self.forget(broker_id)
            if is_sent and api_key in CHANGING:
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
        response = await self._ask(
            broker_id, ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic], timeout_ms=LIMIT_MS)
        )
        (result,) = response.topics
        if result.error_code:
            raise ValueError(
                f"topic {name!r} was not created: {result.error_message or ErrorCode(result.error_code).name}"
            )

    async def _topic(self, broker_id: int, name: str) -> Any:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        return (await self._ask(broker_id, ApiKey.METADATA, request)).topics[0]

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

    async def leader(self, broker_id: int, name: str, partition: int) -> int:
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
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(acks=-1, timeout_ms=LIMIT_MS, topic_data=[data])
        response = await self._ask(leader, ApiKey.PRODUCE, request)
        (result,) = response.responses[0].partition_responses
        if result.error_code == ErrorCode.REQUEST_TIMED_OUT:
            raise TimeoutError(f"{topic}-{partition}: the in-sync replicas do not have the records; see parked()")
        if result.error_code:
            refusal = LeaderChanges if result.error_code in PASSING else ValueError
            raise refusal(f"{topic}-{partition}: {result.error_message or ErrorCode(result.error_code).name}")
        return int(result.base_offset)

    async def records(self, leader: int, topic: str, partition: int, isolation_level: IsolationLevel) -> list[Record]:
        """Return the records of a partition up to its high watermark, or with read_committed its last stable offset."""
        check_isolation_level(isolation_level)
        isolation = int(isolation_level == "read_committed")
        offset = await self._offset(leader, topic, partition, EARLIEST, isolation)
        end_offset = await self._offset(leader, topic, partition, LATEST, isolation)
        found: list[Record] = []
        while offset < end_offset:
            part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            request = FetchRequest(
                max_wait_ms=100,
                min_bytes=1,
                max_bytes=FETCH_BYTES,
                isolation_level=isolation,
                topics=[FetchTopic(topic=topic, partitions=[part])],
            )
            response = await self._ask(leader, ApiKey.FETCH, request)
            data = response.responses[0].partitions[0]
            _check(topic, partition, data.error_code)
            aborted = [(each.first_offset, each.producer_id) for each in data.aborted_transactions or ()]
            offset = _add_records(found, topic, partition, offset, end_offset, bytes(data.records or b""), aborted)
        return found

    async def _offset(self, leader: int, topic: str, partition: int, timestamp: int, isolation: int) -> int:
        part = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(
            isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=[part])], timeout_ms=LIMIT_MS
        )
        result = (await self._ask(leader, ApiKey.LIST_OFFSETS, request)).topics[0].partitions[0]
        _check(topic, partition, result.error_code)
        return int(result.offset)


def _check(topic: str, partition: int, code: int) -> None:
    if code:
        raise (LeaderChanges if code in PASSING else ValueError)(f"{topic}-{partition}: {ErrorCode(code).name}")


def _add_records(
    found: list[Record],
    topic: str,
    partition: int,
    offset: int,
    end_offset: int,
    data: bytes,
    aborted: list[tuple[int, int]],
) -> int:
    """Add the records from an offset on, without those of aborted transactions; return the next offset."""
    open_ones: set[int] = set()
    waiting = sorted(aborted)
    for header, batch in iter_batches(data, allow_partial=True):
        while waiting and waiting[0][0] <= header.base_offset:
            open_ones.add(waiting.pop(0)[1])
        if header.is_control:
            if (marker := read_end_marker(batch)) is not None and not marker.committed:
                open_ones.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_ones):
            for each in iter_records(batch):
                if offset <= each.offset < end_offset:
                    pairs = tuple(each.headers)
                    found.append(Record(topic, partition, each.offset, each.key, each.value, pairs, each.timestamp_ms))
        offset = header.last_offset + 1
    return offset
