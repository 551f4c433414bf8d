"""A simulated consumer, which records what it reads.

Under read_committed it drops the records of aborted transactions, as real clients do: the broker sends them, and a list
of the transactions. Without isolation it records the markers that end transactions, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.fetching.fetch_session import next_epoch
from purgatorio.client.client import FAILURES, Leader, Refused, check
from purgatorio.client.fetch import EARLIEST, LATEST, batches, list_offset
from purgatorio.protocol.end_marker import read_end_marker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from purgatorio.protocol.records import BatchHeader, iter_records
from purgatorio.simulation.clients.clients import Client
from purgatorio.simulation.history.history import Assigned, Drained, Polled, TxnDrained, TxnMarker, TxnPolled

Took = Callable[[tuple[tuple[int, int], ...]], None]
"""Receives records, as pairs of offset and value, when a consumer has read them."""


@dataclass(frozen=True, slots=True)
class Reader:
    """How a consumer reads.

    Attributes:
        max_bytes: the limit of records in one response.
        pause_ms: the range of the wait after a response with records; a slow consumer waits long.
        rack: the consumer's rack (KIP-392); empty: it has none.
        sessions: whether it has fetch sessions (KIP-227).
        committed: whether it reads under read_committed (KIP-98).
    """

    max_bytes: int = 64 * 1024
    pause_ms: tuple[float, float] = (0.0, 0.0)
    rack: str = ""
    sessions: bool = False
    committed: bool = False


class ReaderSession:
    """A consumer's fetch session with one broker.

    It counts a request as taken once it is sent, and goes on with the session after a lost connection. So a lost
    request leaves the broker at another offset, and the consumer learns this only from the check of the epoch.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        self._named: FetchPartition | None = None

    def fill_in(self, request: FetchRequest, topic: str, partition: FetchPartition) -> None:
        """Name the partition in a request, if the broker does not know it as it is."""
        if partition != self._named:
            request.topics = [FetchTopic(topic=topic, partitions=[partition])]
        self._named = partition
        request.session_id, request.session_epoch = self._session_id, self._epoch
        if self._session_id != NO_SESSION:
            self._epoch = next_epoch(self._epoch)

    def answered(self, response: FetchResponse) -> None:
        """Take the session of a response; begin again after an error, and if there is none."""
        if response.error_code or response.session_id == NO_SESSION:
            self._begin()
        elif self._session_id == NO_SESSION:
            self._session_id, self._epoch = response.session_id, next_epoch(INITIAL_EPOCH)


