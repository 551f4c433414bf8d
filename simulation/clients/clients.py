"""Simulated clients, which speak the wire protocol to the brokers, and a simple producer that records a history.

The pipelined producers and the consumer are in `purgatorio.simulation.clients.pipelined` and `.consumers`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.server.peer import PeerConnection, open_peer
from purgatorio.client.client import KafkaClient, Leader, Unavailable
from purgatorio.client.produce import ALL_REPLICAS, NO_PRODUCER, produce, produce_request
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.produce import ProduceRequest
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.purgatory.clock import Clock
from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import Acked, Failed, History, Sent, Unknown
from purgatorio.simulation.world.loop import SimulatedLoop

REQUEST_TIMEOUT_MS: Final = 1_500
RETRY_BACKOFF_MS: Final = (20, 120)

WRITTEN: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
NOT_WRITTEN: Final = (ErrorCode.NOT_ENOUGH_REPLICAS,)
"""Brokers answer this error before they append. UNKNOWN_TOPIC_OR_PARTITION may come after that, as may others:
NOT_LEADER_OR_FOLLOWER if the leader changes while the request is parked."""
P = ParamSpec("P")


class Client(KafkaClient[PeerConnection]):
    """A Kafka client that records its events in the history."""

    def __init__(
        self, name: str, bootstrap: list[tuple[str, int]], *, clock: Clock, rng: random.Random, history: History
    ) -> None:
        super().__init__(
            partial(open_peer, clock, name, REQUEST_TIMEOUT_MS),
            lambda: rng.sample(bootstrap, len(bootstrap)),
            clock=clock,
            timeout_ms=REQUEST_TIMEOUT_MS,
        )
        self.name = name
        self.rng = rng
        self.history = history

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

    async def deliver(
        self,
        output: Output,
        values: Sequence[int],
        build: Callable[[], bytes],
        give_up_ms: float,
        *,
        acks: int,
        transactional_id: str | None = None,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> ErrorCode:
        """Send a batch until it is written, refused for good or out of time; record and return the outcome."""

        def request() -> ProduceRequest:
            return output.request(build(), acks, transactional_id)

        maybe_written = False
        while True:
            attempt = await produce(self, output.tp, request, timeout_ms=timeout_ms)
            code, leader = attempt.code, attempt.leader
            if leader is not None and code in WRITTEN:
                self.record_acked(output.name, values, attempt.offset, acks, leader)
                return ErrorCode.NONE
            maybe_written |= leader is not None and code not in NOT_WRITTEN
            if not code.retriable or self.clock.now_ms() >= give_up_ms:
                self.record_given_up(output.name, values, attempt.reason, maybe_written=maybe_written)
                return code
            await self.back_off()


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
        return produce_request(
            self.tp, batch, acks=acks, timeout_ms=REQUEST_TIMEOUT_MS - 500, transactional_id=transactional_id
        )


@dataclass(kw_only=True)
class SimulatedProducer:
    """Sends unique values to one partition, one after the other, with waits between them out of `pause_ms`.

    With acks=-1 it is idempotent and retries each value until `delivery_timeout_ms`; with acks=1 it tries once.
    """

    client: Client = field(kw_only=False)
    output: Output = field(kw_only=False)
    acks: int
    values: Iterator[int]
    pause_ms: tuple[float, float]
    delivery_timeout_ms: int = 8_000
    _producer: tuple[int, int] = NO_PRODUCER
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
            self._producer = NO_PRODUCER


@dataclass(slots=True, eq=False)
class ClientSlot:
    """A node for clients: after a crash the next one follows in its place.

    Attributes:
        live: makes the next client, and returns what it does.
        tasks: the client's, and of others that have followed it already.
    """

    name: str
    live: Callable[[ClientSlot], Coroutine[Any, Any, None]]
    incarnations: int = 0
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def next_name(self) -> str:
        """Name the next client: a follower has a new name, since its sequence and its assignment start again."""
        self.incarnations += 1
        return self.name if self.incarnations == 1 else f"{self.name}.{self.incarnations}"

    def start(self, loop: SimulatedLoop) -> None:
        """Start a client; if it was killed, the next one."""
        self.tasks = [loop.node(self.name).spawn(self.live(self), name=self.name)]
