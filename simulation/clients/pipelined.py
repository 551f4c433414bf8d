"""Simulated idempotent producers with several requests in flight, which treat errors as librdkafka or Java's client do.

librdkafka (2.x) keeps up to five Produce requests of a partition in flight, and their order through retries:

* After a retriable error or a lost connection it sends the batch and all later ones again, with the same sequences.
* After OUT_OF_ORDER_SEQUENCE_NUMBER ("skipped sequence numbers") it waits for the other answers, gets a new producer
  epoch, and sends all that is not acknowledged again from sequence 0. Records that a broker has written all the same
  are then written twice. So no broker should ever give that answer to this producer; if one does, the history says so.

Java's producer (3.x and 4.x; KIP-360, KIP-654) differs from librdkafka in what it does about sequences:

* OUT_OF_ORDER_SEQUENCE_NUMBER for a batch that is not the oldest one is retried as it is: the oldest one is missing.
* A batch that it gives up leaves a gap. It then sends nothing new until each batch behind the gap is acknowledged, or
  refused as out of order; then it raises the epoch by itself, without asking a broker, and begins anew at sequence 0.
* OUT_OF_ORDER_SEQUENCE_NUMBER for the oldest batch, without a gap, raises the epoch too.

Java then also sends batches again of which an earlier attempt may still be on its way, and so may write them twice,
through no fault of a broker. This producer gives those up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from purgatorio.broker.server.peer import PeerConnection
from purgatorio.client.client import FAILURES, NETWORK_ERRORS, Leader
from purgatorio.client.produce import ALL_REPLICAS, NO_PRODUCER
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.simulation.clients.clients import NOT_WRITTEN, REQUEST_TIMEOUT_MS, WRITTEN, Client, Output
from purgatorio.simulation.history.history import Sent, SequenceRefused

MAX_IN_FLIGHT: Final = 5
"""librdkafka's and Java's limit with idempotence: brokers recognise the last five batches of a producer."""
BURST_PAUSE_MS: Final = (0.5, 10.0)
"""The waits between the batches of a burst."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When a producer sends new batches.

    Attributes:
        pause_ms: the range of the wait between two batches.
        burst: batches that are sent within milliseconds; the waits that they leave out follow them.
        delivery_timeout_ms: the time after which a batch is given up.
    """

    pause_ms: tuple[float, float]
    max_records: int
    burst: int = 1
    delivery_timeout_ms: int = 8_000


@dataclass(slots=True, eq=False)
class Batch:
    """Values that are sent together, and not acknowledged yet."""

    values: list[int]
    sequence: int
    give_up_ms: int
    maybe_written: bool = False


class _Flight(NamedTuple):
    """A request in flight; the future has the response, or the error that ended the connection."""

    batch: Batch
    answer: asyncio.Future[Any]


class PipelinedProducer:
    """Sends batches of unique values to one partition with acks=-1, several at a time.

    It treats errors as librdkafka does.
    """

    def __init__(self, client: Client, output: Output, *, values: Iterator[int], pace: Pace) -> None:
        self._client = client
        self._output = output
        self._values = values
        self._clock = client.clock
        self._pace = pace
        self._burst_left = pace.burst
        self._producer = NO_PRODUCER
        self._next_sequence = 0
        self._has_gap = False  # whether brokers may rightly miss the sequences of a batch that was given up
        self._sent = 0
        self._next_batch_ms = 0.0
        self._queue: deque[Batch] = deque()

    async def run(self, stopped: Callable[[], bool]) -> None:
        """Send batches until `stopped`, and then until each is acknowledged or given up."""
        try:
            while not stopped() or self._queue:
                self._give_up()
                try:
                    if self._producer[0] < 0:
                        self._begin_epoch(*await self._client.producer_id())
                    leader = await self._client.leader(self._output.tp)
                    connection = await self._client.link(leader.broker_id)
                    await self._send_over(connection, leader, stopped)
                except FAILURES:
                    pass
                await self._client.back_off()
        finally:
            self._client.close()

    def _begin_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Use this id and epoch, and number all batches anew from sequence 0."""
        self._producer = producer_id, producer_epoch
        self._next_sequence = 0
        self._has_gap = False
        for batch in self._queue:
            batch.sequence = self._next_sequence
            self._next_sequence += len(batch.values)

    # --- sending ---

    async def _send_over(self, connection: PeerConnection, leader: Leader, stopped: Callable[[], bool]) -> None:
        """Send over one connection until a batch fails; then wait for the answers to all later ones."""
        flights: deque[_Flight] = deque()
        failure: ErrorCode | None = None
        while failure is None and (flights or self._queue or not stopped()):
            self._fill(connection, flights, stopped)
            wait_ms = max(1.0, self._next_batch_ms - self._clock.now_ms())
            if not flights:
                await asyncio.sleep(wait_ms / 1000)
                continue
            await asyncio.wait([flights[0].answer], timeout=None if stopped() else wait_ms / 1000)
            while failure is None and flights and flights[0].answer.done():
                failure = self._settle(flights.popleft(), leader)
        if failure is None:
            return
        self._has_gap = self._has_gap or is_final(failure)
        failures = [failure]
        for flight in flights:
            await asyncio.wait([flight.answer])
            code = self._settle(flight, leader)
            if code is not None:
                failures.append(code)
        await self._recover(failures)

    async def _recover(self, failures: list[ErrorCode]) -> None:
        """Prepare the next attempt after these errors, which came in the order of the batches."""
        if any(map(is_final, failures)):
            self._begin_anew()
        elif ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER in failures:
            self._begin_epoch(*await self._client.producer_id(*self._producer))

    def _fill(self, connection: PeerConnection, flights: deque[_Flight], stopped: Callable[[], bool]) -> None:
        """Send what waits, and a new batch if it is time for one."""
        now_ms = self._clock.now_ms()
        is_due = now_ms >= self._next_batch_ms and len(self._queue) < MAX_IN_FLIGHT
        if is_due and not stopped() and self._may_go_on():
            self._queue.append(self._new_batch())
            self._next_batch_ms = now_ms + self._pause_ms()
        for batch in list(self._queue)[len(flights) : MAX_IN_FLIGHT]:
            flights.append(self._send(connection, batch))

    def _may_go_on(self) -> bool:
        """Whether new batches may be sent."""
        return True

    def _pause_ms(self) -> float:
        self._burst_left -= 1
        if self._burst_left > 0:
            return self._client.rng.uniform(*BURST_PAUSE_MS)
        self._burst_left = self._pace.burst
        return self._pace.burst * self._client.rng.uniform(*self._pace.pause_ms)

    def _new_batch(self) -> Batch:
        now_ms = self._clock.now_ms()
        values = [next(self._values) for _ in range(self._client.rng.randint(1, self._pace.max_records))]
        for value in values:
            self._client.record(Sent, self._client.name, self._output.name, value, self._sent)
            self._sent += 1
        batch = Batch(values, self._next_sequence, now_ms + self._pace.delivery_timeout_ms)
        self._next_sequence += len(values)
        return batch

    def _send(self, connection: PeerConnection, batch: Batch) -> _Flight:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        records = self._output.batch(
            batch.values, self._clock.wall_ms(), producer=self._producer, sequence=batch.sequence
        )
        request = self._output.request(records, ALL_REPLICAS)
        try:
            version, done = self._client.versions[ApiKey.PRODUCE], partial(_answered, answer)
            connection.send(ApiKey.PRODUCE, version, request, timeout_ms=REQUEST_TIMEOUT_MS, done=done)
        except NETWORK_ERRORS as error:
            answer.set_result(error)
        return _Flight(batch, answer)

    # --- answers ---

    def _settle(self, flight: _Flight, leader: Leader) -> ErrorCode | None:
        """Take note of an answer: drop the batch if it is acknowledged, else return the failure."""
        answer, batch = flight.answer.result(), flight.batch
        if isinstance(answer, Exception):
            batch.maybe_written = True
            return ErrorCode.NETWORK_EXCEPTION
        partition = answer.responses[0].partition_responses[0]
        code = ErrorCode(partition.error_code)
        if code not in WRITTEN:
            if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                if not self._has_gap:
                    told = self._client.name, self._output.name, leader.broker_id, batch.sequence
                    self._client.record(SequenceRefused, *told)
            elif code not in NOT_WRITTEN:
                batch.maybe_written = True
            return code
        first = partition.base_offset if code is ErrorCode.NONE else -1
        self._client.record_acked(self._output.name, batch.values, first, ALL_REPLICAS, leader)
        self._queue.remove(batch)
        return None

    def _give_up(self) -> None:
        if self._queue and self._clock.now_ms() >= self._queue[0].give_up_ms:
            self._begin_anew("not acknowledged in time")

    def _begin_anew(self, reason: str = "refused") -> None:
        """Give up the oldest batch and all that may be written, and send the others with another producer id.

        The broker would miss the sequences of the batch that was given up.
        """
        first = self._queue[0] if self._queue else None
        for batch in [batch for batch in self._queue if batch is first or batch.maybe_written]:
            self._drop(batch, reason)
        self._producer = NO_PRODUCER

    def _drop(self, batch: Batch, reason: str) -> None:
        self._queue.remove(batch)
        self._client.record_given_up(self._output.name, batch.values, reason, maybe_written=batch.maybe_written)


