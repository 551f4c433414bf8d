"""Requests that change the logs that this broker leads: appends and deletions of records."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from purgatorio.broker.log.errors import InvalidBatch
from purgatorio.broker.log.log import LogError
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.log.validator import RecordValidation
from purgatorio.broker.replica.delayed_delete_records import DelayedDeleteRecords, PendingDeletion
from purgatorio.broker.replica.events import ReplicaEvents
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.observer import ReplicaObserver
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.replica.producing.delayed_produce import DelayedProduce, PendingAck
from purgatorio.broker.replica.producing.delayed_verification import ProduceOperation
from purgatorio.broker.replica.results import AppendDone, AppendResult, DeleteRecordsDone, DeleteRecordsResult
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.primitives import Buffer
from purgatorio.purgatory import ActionQueue, Purgatory
from purgatorio.purgatory.clock import Clock


class LeaderWrites:
    """Appends to the logs that this broker leads, and deletes their records.

    Args:
        lookup: finds replicas, and names the leaders of other partitions.
        clock: monotonic time for refused batches, wall time for record timestamps.
        actions: the queue of events that are handled when the outermost call returns.
        events: checks the requests that wait for what a write changes.
        produce_purgatory: the purgatory of produce requests.
        delete_records_purgatory: the purgatory of requests to delete records.
        observer: counts events for metrics.
        validation: how records inside produced batches are checked.
    """

    def __init__(
        self,
        lookup: ReplicaLookup,
        *,
        clock: Clock,
        actions: ActionQueue,
        events: ReplicaEvents,
        produce_purgatory: Purgatory[ProduceOperation],
        delete_records_purgatory: Purgatory[DelayedDeleteRecords],
        observer: ReplicaObserver,
        validation: RecordValidation,
    ) -> None:
        self._lookup = lookup
        self._clock = clock
        self._actions = actions
        self._events = events
        self._produce_purgatory = produce_purgatory
        self._delete_records_purgatory = delete_records_purgatory
        self._observer = observer
        self._validation = validation

    def append(
        self,
        batches: Sequence[tuple[TopicPartition, Buffer | None]],
        *,
        acks: int,
        timeout_ms: int,
        done: AppendDone,
        client: str = "",
        from_client: bool = True,
    ) -> None:
        """Append each partition's batch as its leader, for clients, coordinators and the delay recorder.

        Args:
            batches: each partition with its record batch; None (the request had no records) is refused.
            acks: 0 or 1: `done` is called before this returns; -1: when all in-sync replicas have the records.
            timeout_ms: the longest wait for the in-sync replicas; then REQUEST_TIMED_OUT, though the records stay in
                the log.
            done: receives a result for each batch, in the order of `batches`; called once.
            client: the client id, shown while the request waits.
            from_client: False for end markers and records of transactions that the broker made; see
                `Partition.append_own`.
        """
        self._actions.depth += 1  # as `with self._actions`, without its calls
        try:
            self._validation.begin_request()
            results: list[AppendResult] = []
            pending: list[PendingAck] = []
            for tp, records in batches:
                result = AppendResult()
                results.append(result)
                ack = self.append_one(tp, records, result, acks, from_client)
                if ack is not None:
                    pending.append(ack)
            if pending:
                self.await_acks(pending, timeout_ms, partial(done, results), client)
            else:
                done(results)
        finally:
            self._actions.leave()

    def await_acks(
        self, pending: list[PendingAck], timeout_ms: int, done: Callable[[], None], client: str
    ) -> DelayedProduce:
        """Call `done` when all in-sync replicas have the records, or after `timeout_ms`; the results are filled in."""
        operation = DelayedProduce(timeout_ms, pending, self._lookup, done, self._observer.produce_expired)
        operation.client = client
        keys = [ack.partition.tp for ack in pending]
        self._produce_purgatory.try_complete_else_watch(operation, keys)
        return operation

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
            partition = self._lookup.find(tp)
            if records is None:
                raise PartitionError(ErrorCode.INVALID_RECORD, f"no records for {tp}")
            if not from_client:
                info = partition.append_own(records, acks=acks, wall_ms=self._clock.wall_ms())
            else:
                if partition.refused.first:
                    partition.check_order(records, self._clock.now_ms())
                if is_admitted:
                    info = partition.append_admitted(records, acks=acks, wall_ms=self._clock.wall_ms())
                else:
                    info = partition.append_as_leader(records, acks=acks, wall_ms=self._clock.wall_ms())
        except (PartitionError, LogError) as error:
            if partition is not None and records is not None and from_client:
                partition.refused.note(records, error.error_code, self._clock.now_ms())
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
        result.leader_id, result.leader_epoch = self._lookup.hint(tp, error.error_code)

    def await_replicas(self, tp: TopicPartition, *, timeout_ms: int, done: AppendDone, client: str = "") -> None:
        """Wait until everything that the partition's log holds now is committed, as an append with acks=-1 does.

        Args:
            tp: the partition, which this broker leads.
            timeout_ms: the longest wait for the in-sync replicas; then REQUEST_TIMED_OUT.
            done: receives one result; called once, before this returns if there is nothing to wait for.
            client: the client id, shown while the request waits.
        """
        with self._actions:
            result = AppendResult()
            try:
                partition = self._lookup.find(tp)
                partition.check_leader(-1)
            except PartitionError as error:
                result.error_code = error.error_code
                done([result])
                return
            ack = PendingAck(partition, partition.log.log_end_offset, result)
            operation = DelayedProduce(
                timeout_ms, [ack], self._lookup, partial(done, [result]), self._observer.produce_expired
            )
            operation.client = client
            self._produce_purgatory.try_complete_else_watch(operation, [tp])

    def delete_records(
        self,
        deletions: Sequence[tuple[TopicPartition, int]],
        *,
        timeout_ms: int,
        done: DeleteRecordsDone,
        client: str = "",
    ) -> None:
        """Delete each partition's records before an offset, as its leader (KIP-107).

        Args:
            deletions: each partition with the offset before which its records are deleted; -1: the high watermark.
            timeout_ms: the longest wait for the in-sync replicas; then REQUEST_TIMED_OUT.
            done: receives a result for each deletion, in the order of `deletions`; called once.
            client: the client id, shown while the request waits.
        """
        with self._actions:
            results: list[DeleteRecordsResult] = []
            pending: list[PendingDeletion] = []
            for tp, offset in deletions:
                result = DeleteRecordsResult()
                results.append(result)
                try:
                    partition = self._lookup.find(tp)
                    pending.append(PendingDeletion(partition, partition.delete_records_before(offset), result))
                except PartitionError as error:
                    result.error_code = error.error_code
            if not pending:
                done(results)
                return
            operation = DelayedDeleteRecords(max(0, timeout_ms), pending, self._lookup, partial(done, results))
            operation.client = client
            keys = [deletion.partition.tp for deletion in pending]
            self._delete_records_purgatory.try_complete_else_watch(operation, keys)


class WatchedWrites(LeaderWrites):
    """Writes that tell which requests wait for the in-sync replicas.

    Args:
        watch: called with the id of the request's operation, and with what it waits for.
        services: as for `LeaderWrites`.
    """

    def __init__(self, watch: Callable[[int, Sequence[PendingAck]], None], *services: Any, **more: Any) -> None:
        super().__init__(*services, **more)
        self._watch = watch

    def await_acks(
        self, pending: list[PendingAck], timeout_ms: int, done: Callable[[], None], client: str
    ) -> DelayedProduce:
        """Tell of the request if it waits."""
        operation = super().await_acks(pending, timeout_ms, done, client)
        if not operation.completed:
            self._watch(operation.id, pending)
        return operation
