"""Appends to the logs that this broker leads, batch by batch."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable, Sequence

from purgatorio.broker.causes.kinds import PRODUCE
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.log.errors import InvalidBatch
from purgatorio.broker.log.log import LogError
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.events import ReplicaEvents
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.observer import ReplicaObserver
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.replica.producing.delayed_produce import AppendResult, DelayedProduce, PendingAck
from purgatorio.broker.replica.producing.delayed_verification import ProduceOperation
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.primitives import Buffer
from purgatorio.purgatory import Purgatory
from purgatorio.purgatory.clock import Clock

WatchAcks = Callable[[int, Sequence[PendingAck]], None]
"""Called with the id of a produce request that waits for the in-sync replicas, and the pending partitions."""


class LeaderWrites:
    """Appends single batches to the logs that this broker leads, and waits until they are replicated.

    Args:
        lookup: finds replicas, and names the leaders of other partitions.
        clock: monotonic time for refused batches, wall time for record timestamps.
        events: checks the requests that wait for what a write changes.
        purgatories: those of the broker.
        observer: counts events for metrics.

    Attributes:
        lookup, clock: see above.
        produce_purgatory: the purgatory of produce requests.
        watch_acks: called with the id of each request that waits for the in-sync replicas, and with what it waits for;
            None: nothing needs to know.
    """

    def __init__(
        self,
        lookup: ReplicaLookup,
        clock: Clock,
        events: ReplicaEvents,
        purgatories: Purgatories,
        observer: ReplicaObserver,
    ) -> None:
        self.lookup = lookup
        self.clock = clock
        self.produce_purgatory: Purgatory[ProduceOperation] = purgatories.of(PRODUCE)
        self.watch_acks: WatchAcks | None = None
        self._events = events
        self._observer = observer

    def await_acks(self, pending: list[PendingAck], timeout_ms: int, done: Callable[[], None], client: str) -> None:
        """Call `done` when all in-sync replicas have the records, or after `timeout_ms`; the results are filled in."""
        operation = DelayedProduce(timeout_ms, pending, self.lookup, done, self._observer)
        operation.client = client
        keys = [ack.partition.tp for ack in pending]
        self.produce_purgatory.try_complete_else_watch(operation, keys)
        if self.watch_acks is not None and not operation.completed:
            self.watch_acks(operation.id, pending)

    def append_one(
        self,
        tp: TopicPartition,
        records: Buffer | None,
        result: AppendResult,
        acks: int,
        from_client: bool,
        is_admitted: bool = False,
    ) -> PendingAck | None:
        """Append one batch and fill in its result; returns what acks=-1 waits for, or None.

        Args:
            is_admitted: the batch is of a transaction, and the guard has just admitted it.
        """
        partition = None
        try:
            partition = self.lookup.find(tp)
            if records is None:
                raise PartitionError(ErrorCode.INVALID_RECORD, f"no records for {tp}")
            if not from_client:
                info = partition.append_own(records, acks=acks, wall_ms=self.clock.wall_ms())
            else:
                if partition.refused.first:
                    partition.check_order(records, self.clock.now_ms())
                if is_admitted:
                    info = partition.append_admitted(records, acks=acks, wall_ms=self.clock.wall_ms())
                else:
                    info = partition.append_as_leader(records, acks=acks, wall_ms=self.clock.wall_ms())
        except (PartitionError, LogError) as error:
            if partition is not None and records is not None and from_client:
                partition.refused.note(records, error.error_code, self.clock.now_ms())
            self.refuse(tp, result, error)
            return None
        result.base_offset = info.first_offset
        result.log_append_time_ms = info.log_append_time_ms
        result.log_start_offset = info.log_start_offset
        if not info.duplicate:
            self._observer.appended(tp, info.record_count, info.size_bytes)
            self._events.appended(partition, info.first_offset, high_watermark_moved=partition.advance_high_watermark())
        return PendingAck(partition, info.last_offset + 1, result) if acks == -1 else None

    def refuse(self, tp: TopicPartition, result: AppendResult, error: PartitionError | LogError) -> None:
        """Fill in the result of a batch that is not appended."""
        self._observer.append_failed(tp)
        result.error_code = error.error_code
        result.error_message = str(error)
        if isinstance(error, InvalidBatch):
            result.record_errors = error.record_errors
        result.leader_id, result.leader_epoch = self.lookup.hint(tp, error.error_code)
