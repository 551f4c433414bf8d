"""The guard of a leader's logs: a transaction begins in a log only if its coordinator knows that it does (KIP-890).

Without it, a record that arrives after its transaction's marker would open a transaction that no marker ever ends, and
readers under read_committed would wait for ever (KAFKA-12671: a hanging transaction). So before the first record of a
transaction the leader asks the coordinator. While it asks, further appends of the producer wait behind the first one,
so that a producer with several requests in flight keeps its order.

An append goes through if the coordinator says yes and the verification still stands:

* An end marker of the producer cancels it, since the answer may be older than the marker (KAFKA-14884). The marker has
  the transaction's epoch, or a higher one that fences it. With transaction.version 2 a producer has a new epoch after
  each transaction, which the marker of that transaction has too: it cancels nothing of the next one (KAFKA-18575,
  KAFKA-18654).
* A change of the leader epoch cancels it: another leader may have written the marker.

A producer with an older epoch than the log knows is refused for that before anything else (KAFKA-19690).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.log.validator import RecordValidation
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.replica.producing.verification import (
    GUARDED_APPEND_BYTES,
    GuardedAppend,
    ProducerTransaction,
    Verification,
    VerifyPartitions,
)
from purgatorio.broker.routing.passing_errors import ASK_AGAIN
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import ActionQueue

logger = get_logger(__name__)

MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
"""The most memory of the appends of one broker that wait for coordinators; further ones are to be retried. One that is
larger may wait alone."""


class TransactionGuard:
    """The guard of one broker's logs.

    Args:
        lookup: finds this broker's replicas.
        actions: the queue of events that are handled when the outermost call returns.
        validation: the appends that waited for an answer together may cause the work of one request.
        max_waiting_bytes: the most memory of the appends that wait.

    Attributes:
        max_waiting_bytes: see above.
        verify: asks coordinators; None until the broker is composed, and all transactions are refused.
        waiting_bytes: the memory of the appends that wait.
    """

    def __init__(
        self,
        lookup: ReplicaLookup,
        actions: ActionQueue,
        validation: RecordValidation,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        self._lookup = lookup
        self._actions = actions
        self._validation = validation
        self.max_waiting_bytes = max_waiting_bytes
        self.verify: VerifyPartitions | None = None
        self.waiting_bytes = 0

    def when_admitted(
        self, tp: TopicPartition, transaction: ProducerTransaction, done: Callable[[ErrorCode], None]
    ) -> GuardedAppend:
        """Let a coordinator append records of a client's transaction to its own partition (KAFKA-15449).

        Args:
            tp: a partition that this broker leads.
            done: called once, perhaps before this returns. With NONE the caller appends before it returns, or not at
                all; other codes are for the client.

        Returns:
            The argument of `withdraw`, which ends the wait.
        """
        append = GuardedAppend(done)
        try:
            partition = self._lookup.find(tp)
            partition.check_leader(-1)
        except PartitionError as error:
            done(error.error_code)
        else:
            self.admit(transaction, [(partition, append)])
        return append

    def is_open(self, transaction: ProducerTransaction, partition: Partition) -> bool:
        """Return whether the transaction has begun in the log, and no append waits that came before."""
        producer_id, epoch = transaction.producer_id, transaction.producer_epoch
        if partition.verifications and partition.verifications.get(producer_id, epoch) is not None:
            return False
        return partition.log.producers.is_open(producer_id, epoch)

    def admit(self, transaction: ProducerTransaction, appends: Sequence[tuple[Partition, GuardedAppend]]) -> None:
        """Decide for each append of one request: now, if there is nothing to ask and nothing to wait for; else later.

        Args:
            appends: the appends with their partitions, which this broker leads.
        """
        producer_id, epoch = transaction.producer_id, transaction.producer_epoch
        asked: dict[TopicPartition, tuple[Partition, Verification]] = {}
        for partition, append in appends:
            verification = partition.verifications.get(producer_id, epoch)
            if verification is not None and verification.leader_epoch != partition.leader_epoch:
                verification = None
            if verification is None and partition.log.producers.is_open(producer_id, epoch):
                append.done(ErrorCode.NONE)
                continue
            refusal = self._refusal(transaction, partition, append)
            if refusal:
                append.done(refusal)
                continue
            if verification is None:
                verification = Verification(partition.leader_epoch, transaction.adds_partitions)
                partition.verifications.add(producer_id, epoch, verification)
                asked[partition.tp] = partition, verification
            verification.add(append)
            self._count(append, append.memory_bytes)
        if asked and self.verify is not None:
            done = partial(self._answered, transaction, asked)
            self.verify(
                transaction.transactional_id,
                producer_id,
                epoch,
                list(asked),
                add=transaction.adds_partitions,
                done=done,
            )

    def withdraw(self, append: GuardedAppend) -> None:
        """Give up an append that waits: its `done` is not called, and its records are not kept for it."""
        append.is_withdrawn = True
        self._count(append, min(append.counted_bytes, GUARDED_APPEND_BYTES))

    def _count(self, append: GuardedAppend, memory_bytes: int) -> None:
        self.waiting_bytes += memory_bytes - append.counted_bytes
        append.counted_bytes = memory_bytes

    def _refusal(self, transaction: ProducerTransaction, partition: Partition, append: GuardedAppend) -> ErrorCode:
        """Return why an append cannot even wait; NONE if it can."""
        if _is_stale(transaction, partition):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.verify is None:
            return ErrorCode.INVALID_TXN_STATE
        if self.waiting_bytes and self.waiting_bytes + append.memory_bytes > self.max_waiting_bytes:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def _answered(
        self,
        transaction: ProducerTransaction,
        asked: Mapping[TopicPartition, tuple[Partition, Verification]],
        codes: Mapping[TopicPartition, ErrorCode],
    ) -> None:
        """Let the appends go that waited for these answers, in their order."""
        with self._actions:
            self._validation.begin_request()
            for tp, (partition, verification) in asked.items():
                code = _code_for_producer(codes.get(tp, ErrorCode.UNKNOWN_SERVER_ERROR), transaction)
                self._release(transaction, partition, verification, code)
                partition.verifications.remove(transaction.producer_id, transaction.producer_epoch, verification)

    def _release(
        self, transaction: ProducerTransaction, partition: Partition, verification: Verification, code: ErrorCode
    ) -> None:
        waiting = verification.waiting
        while waiting:
            append = waiting.popleft()
            self._count(append, 0)
            if append.is_withdrawn:
                continue
            try:
                append.done(self._fate(transaction, partition, verification, code, append.sequence))
            except Exception:  # a bug; the others must not wait for ever, and its own request has a deadline
                logger.exception("an append could not be made", partition=str(partition.tp))

    def _fate(
        self,
        transaction: ProducerTransaction,
        partition: Partition,
        verification: Verification,
        code: ErrorCode,
        sequence: int,
    ) -> ErrorCode:
        """Return NONE if the append may go on, now that the verification was answered with `code`."""
        if self._lookup.known(partition.tp) is not partition or partition.leader_epoch != verification.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if _is_stale(transaction, partition):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code:
            return code
        if partition.verifications.get(transaction.producer_id, transaction.producer_epoch) is not verification:
            return ErrorCode.INVALID_TXN_STATE
        if partition.log.producers.get(transaction.producer_id) is None and not verification.may_begin_with(sequence):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.NONE


def _is_stale(transaction: ProducerTransaction, partition: Partition) -> bool:
    """Return whether the log knows a higher epoch of the producer."""
    state = partition.log.producers.get(transaction.producer_id)
    return state is not None and transaction.producer_epoch < state.epoch


def _code_for_producer(code: ErrorCode, transaction: ProducerTransaction) -> ErrorCode:
    """Return the error code for a producer, when the coordinator's answer was `code`.

    Clients know no errors of coordinators in Produce: NOT_ENOUGH_REPLICAS makes all of them retry (KAFKA-16386). They
    know no PRODUCER_FENCED there either. Only clients of transaction.version 2 know CONCURRENT_TRANSACTIONS.
    """
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code in ASK_AGAIN:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code == ErrorCode.CONCURRENT_TRANSACTIONS and not transaction.adds_partitions:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code
