"""Simulated clients, which speak the wire protocol to the brokers and record a history."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from purgatorio.broker.clock import Clock
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.simulation.history import Acked, Assigned, Drained, Failed, History, Polled, Sent, Unknown
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode, ProtocolError
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.records import Record, build_batch, iter_batches, iter_records

METADATA_VERSION: Final = 12
PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
LIST_OFFSETS_VERSION: Final = 7
INIT_PRODUCER_ID_VERSION: Final = 4
REQUEST_TIMEOUT_MS: Final = 1_500
RETRY_BACKOFF_MS: Final = (20, 120)
EARLIEST, LATEST = -2, -1

NETWORK_ERRORS = (OSError, TimeoutError, ProtocolError)


class Unavailable(Exception):
    """No broker answers, or the partition has no leader."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition and its epoch, as a client knows them from metadata."""

    broker_id: int
    epoch: int


class Client:
    """Connections and metadata of one client.

    Args:
        name: the client id.
        bootstrap: the host and port of each broker.
        rng: spreads retries over time and brokers.
    """

    def __init__(self, name: str, bootstrap: list[tuple[str, int]], *, clock: Clock, rng: random.Random) -> None:
        self.name = name
        self.rng = rng
        self._bootstrap = bootstrap
        self._clock = clock
        self._addresses: dict[int, tuple[str, int]] = {}
        self._connections: dict[int, PeerConnection] = {}

    async def back_off(self) -> None:
        """Wait for a random retry backoff."""
        await asyncio.sleep(self.rng.uniform(*RETRY_BACKOFF_MS) / 1000)

    async def ask(self, broker_id: int, key: int, version: int, request: Any, *, timeout_ms: int) -> Any:
        """Send a request to a broker over the client's connection to it, and return the response.

        Raises:
            Unavailable: the broker's address is not known.
            OSError, TimeoutError, ProtocolError: the broker did not answer.
        """
        connection = self._connections.get(broker_id)
        if connection is None or connection.closed:
            address = self._addresses.get(broker_id)
            if address is None:
                raise Unavailable(f"broker {broker_id} is not known")
            connection = await self._connect(address)
            self._connections[broker_id] = connection
        return await connection.request(key, version, request, timeout_ms=timeout_ms)

    async def ask_any(self, key: int, version: int, request: Any) -> Any:
        """Send a request to the brokers in a random order until one answers, and return the response.

        Raises:
            Unavailable: no broker answers.
        """
        for address in self.rng.sample(self._bootstrap, len(self._bootstrap)):
            try:
                connection = await self._connect(address)
            except NETWORK_ERRORS:
                continue
            try:
                return await connection.request(key, version, request, timeout_ms=REQUEST_TIMEOUT_MS)
            except NETWORK_ERRORS:
                continue
            finally:
                connection.close()
        raise Unavailable("no broker answers")

    async def leader(self, topic: str, partition: int) -> Leader:
        """Look up the leader of a partition.

        Raises:
            Unavailable: the partition has no leader, or no broker answers.
        """
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        response: MetadataResponse = await self.ask_any(ApiKey.METADATA, METADATA_VERSION, request)
        self._addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        for found in response.topics[0].partitions:
            if found.partition_index == partition and found.leader_id in self._addresses:
                return Leader(found.leader_id, found.leader_epoch)
        raise Unavailable(f"{topic}-{partition} has no leader")

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()

    async def _connect(self, address: tuple[str, int]) -> PeerConnection:
        connection = PeerConnection(self._clock, client_id=self.name)
        try:
            await connection.connect(*address, timeout_ms=REQUEST_TIMEOUT_MS)
        except BaseException:
            connection.close()
            raise
        return connection


