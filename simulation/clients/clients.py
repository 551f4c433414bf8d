"""Simulated clients, which speak the wire protocol to the brokers, and a simple producer that records a history.

The pipelined producers and the consumer are in `purgatorio.simulation.clients.pipelined` and `.consumers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, Final, ParamSpec

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.errors import ErrorCode, ProtocolError
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.metadata import (
    METADATA_VERSION,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.purgatory.clock import Clock
from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import Acked, Failed, History, Sent, Unknown
from purgatorio.simulation.world.loop import SimulatedLoop

PRODUCE_VERSION: Final = 9
INIT_PRODUCER_ID_VERSION: Final = 4
FIND_COORDINATOR_VERSION: Final = 4
GROUP, TRANSACTION = 0, 1
"""The types of keys that have a coordinator."""
REQUEST_TIMEOUT_MS: Final = 1_500
RETRY_BACKOFF_MS: Final = (20, 120)

ALL_REPLICAS: Final = -1
NETWORK_ERRORS = (OSError, TimeoutError, ProtocolError)
WRITTEN: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
NOT_WRITTEN: Final = (ErrorCode.NOT_ENOUGH_REPLICAS,)
"""Brokers answer this error before they append. UNKNOWN_TOPIC_OR_PARTITION may come after that, as may others:
NOT_LEADER_OR_FOLLOWER if the leader changes while the request is parked."""
P = ParamSpec("P")


class Unavailable(Exception):
    """No broker answers, or the partition has no leader."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition and its epoch, as a client knows them from metadata."""

    broker_id: int
    epoch: int


@dataclass(slots=True)
class Attempt:
    """The result of sending a batch once to `leader`, if there was one.

    The code is NETWORK_EXCEPTION if there was no answer, and the offset negative if the answer did not give it.
    """

    code: ErrorCode
    reason: str
    leader: Leader | None
    offset: int = -1


