"""Appends to the logs that this broker leads, batch by batch, and the wait of Produce with acks=-1 for the replicas.

Handlers translate the results into responses; coordinators and the delay recorder read them as they are.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from purgatorio.broker.causes.cause import FollowerBehind, TooFewInSync
from purgatorio.broker.causes.kinds import PRODUCE
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.log.errors import InvalidBatch, MemoryExhausted, RecordError
from purgatorio.broker.log.log import LogError
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.events import ReplicaEvents
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.observer import ReplicaObserver
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.primitives import Buffer
from purgatorio.purgatory import DelayedOperation, Purgatory
from purgatorio.purgatory.clock import Clock

UNKNOWN = -1


class AppendResult:
    """The result of appending one batch.

    Attributes:
        error_code: NONE if the batch is acknowledged according to `acks`.
        error_message: the reason of a refusal, as a sentence; None if the batch was not refused.
        base_offset: the offset of the batch's first record; -1 if nothing was appended.
        log_append_time_ms: the timestamp that the log gave the records; -1 unless the topic uses LogAppendTime.
        log_start_offset: the log start offset of the partition; -1 if nothing was appended.
        record_errors: the records that are the reason of a refusal (KIP-467); empty if it is the batch as a whole.
        leader_id: the current leader if it is another broker and known (KIP-951); else -1.
        leader_epoch: the leader epoch of that leader; else -1.
    """

    __slots__ = (
        "base_offset",
        "error_code",
        "error_message",
        "leader_epoch",
        "leader_id",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
    )

    def __init__(self, error_code: ErrorCode = ErrorCode.NONE, error_message: str | None = None) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.base_offset = UNKNOWN
        self.log_append_time_ms = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.record_errors: Sequence[RecordError] = ()
        self.leader_id = UNKNOWN
        self.leader_epoch = UNKNOWN


AppendDone = Callable[[Sequence[AppendResult]], None]
"""Receives one result for each batch, in the order of the batches; called once."""


class PendingAck:
    """One partition of the request whose records are appended and not acknowledged yet.

    Attributes:
        partition: the replica that appended the records; a new topic of the same name has another one.
        required_offset: the high watermark that acknowledges the records: the offset after the last record.
        result: the partition's result; only its error code may still change.
    """

    __slots__ = ("partition", "required_offset", "result")

    def __init__(self, partition: Partition, required_offset: int, result: AppendResult) -> None:
        self.partition = partition
        self.required_offset = required_offset
        self.result = result


class DelayedProduce(DelayedOperation):
    """Waits, per partition, until the high watermark reaches the records or the partition cannot acknowledge them.

    Args:
        delay_ms: the request's timeout.
        pending: the partitions to which records were appended.
        lookup: finds this broker's replicas and the leaders of other partitions, at each check.
        done: called once, when every result is filled in.
        observer: counts each partition that is pending when the request expires.
    """

    __slots__ = ("_done", "_lookup", "_observer", "_pending", "_released_by")

    def __init__(
        self,
        delay_ms: int,
        pending: list[PendingAck],
        lookup: ReplicaLookup,
        done: Callable[[], None],
        observer: ReplicaObserver,
    ) -> None:
        super().__init__(delay_ms)
        # The newest records of a partition are acknowledged last; a duplicate may be so before others that wait.
        self.in_order = len(pending) == 1 and pending[0].required_offset == pending[0].partition.log.log_end_offset
        self._pending = pending
        self._lookup = lookup
        self._done = done
        self._observer = observer
        self._released_by = -1

    def try_complete(self) -> bool:
        """Fill in the results that are final; complete when no partition is pending."""
        if len(self._pending) == 1:  # as most: a check of one that waits on, of which there are many, makes no list
            if not self._settle(self._pending[0]):
                return False
            self._pending = []
        else:
            self._pending = [ack for ack in self._pending if not self._settle(ack)]
        return not self._pending and self.force_complete()

    def _settle(self, ack: PendingAck) -> bool:
        """Set the partition's error code if its result is final; returns whether it is."""
        partition = ack.partition
        try:
            self._lookup.check_kept(partition)
        except PartitionError as error:
            self._refuse(ack, error.error_code)
            return True
        if partition.leader != partition.broker_id:
            self._refuse(ack, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif partition.log.high_watermark < ack.required_offset:
            if partition.has_enough_in_sync_replicas:
                return False
            # The high watermark does not advance below min.insync.replicas: the producer is answered now, as in Kafka.
            ack.result.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        else:
            self._released_by = partition.high_watermark_moved_by
        return True

    def _refuse(self, ack: PendingAck, error_code: ErrorCode) -> None:
        """Set the error, with the new leader if there is one, so that the producer needs no Metadata request."""
        ack.result.error_code = error_code
        ack.result.leader_id, ack.result.leader_epoch = self._lookup.hint(ack.partition.tp, error_code)

    def causes(self) -> list[FollowerBehind | TooFewInSync]:
        """Return the in-sync replicas that lack the records, and partitions that have too few in-sync replicas."""
        return [cause for ack in self._pending for cause in ack.partition.laggards(ack.required_offset)]

    def held_by(self) -> tuple[int, ...]:
        """Return the replicas that do not have the records yet; if all have them, the last one that fetched them."""
        if self._pending:
            laggards = [
                incarnation for ack in self._pending for incarnation in ack.partition.laggard_ids(ack.required_offset)
            ]
            return tuple(dict.fromkeys(laggards))
        return () if self._released_by < 0 else (self._released_by,)

    def on_complete(self) -> None:
        """Complete with REQUEST_TIMED_OUT for the partitions that are still pending."""
        for ack in self._pending:
            ack.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._done()

    def on_expiration(self) -> None:
        """Count an expiry for each partition that is still pending."""
        for ack in self._pending:
            self._observer.produce_expired(ack.partition.tp)

    def on_shutdown(self) -> None:
        """Complete with NOT_LEADER_OR_FOLLOWER, after which a producer finds the new leader and retries."""
        self._fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def on_error(self, error: Exception) -> None:
        """Complete with UNKNOWN_SERVER_ERROR for the partitions that are still pending."""
        self._fail(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _fail(self, error_code: ErrorCode) -> None:
        for ack in self._pending:
            ack.result.error_code = error_code
        self._done()


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
        why_refused: called with a partition for whose records memory is short; returns why, as the end of a sentence;
            None: there is no tier.
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
        self.produce_purgatory: Purgatory[Any] = purgatories.of(PRODUCE)
        self.watch_acks: WatchAcks | None = None
        self.why_refused: Callable[[TopicPartition], str] | None = None
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
        if self.why_refused is not None and isinstance(error, MemoryExhausted):
            result.error_message += self.why_refused(tp)
        if isinstance(error, InvalidBatch):
            result.record_errors = error.record_errors
        result.leader_id, result.leader_epoch = self.lookup.hint(tp, error.error_code)