class SimulatedConsumer:
    """Reads one partition from its start, and continues with new records.

    Args:
        final: stop at the partition's end offset, as the leader gives it at first.
        start: the offset to begin at; negative: the earliest.
        took: called with what was read.
    """

    def __init__(
        self,
        client: Client,
        tp: TopicPartition,
        *,
        final: bool = False,
        reader: Reader | None = None,
        start: int = -1,
        took: Took = lambda records: None,
    ) -> None:
        self._client = client
        self._tp = tp
        self._name = str(tp)
        self._final = final
        self._reader = reader or Reader()
        self._took = took
        self._near = -1  # the follower that the leader has sent this consumer to
        self._position = self._start = start
        self._last_epoch = -1
        if start >= 0:
            client.record(Assigned, client.name, self._name, start)
        self._sessions: dict[int, ReaderSession] = {}

    @property
    def position(self) -> int:
        """The offset of the next record to read; negative while it is not known."""
        return self._position

    async def run(self, stopped: Callable[[], bool]) -> None:
        """Read until `stopped`; the final reader stops at the end offset."""
        try:
            while not stopped():
                try:
                    leader = await self._client.leader(self._tp)
                    if self._position < 0:
                        await self._assign(leader, EARLIEST)
                    await self._read_from(leader, stopped)
                    if self._final:
                        return
                except FAILURES:
                    self._near = -1
                    await self._client.back_off()
        finally:
            self._client.close()

    async def _assign(self, leader: Leader, timestamp: int, *, reset: bool = False) -> None:
        """Set the position to the earliest or latest offset, and record the assignment."""
        self._position = await self._offset(leader, timestamp)
        self._start = self._position
        self._last_epoch = -1
        self._client.record(Assigned, self._client.name, self._name, self._position, reset)

    async def _offset(self, leader: Leader, timestamp: int, *, committed: bool = False) -> int:
        return await list_offset(
            self._client, leader.broker_id, self._tp, timestamp, committed=committed, leader_epoch=leader.epoch
        )

    async def _read_from(self, leader: Leader, stopped: Callable[[], bool]) -> None:
        """Fetch from one leader until it returns an error."""
        committed = self._reader.committed
        end_offset = await self._offset(leader, LATEST, committed=committed) if self._final else None
        while not stopped():
            if end_offset is not None and self._position >= end_offset:
                await self._drained(leader, end_offset)
                return
            asked_ms = self._client.clock.now_ms()
            broker_id = leader.broker_id if self._near < 0 else self._near
            data = await self._fetch(broker_id, leader)
            if broker_id != leader.broker_id and data.error_code:
                # A follower may lack what the leader has: only the leader's word counts.
                self._near = -1
                await self._client.back_off()
            elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE or data.diverging_epoch.end_offset >= 0:
                # Records that were read are no longer in the log: restart at the earliest offset.
                await self._assign(leader, EARLIEST, reset=True)
            elif data.error_code:
                raise Refused(ErrorCode(data.error_code))
            elif data.preferred_read_replica >= 0:
                self._near = data.preferred_read_replica
            elif self._take(data, broker_id, leader, asked_ms):
                await asyncio.sleep(self._client.rng.uniform(*self._reader.pause_ms) / 1000)

    async def _drained(self, leader: Leader, end_offset: int) -> None:
        if self._reader.committed:
            high_watermark = await self._offset(leader, LATEST)
            self._client.record(TxnDrained, self._name, self._start, end_offset, high_watermark)
        else:
            self._client.record(Drained, self._name, self._start, end_offset)

    async def _fetch(self, broker_id: int, leader: Leader) -> PartitionData:
        partition = FetchPartition(
            partition=self._tp.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self._position,
            last_fetched_epoch=self._last_epoch,
            partition_max_bytes=self._reader.max_bytes,
        )
        request = FetchRequest(
            max_wait_ms=400,
            min_bytes=1,
            max_bytes=1024 * 1024,
            isolation_level=int(self._reader.committed),
            rack_id=self._reader.rack,
        )
        session = self._sessions.setdefault(broker_id, ReaderSession()) if self._reader.sessions else ReaderSession()
        session.fill_in(request, self._tp.topic, partition)
        if not self._reader.sessions:
            request.session_epoch = FINAL_EPOCH
        response: FetchResponse = await self._client.ask(broker_id, request)
        session.answered(response)
        check(response.error_code)
        if not response.responses:  # nothing to tell
            return PartitionData(partition_index=self._tp.partition, high_watermark=-1, records=b"")
        return response.responses[0].partitions[0]

    def _take(self, data: PartitionData, broker_id: int, leader: Leader, asked_ms: int) -> bool:
        """Record the records of a response; returns whether there were any."""
        records: list[tuple[int, int]] = []
        position = self._position
        for header, batch in self._visible(data):
            # The broker reads from the batch of the offset that it was told: an earlier batch is a fault, and recorded.
            start = position if header.last_offset >= position else header.base_offset
            records += [(r.offset, int(r.value or b"-1")) for r in iter_records(batch) if r.offset >= start]
        if records:
            self._record(tuple(records), data, broker_id, leader, asked_ms)
            self._took(tuple(records))
        return self._position > position

    def _visible(self, data: PartitionData) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Iterate over the batches with records for this reader, and move its position past all batches."""
        for header, batch, is_visible in batches(data):
            self._last_epoch = header.partition_leader_epoch
            position, self._position = self._position, header.last_offset + 1
            if header.is_control and header.last_offset >= position and not self._reader.committed:
                self._pass_marker(header, batch)
            elif is_visible:
                yield header, batch

    def _pass_marker(self, header: BatchHeader, batch: memoryview) -> None:
        marker = read_end_marker(batch)
        if marker is None:
            return  # compaction keeps the batch of a marker that it has removed
        producer = header.producer_id, header.producer_epoch
        where = self._client.name, self._name, header.base_offset
        self._client.record(TxnMarker, *where, *producer, marker.committed, self._final)

    def _record(
        self, records: tuple[tuple[int, int], ...], data: PartitionData, broker_id: int, leader: Leader, asked_ms: int
    ) -> None:
        told = self._client.name, self._name, records
        if self._reader.committed:
            offsets = data.last_stable_offset, data.high_watermark
            self._client.record(TxnPolled, *told, *offsets, self._final, broker_id)
            return
        broker = broker_id, leader.epoch, broker_id != leader.broker_id
        self._client.record(Polled, *told, data.high_watermark, self._final, *broker, asked_ms)