class Client:
    """Connections and metadata of one client, which records its events in the history.

    Attributes:
        addresses: the brokers that it knows, by id.
    """

    def __init__(
        self, name: str, bootstrap: list[tuple[str, int]], *, clock: Clock, rng: random.Random, history: History
    ) -> None:
        self.name = name
        self.rng = rng
        self.clock = clock
        self.history = history
        self._bootstrap = bootstrap
        self.addresses: dict[int, tuple[str, int]] = {}
        self._connections: dict[int, PeerConnection] = {}
        self._leaders: dict[TopicPartition, Leader] = {}  # those that took the last batch

    def record(self, kind: Callable[Concatenate[int, P], Event], *args: P.args, **options: P.kwargs) -> None:
        """Record an event of this moment."""
        self.history.record(kind(self.clock.now_ms(), *args, **options))

    def record_acked(self, partition: str, values: Sequence[int], offset: int, acks: int, leader: Leader) -> None:
        """Record that a leader acknowledged a batch, at this offset; negative: the response did not give it."""
        for nth, value in enumerate(values):
            at = offset + nth if offset >= 0 else -1
            self.record(Acked, self.name, partition, value, at, acks, leader.broker_id, leader.epoch)

    def record_given_up(self, partition: str, values: Sequence[int], reason: str, *, maybe_written: bool) -> None:
        """Record that a batch is given up."""
        for value in values:
            self.record(Unknown if maybe_written else Failed, self.name, partition, value, reason)

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
            address = self.addresses.get(broker_id)
            if address is None:
                raise Unavailable(f"broker {broker_id} is not known")
            connection = self._connections[broker_id] = await self._connect(address)
        return connection

    async def ask(
        self, broker_id: int, key: int, version: int, request: Any, *, timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> Any:
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
            with contextlib.suppress(*NETWORK_ERRORS), contextlib.closing(await self._connect(address)) as connection:
                return await connection.request(key, version, request, timeout_ms=REQUEST_TIMEOUT_MS)
        raise Unavailable("no broker answers")

    async def leader(self, tp: TopicPartition) -> Leader:
        """Look up the leader of a partition.

        Raises:
            Unavailable: the partition has no leader, or no broker answers.
        """
        request = MetadataRequest(topics=[MetadataRequestTopic(name=tp.topic)], allow_auto_topic_creation=False)
        response: MetadataResponse = await self.ask_any(ApiKey.METADATA, METADATA_VERSION, request)
        self.addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        for found in response.topics[0].partitions:
            if found.partition_index == tp.partition and found.leader_id in self.addresses:
                return Leader(found.leader_id, found.leader_epoch)
        raise Unavailable(f"{tp} has no leader")

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
        self.addresses[found.node_id] = (found.host, found.port)
        broker_id: int = found.node_id
        return broker_id

    async def producer_id(self, producer_id: int = -1, epoch: int = -1) -> tuple[int, int]:
        """Get a producer id and epoch, or the next epoch of the ones given.

        Raises:
            Unavailable: no broker gives one.
        """
        request = InitProducerIdRequest(transactional_id=None, producer_id=producer_id, producer_epoch=epoch)
        response = await self.ask_any(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request)
        if response.error_code:
            raise Unavailable(ErrorCode(response.error_code).name)
        return response.producer_id, response.producer_epoch

    async def deliver(
        self, output: Output, values: Sequence[int], build: Callable[[], bytes], give_up_ms: float, **options: Any
    ) -> ErrorCode:
        """Send a batch until it is written, refused for good or out of time; record and return the outcome."""
        maybe_written = False
        while True:
            attempt = await self._attempt(output, build, **options)
            code, leader = attempt.code, attempt.leader
            if leader is not None and code in WRITTEN:
                self.record_acked(output.name, values, attempt.offset, options["acks"], leader)
                return ErrorCode.NONE
            maybe_written |= leader is not None and code not in NOT_WRITTEN
            if not code.retriable or self.clock.now_ms() >= give_up_ms:
                self.record_given_up(output.name, values, attempt.reason, maybe_written=maybe_written)
                return code
            await self.back_off()

    async def _attempt(
        self,
        output: Output,
        build: Callable[[], bytes],
        *,
        acks: int,
        version: int = PRODUCE_VERSION,
        transactional_id: str | None = None,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> Attempt:
        leader: Leader | None = None
        try:
            leader = self._leaders.pop(output.tp, None) or await self.leader(output.tp)
            request = output.request(build(), acks, transactional_id)
            answer = await self.ask(leader.broker_id, ApiKey.PRODUCE, version, request, timeout_ms=timeout_ms)
        except (*NETWORK_ERRORS, Unavailable) as error:
            code = ErrorCode.NETWORK_EXCEPTION
            told = code.name if transactional_id is not None else str(error) if leader is None else repr(error)
            return Attempt(code, told, leader)
        partition = answer.responses[0].partition_responses[0]
        code = ErrorCode(partition.error_code)
        if code is not ErrorCode.NONE:
            return Attempt(code, code.name, leader)
        self._leaders[output.tp] = leader
        return Attempt(code, code.name, leader, partition.base_offset)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()

    async def _connect(self, address: tuple[str, int]) -> PeerConnection:
        connection = PeerConnection(self.clock, client_id=self.name)
        try:
            await connection.connect(*address, timeout_ms=REQUEST_TIMEOUT_MS)
        except BaseException:
            connection.close()
            raise
        return connection


@dataclass(frozen=True, slots=True)
class Output:
    """The topic and the records that a producer writes.

    Attributes:
        keys: the key of a record is its value modulo this; 0: records have no keys.
    """

    topic: str
    partition: int
    compression: Compression = Compression.NONE
    keys: int = 0

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def name(self) -> str:
        """The partition's name in the history."""
        return str(self.tp)

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


@dataclass(kw_only=True)
class Producer:
    """Sends unique values to one partition, one after the other, with waits between them out of `pause_ms`.

    With acks=-1 it is idempotent and retries each value until `delivery_timeout_ms`; with acks=1 it tries once.
    """

    client: Client = field(kw_only=False)
    output: Output = field(kw_only=False)
    acks: int
    values: Iterator[int]
    pause_ms: tuple[float, float]
    delivery_timeout_ms: int = 8_000
    _producer: tuple[int, int] = (-1, -1)
    _next_sequence: int = 0
    _sent: int = 0

    async def run(self, stopped: Callable[[], bool]) -> None:
        """Send values until `stopped`; the current value is finished first."""
        try:
            while not stopped():
                if self.acks == ALL_REPLICAS and self._producer[0] < 0:
                    try:
                        self._producer, self._next_sequence = await self.client.producer_id(), 0
                    except Unavailable:
                        await self.client.back_off()
                        continue
                await self._send(next(self.values))
                await asyncio.sleep(self.client.rng.uniform(*self.pause_ms) / 1000)
        finally:
            self.client.close()

    async def _send(self, value: int) -> None:
        client, output = self.client, self.output
        client.record(Sent, client.name, output.name, value, self._sent)
        self._sent += 1

        def build() -> bytes:
            wall_ms = client.clock.wall_ms()
            return output.batch([value], wall_ms, producer=self._producer, sequence=self._next_sequence)

        give_up_ms = client.clock.now_ms() + (self.delivery_timeout_ms if self.acks == ALL_REPLICAS else 0)
        if await client.deliver(output, [value], build, give_up_ms, acks=self.acks) is ErrorCode.NONE:
            self._next_sequence += 1
        else:
            # With the same producer id, brokers would see a gap before the next value, or a duplicate of this one.
            self._producer = -1, -1


@dataclass(slots=True, eq=False)
class Place:
    """A node for clients: after a crash the next one follows in its place.

    Attributes:
        live: makes the next client, and returns what it does.
        tasks: the client's, and of others that have followed it already.
    """

    name: str
    live: Callable[[Place], Coroutine[Any, Any, None]]
    incarnations: int = 0
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def next_name(self) -> str:
        """Name the next client: a follower has a new name, since its sequence and its assignment start again."""
        self.incarnations += 1
        return self.name if self.incarnations == 1 else f"{self.name}.{self.incarnations}"

    def start(self, loop: SimulatedLoop) -> None:
        """Start a client; if it was killed, the next one."""
        self.tasks = [loop.node(self.name).spawn(self.live(self), name=self.name)]
