"""Produce requests with batches of transactions: each batch passes the guard of its partition, then it is appended."""

from __future__ import annotations

from functools import partial
from itertools import islice

from purgatorio.broker.causes.cause import TransactionNotConfirmed
from purgatorio.broker.causes.words import MAX_NAMED
from purgatorio.broker.log.errors import InvalidBatch
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.replica.producing.transaction_guard import TransactionGuard
from purgatorio.broker.replica.producing.verification import GuardedAppend, ProducerTransaction
from purgatorio.broker.replica.producing.writes import (
    AppendDone,
    AppendResult,
    LeaderWrites,
    PendingAck,
)
from purgatorio.protocol.errors import CorruptRecordError, ErrorCode
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.records import is_transactional, read_header
from purgatorio.purgatory import DelayedOperation


class WaitingBatch:
    """A batch that is neither appended nor refused yet.

    Attributes:
        partition: the replica that shall append it; a new topic of the same name has another one.
        records: the batch.
        result: the partition's result, to be filled in.
    """

    __slots__ = ("partition", "records", "result")

    def __init__(self, partition: Partition, records: Buffer, result: AppendResult) -> None:
        self.partition = partition
        self.records = records
        self.result = result


class DelayedVerification(DelayedOperation):
    """Waits, per partition, until the coordinator has answered or this broker does not lead the partition any more.

    Args:
        delay_ms: the rest of the request's timeout.
        request: has the batches that wait; it appends or refuses them, and goes on when none waits any more.
        transactional_id: names the transaction, for the page.
    """

    __slots__ = ("_request", "_transactional_id")

    def __init__(self, delay_ms: int, request: TransactionalAppend, transactional_id: str) -> None:
        super().__init__(delay_ms)
        self._request = request
        self._transactional_id = transactional_id

    def try_complete(self) -> bool:
        """Refuse the batches of partitions that are led elsewhere now; complete when no batch waits."""
        request = self._request
        for batch in list(request.waiting):
            try:
                request.lookup.check_kept(batch.partition)
                if not batch.partition.is_leader:
                    raise PartitionError(
                        ErrorCode.NOT_LEADER_OR_FOLLOWER,
                        f"{batch.partition.tp} is led by broker {batch.partition.leader} now",
                    )
            except PartitionError as error:
                request.give_up(batch, error)
        return not request.waiting and self.force_complete()

    def causes(self) -> tuple[TransactionNotConfirmed]:
        """Return the transaction, and the first partitions that its coordinator has not confirmed."""
        partitions = tuple(batch.partition.tp for batch in islice(self._request.waiting, MAX_NAMED))
        more_count = len(self._request.waiting) - len(partitions)
        return (TransactionNotConfirmed(self._transactional_id, partitions, more_count),)

    def on_complete(self) -> None:
        """Go on; batches that still wait are refused with NOT_ENOUGH_REPLICAS: clients send them again."""
        self._refuse_all(ErrorCode.NOT_ENOUGH_REPLICAS, "the transaction's coordinator did not answer in time")

    def on_shutdown(self) -> None:
        """Go on; batches that wait are refused with NOT_LEADER_OR_FOLLOWER: clients send them to the next leader."""
        self._refuse_all(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker stops")

    def on_error(self, error: Exception) -> None:
        """Go on; batches that wait are refused with UNKNOWN_SERVER_ERROR."""
        self._refuse_all(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed")

    def _refuse_all(self, code: ErrorCode, reason: str) -> None:
        for batch in list(self._request.waiting):
            self._request.give_up(batch, PartitionError(code, reason))
        self._request.go_on()


class TransactionalAppend:
    """One produce request with batches of a transaction; other batches of it are appended at once.

    Args:
        writes: appends a batch, and waits for the replicas.
        guard: admits batches of the transaction, which may have to wait for its coordinator.
        transaction: that of all transactional batches.
        timeout_ms: the longest wait, for the coordinator and for the in-sync replicas together.

    Attributes:
        lookup: finds this broker's replicas.
        results: one for each batch.
        waiting: the batches that the guard has not decided on, with their places there.
    """

    __slots__ = (
        "_acks",
        "_client",
        "_deadline_ms",
        "_done",
        "_guard",
        "_operation",
        "_pending",
        "_transaction",
        "_writes",
        "lookup",
        "results",
        "waiting",
    )

    def __init__(
        self,
        writes: LeaderWrites,
        guard: TransactionGuard,
        transaction: ProducerTransaction,
        acks: int,
        timeout_ms: int,
        done: AppendDone,
        client: str,
    ) -> None:
        self._writes = writes
        self.lookup = writes.lookup
        self._guard = guard
        self._transaction = transaction
        self._acks = acks
        self._deadline_ms = writes.clock.now_ms() + timeout_ms
        self._done = done
        self._client = client
        self._pending: list[PendingAck] = []
        self._operation: DelayedVerification | None = None
        self.results: list[AppendResult] = []
        self.waiting: dict[WaitingBatch, GuardedAppend] = {}

    def take(self, tp: TopicPartition, records: Buffer | None) -> None:
        """Append a batch, refuse it, or let it wait at the guard."""
        result = AppendResult()
        self.results.append(result)
        writes = self._writes
        if records is None or not is_transactional(records):
            self._note(writes.append_one(tp, records, result, self._acks, from_client=True))
            return
        known = self.lookup.known(tp)
        if known is not None and self._guard.is_open(self._transaction, known):  # as of most batches
            self._append(known, records, result)
            return
        self._wait(tp, records, result)

    def _wait(self, tp: TopicPartition, records: Buffer, result: AppendResult) -> None:
        """Let a batch wait at the guard, or refuse it."""
        try:
            header = read_header(records)
            if header.is_control:
                raise InvalidBatch(ErrorCode.INVALID_RECORD, "control records are not for clients to write")
            partition = self.lookup.find(tp)
        except CorruptRecordError as error:
            self._writes.refuse(tp, result, InvalidBatch(error.error_code, str(error)))
        except (InvalidBatch, PartitionError) as error:
            self._writes.refuse(tp, result, error)
        else:
            batch = WaitingBatch(partition, records, result)
            try:
                partition.check_may_append(self._acks)  # before the coordinator is asked
            except PartitionError as error:
                self._refuse(batch, error)
            else:
                self.waiting[batch] = GuardedAppend(partial(self._decided, batch), header.base_sequence, len(records))

    def enter(self) -> None:
        """Present the batches of the transaction to the guard; go on, or wait for it."""
        writes = self._writes
        if self.waiting:
            self._guard.admit(self._transaction, [(batch.partition, append) for batch, append in self.waiting.items()])
        if not self.waiting:
            self.go_on()
            return
        for batch in self.waiting:
            batch.records = bytes(batch.records)  # a view would keep all bytes that were received with it
        operation = DelayedVerification(self._left_ms(), self, self._transaction.transactional_id)
        operation.client = self._client
        self._operation = operation
        writes.produce_purgatory.try_complete_else_watch(operation, [batch.partition.tp for batch in self.waiting])

    def _decided(self, batch: WaitingBatch, code: ErrorCode) -> None:
        """Append a batch that the guard admits, or refuse it."""
        writes, partition = self._writes, batch.partition
        if code:
            self._refuse(batch, self._refusal(batch, code))
        else:
            self._append(partition, batch.records, batch.result)
        del self.waiting[batch]
        if self._operation is not None and not self.waiting:
            writes.produce_purgatory.check(self._operation, "transaction verified", partition.tp)

    def _append(self, partition: Partition, records: Buffer, result: AppendResult) -> None:
        """Append a batch that the guard admits."""
        writes, transaction = self._writes, self._transaction
        self._note(writes.append_one(partition.tp, records, result, self._acks, from_client=True, is_admitted=True))
        partition.log.producers.name(transaction.producer_id, transaction.transactional_id)

    def _refusal(self, batch: WaitingBatch, code: ErrorCode) -> PartitionError:
        """Return the refusal of a batch that the guard does not admit."""
        tp = batch.partition.tp
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            try:  # the batch before it may have been refused for a moment, and come again
                batch.partition.check_order(batch.records, self._writes.clock.now_ms())
            except PartitionError as error:
                return error
        return PartitionError(
            code, f"{tp} is not open to the transaction of {self._transaction.transactional_id}: {code.name}"
        )

    def give_up(self, batch: WaitingBatch, error: PartitionError) -> None:
        """Refuse a batch that waits at the guard."""
        self._guard.withdraw(self.waiting.pop(batch))
        self._refuse(batch, error)

    def _refuse(self, batch: WaitingBatch, error: PartitionError) -> None:
        """Refuse a batch, and the later ones of its producer until it is sent again."""
        writes, partition = self._writes, batch.partition
        partition.refused.note(batch.records, error.error_code, writes.clock.now_ms())
        writes.refuse(partition.tp, batch.result, error)

    def _note(self, ack: PendingAck | None) -> None:
        if ack is not None:
            self._pending.append(ack)

    def _left_ms(self) -> int:
        return max(0, self._deadline_ms - self._writes.clock.now_ms())

    def go_on(self) -> None:
        """Answer when the replicas have what was appended."""
        self._operation = None
        done = partial(self._done, self.results)
        if self._pending:
            self._writes.await_acks(self._pending, self._left_ms(), done, self._client)
        else:
            done()