class JavaProducer(PipelinedProducer):
    """Treats errors as Java's client does."""

    async def _recover(self, failures: list[ErrorCode]) -> None:
        if is_final(failures[0]):
            self._drop(self._queue[0], failures[0].name)
        is_out_of_order = [code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER for code in failures]
        if is_out_of_order[0] or (self._has_gap and any(is_out_of_order)):
            self._raise_epoch()

    def _give_up(self) -> None:
        while self._queue and self._clock.now_ms() >= self._queue[0].give_up_ms:
            self._drop(self._queue[0], "not acknowledged in time")
            self._has_gap = True

    def _may_go_on(self) -> bool:
        if self._has_gap and not self._queue:
            self._raise_epoch()
        return not self._has_gap

    def _raise_epoch(self) -> None:
        for batch in [batch for batch in self._queue if batch.maybe_written]:
            self._drop(batch, "it may be written in an earlier epoch")
        producer_id, producer_epoch = self._producer
        self._begin_epoch(producer_id, producer_epoch + 1)


def is_final(code: ErrorCode) -> bool:
    """Whether the batch that was refused so is given up at once."""
    return not code.retriable and code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def _answered(answer: asyncio.Future[Any], response: Any, error: Exception | None) -> None:
    if not answer.done():
        answer.set_result(response if error is None else error)
