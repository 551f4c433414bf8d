"""Simulated clients, which speak the wire protocol to the brokers, and a simple producer that records a history.

The pipelined producer and the consumer are in `purgatorio.simulation.clients.pipelined` and `.consumers`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.time.clock import Clock
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.errors import ErrorCode, ProtocolError
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.records import Record, build_batch
from purgatorio.simulation.history.history import Acked, Failed, History, Sent, Unknown

METADATA_VERSION: Final = 12
PRODUCE_VERSION: Final = 9
INIT_PRODUCER_ID_VERSION: Final = 4
FIND_COORDINATOR_VERSION: Final = 4
GROUP, TRANSACTION = 0, 1
"""The types of keys that have a coordinator."""
REQUEST_TIMEOUT_MS: Final = 1_500
RETRY_BACKOFF_MS: Final = (20, 120)

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

    async def connection(self, broker_id: int) -> PeerConnection:
        """Return the client's connection to a broker, which is opened if there is none.

        Raises:
            Unavailable: the broker's address is not known.
            OSError, TimeoutError: the broker cannot be reached.
        """
        connection = self._connections.get(broker_id)
        if connection is None or connection.closed:
            address = self._addresses.get(broker_id)
            if address is None:
                raise Unavailable(f"broker {broker_id} is not known")
            connection = self._connections[broker_id] = await self._connect(address)
        return connection

    async def ask(self, broker_id: int, key: int, version: int, request: Any, *, timeout_ms: int) -> Any:
        """Send a request to a broker over the client's connection to it, and return the response.

        Raises:
            Unavailable: the broker's address is not known.
            OSError, TimeoutError, ProtocolError: the broker did not answer.
        """
        connection = await self.connection(broker_id)
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

    async def coordinator(self, key: str, key_type: int = GROUP) -> int:
        """Look up the broker that coordinates a group or a transactional id.

        Raises:
            Unavailable: it has no coordinator, or no broker answers.
        """
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        response = await self.ask_any(ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, request)
        found = response.coordinators[0]
        if found.error_code:
            raise Unavailable(ErrorCode(found.error_code).name)
        self._addresses[found.node_id] = (found.host, found.port)
        broker_id: int = found.node_id
        return broker_id

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


@dataclass(frozen=True, slots=True)
class Output:
    """What a producer writes, and where.

    Attributes:
        keys: the key of a record is its value modulo this; 0: records have no keys.
    """

    topic: str
    partition: int
    compression: Compression = Compression.NONE
    keys: int = 0

    @property
    def name(self) -> str:
        """The partition's name in the history."""
        return f"{self.topic}-{self.partition}"

    def batch(
        self,
        values: list[int],
        wall_ms: int,
        *,
        producer: tuple[int, int],
        sequence: int,
        transactional: bool = False,
    ) -> bytes:
        """Build a batch of these values; `producer` is the producer's id and epoch, -1 and -1 if it has none."""
        records = [
            Record(nth, wall_ms, str(value % self.keys).encode() if self.keys else None, str(value).encode(), ())
            for nth, value in enumerate(values)
        ]
        return build_batch(
            records,
            compression=self.compression,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence if producer[0] >= 0 else -1,
            transactional=transactional,
        )

    def request(self, batch: bytes, acks: int, transactional_id: str | None = None) -> ProduceRequest:
        """Build the request that writes a batch."""
        data = PartitionProduceData(index=self.partition, records=batch)
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=REQUEST_TIMEOUT_MS - 500,
            topic_data=[TopicProduceData(name=self.topic, partition_data=[data])],
        )


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
        output: Output,
        *,
        acks: int,
        values: Iterator[int],
        history: History,
        clock: Clock,
        delivery_timeout_ms: int = 8_000,
        pause_ms: tuple[float, float],
    ) -> None:
        self._client = client
        self._output = output
        self._name = output.name
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
            leader = self._leader or await client.leader(self._output.topic, self._output.partition)
        except Unavailable as error:
            return _Refused(str(error))
        self._leader = None
        producer = self._producer_id, self._producer_epoch
        batch = self._output.batch([value], self._clock.wall_ms(), producer=producer, sequence=self._next_sequence)
        request = self._output.request(batch, self._acks)
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
        return _Refused(code.name, maybe_written=code not in NOT_WRITTEN, fatal=not code.retriable)


# The broker answers this error before it appends. UNKNOWN_TOPIC_OR_PARTITION may come after that, as may others.
NOT_WRITTEN: Final = (ErrorCode.NOT_ENOUGH_REPLICAS,)


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