class Producer:
    """Sends unique values to one partition, one after the other.

    With acks=-1 it is idempotent and retries each value until `delivery_timeout_ms`; with acks=1 it tries once.

    Args:
        values: the values to send.
        history: records the sends and their outcomes.
        pause_ms: the range of the wait between two values.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        partition: int,
        *,
        acks: int,
        values: Iterator[int],
        history: History,
        clock: Clock,
        delivery_timeout_ms: int = 8_000,
        pause_ms: tuple[float, float],
    ) -> None:
        self._client = client
        self._topic = topic
        self._partition = partition
        self._name = f"{topic}-{partition}"
        self._acks = acks
        self._values = values
        self._history = history
        self._clock = clock
        self._delivery_timeout_ms = delivery_timeout_ms
        self._pause_ms = pause_ms
        self._producer_id, self._producer_epoch = -1, -1
        self._next_sequence = 0
        self._sent = 0
        self._leader: Leader | None = None

    async def run(self, stopped: Callable[[], bool]) -> None:
        """Send values until `stopped`; the current value is finished first."""
        try:
            while not stopped():
                if self._acks == -1 and self._producer_id < 0 and not await self._identify():
                    await self._client.back_off()
                    continue
                await self._send(next(self._values))
                await asyncio.sleep(self._client.rng.uniform(*self._pause_ms) / 1000)
        finally:
            self._client.close()

    async def _identify(self) -> bool:
        """Get a producer id, and return whether that succeeded."""
        request = InitProducerIdRequest(transactional_id=None)
        try:
            response = await self._client.ask_any(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request)
        except Unavailable:
            return False
        if response.error_code:
            return False
        self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch
        self._next_sequence = 0
        return True

    async def _send(self, value: int) -> None:
        """Send one value, and record the outcome."""
        name, producer, history, clock = self._name, self._client.name, self._history, self._clock
        history.record(Sent(clock.now_ms(), producer, name, value, self._sent))
        self._sent += 1
        give_up_ms = clock.now_ms() + (self._delivery_timeout_ms if self._acks == -1 else 0)
        maybe_written, reason = False, "no attempt"
        while True:
            outcome = await self._attempt(value)
            if isinstance(outcome, _Written):
                leader = outcome.leader
                history.record(
                    Acked(
                        clock.now_ms(),
                        producer,
                        name,
                        value,
                        outcome.offset,
                        self._acks,
                        leader.broker_id,
                        leader.epoch,
                    )
                )
                self._next_sequence += 1
                return
            maybe_written = maybe_written or outcome.maybe_written
            reason = outcome.reason
            if outcome.fatal or clock.now_ms() >= give_up_ms:
                break
            await self._client.back_off()
        end = Unknown if maybe_written else Failed
        history.record(end(clock.now_ms(), producer, name, value, reason))
        # With the same producer id, brokers would see a gap before the next value, or a duplicate of this one.
        self._producer_id = -1

    async def _attempt(self, value: int) -> _Written | _Refused:
        """Send once, and return where the value was written, or the reason for the failure."""
        client = self._client
        try:
            leader = self._leader or await client.leader(self._topic, self._partition)
        except Unavailable as error:
            return _Refused(str(error))
        self._leader = None
        records = build_batch(
            [Record(0, self._clock.wall_ms(), None, str(value).encode(), ())],
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._next_sequence if self._producer_id >= 0 else -1,
        )
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=REQUEST_TIMEOUT_MS - 500,
            topic_data=[
                TopicProduceData(
                    name=self._topic, partition_data=[PartitionProduceData(index=self._partition, records=records)]
                )
            ],
        )
        try:
            response = await client.ask(
                leader.broker_id, ApiKey.PRODUCE, PRODUCE_VERSION, request, timeout_ms=REQUEST_TIMEOUT_MS
            )
        except (*NETWORK_ERRORS, Unavailable) as error:
            return _Refused(repr(error), maybe_written=True)
        answer = response.responses[0].partition_responses[0]
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self._leader = leader
            return _Written(answer.base_offset, leader)
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return _Written(-1, leader)
        return _Refused(code.name, maybe_written=code not in _NOT_WRITTEN, fatal=not code.retriable)


# The broker answers these errors before it appends.
_NOT_WRITTEN: Final = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@dataclass(frozen=True, slots=True)
class _Written:
    """The offset of an acknowledged value (−1 if the response did not give it), and the leader that answered."""

    offset: int
    leader: Leader


@dataclass(frozen=True, slots=True)
class _Refused:
    """The reason for a failed attempt.

    Attributes:
        maybe_written: whether the record may be in the log nevertheless. NOT_LEADER_OR_FOLLOWER may come after the
            append, if the leader changes while the request is parked.
        fatal: whether a retry is useless.
    """

    reason: str
    maybe_written: bool = False
    fatal: bool = False


class Consumer:
    """Reads one partition from its start, and continues with new records.

    Args:
        final: stop at the partition's end offset, as the leader gives it at first.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        partition: int,
        *,
        history: History,
        clock: Clock,
        final: bool = False,
        rack: str = "",
    ) -> None:
        self._client = client
        self._topic = topic
        self._partition = partition
        self._name = f"{topic}-{partition}"
        self._history = history
        self._clock = clock
        self._final = final
        self._rack = rack
        self._position = -1
        self._start = 0
        self._last_epoch = -1

    async def run(self, stopped: Callable[[], bool]) -> None:
        """Read until `stopped`; the final reader stops at the end offset."""
        try:
            while not stopped():
                try:
                    leader = await self._client.leader(self._topic, self._partition)
                    if self._position < 0:
                        await self._assign(leader, EARLIEST)
                    await self._read_from(leader, stopped)
                    if self._final:
                        return
                except (*NETWORK_ERRORS, Unavailable):
                    await self._client.back_off()
        finally:
            self._client.close()

    async def _assign(self, leader: Leader, timestamp: int, *, reset: bool = False) -> None:
        """Set the position to the earliest or latest offset, and record the assignment."""
        self._position = await self._offset(leader, timestamp)
        self._start = self._position
        self._last_epoch = -1
        self._history.record(Assigned(self._clock.now_ms(), self._client.name, self._name, self._position, reset))

    async def _offset(self, leader: Leader, timestamp: int) -> int:
        question = ListOffsetsPartition(
            partition_index=self._partition, current_leader_epoch=leader.epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=self._topic, partitions=[question])])
        response = await self._client.ask(
            leader.broker_id, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request, timeout_ms=REQUEST_TIMEOUT_MS
        )
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise Unavailable(ErrorCode(answer.error_code).name)
        offset: int = answer.offset
        return offset

    async def _read_from(self, leader: Leader, stopped: Callable[[], bool]) -> None:
        """Fetch from one leader until it returns an error."""
        end_offset = await self._offset(leader, LATEST) if self._final else None
        while not stopped():
            if end_offset is not None and self._position >= end_offset:
                self._history.record(Drained(self._clock.now_ms(), self._name, self._start, end_offset))
                return
            asked_ms = self._clock.now_ms()
            data = await self._fetch(leader)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE or data.diverging_epoch.end_offset >= 0:
                # Records that were read are no longer in the log: restart at the earliest offset.
                await self._assign(leader, EARLIEST, reset=True)
            elif data.error_code:
                raise Unavailable(ErrorCode(data.error_code).name)
            else:
                self._take(data, leader, asked_ms)

    async def _fetch(self, leader: Leader) -> PartitionData:
        partition = FetchPartition(
            partition=self._partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self._position,
            last_fetched_epoch=self._last_epoch,
            partition_max_bytes=64 * 1024,
        )
        request = FetchRequest(
            max_wait_ms=400,
            min_bytes=1,
            max_bytes=1024 * 1024,
            topics=[FetchTopic(topic=self._topic, partitions=[partition])],
            rack_id=self._rack,
        )
        response = await self._client.ask(
            leader.broker_id, ApiKey.FETCH, FETCH_VERSION, request, timeout_ms=REQUEST_TIMEOUT_MS
        )
        if response.error_code:
            raise Unavailable(ErrorCode(response.error_code).name)
        data: PartitionData = response.responses[0].partitions[0]
        return data

    def _take(self, data: PartitionData, leader: Leader, asked_ms: int) -> None:
        records: list[tuple[int, int]] = []
        # Decoded records are one view into the response.
        for header, batch in iter_batches(cast("Buffer | None", data.records) or b"", allow_partial=True):
            records += [(r.offset, int(r.value or b"-1")) for r in iter_records(batch) if r.offset >= self._position]
            self._last_epoch = header.partition_leader_epoch
        if records:
            self._position = records[-1][0] + 1
            self._history.record(
                Polled(
                    self._clock.now_ms(),
                    self._client.name,
                    self._name,
                    tuple(records),
                    data.high_watermark,
                    self._final,
                    leader.broker_id,
                    leader.epoch,
                    asked_ms=asked_ms,
                )
            )
