"""Offsets that are committed with a transaction: TxnOffsetCommit, and their end with the transaction's.

An offset is a record of the transaction in ``__consumer_offsets``, so it is checked like records that the producer
sends: by the transaction's coordinator, unless the transaction is open in this log already (KAFKA-15449). The offsets
become visible when the marker that commits the transaction is replicated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from purgatorio.broker.causes.cause import TransactionNotConfirmed
from purgatorio.broker.causes.words import shortened
from purgatorio.broker.coordinator.coordinator_log import Committed, TransactionalProducer
from purgatorio.broker.coordinator.errors import CoordinatorError, coordinator_error
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.offset_manager import OffsetManager, OffsetWriter
from purgatorio.broker.group.offsets import CommittedOffset, OffsetChange
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.producing.transaction_guard import TransactionGuard
from purgatorio.broker.replica.producing.verification import ProducerTransaction
from purgatorio.late import dataclass
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.offset_records import encode_offset_key
from purgatorio.purgatory import DelayedOperation

MEMBER_EPOCH_VERSION: Final = 6
"""The first version of TxnOffsetCommit whose clients know the errors of member epochs and unknown groups (KIP-1319)."""
MAX_OFFSETS_OF_TRANSACTION: Final = 5_000
"""The most offsets of one transaction in one partition of ``__consumer_offsets``: its marker lets all of them take
effect at once, which takes 12 ms."""


@dataclass(frozen=True, slots=True)
class AdmissionKey:
    """The watch key of the commits that a transaction's coordinator is asked about."""

    transactional_id: str

    def __str__(self) -> str:
        return shortened(self.transactional_id)


class DelayedAdmission(DelayedOperation):
    """A TxnOffsetCommit that is neither admitted nor refused yet.

    Args:
        transactional_id: names the transaction.
        tp: the partition of ``__consumer_offsets``.
        give_up: answers the request with an error code, and appends nothing any more.

    Attributes:
        is_decided: the guard has admitted or refused the records.
    """

    __slots__ = ("_give_up", "_tp", "_transactional_id", "is_decided")

    def __init__(
        self, delay_ms: int, transactional_id: str, tp: TopicPartition, give_up: Callable[[ErrorCode], None]
    ) -> None:
        super().__init__(delay_ms)
        self._transactional_id = transactional_id
        self._tp = tp
        self._give_up = give_up
        self.is_decided = False

    def try_complete(self) -> bool:
        """Complete when the guard has decided."""
        return self.is_decided and self.force_complete()

    def causes(self) -> tuple[TransactionNotConfirmed]:
        """Return the transaction, and the partition that its coordinator has not confirmed."""
        return (TransactionNotConfirmed(self._transactional_id, (self._tp,)),)

    def on_complete(self) -> None:
        """Answer with COORDINATOR_NOT_AVAILABLE if the deadline came first: the client tries again."""
        self._answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def on_shutdown(self) -> None:
        """Answer with NOT_COORDINATOR: the client looks for another broker."""
        self._answer(ErrorCode.NOT_COORDINATOR)

    def on_error(self, error: Exception) -> None:
        """Answer with UNKNOWN_SERVER_ERROR."""
        self._answer(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _answer(self, error_code: ErrorCode) -> None:
        if not self.is_decided:
            self._give_up(error_code)


class CommittingMember(NamedTuple):
    """The member of the group that commits, if the request names one (KIP-447)."""

    member_id: str = ""
    instance_id: str | None = None
    generation_or_epoch: int = -1


class TxnCommit(NamedTuple):
    """A request to commit offsets with a transaction.

    Attributes:
        transaction: adds the partition of ``__consumer_offsets``, unless AddOffsetsToTxn has done so.
        offsets: topic, partition and offset each; at least one.
        version: the version of the request, which says what errors the client knows.
    """

    group_id: str
    transaction: ProducerTransaction
    offsets: Sequence[tuple[str, int, CommittedOffset]]
    membership: CommittingMember = CommittingMember()
    client: str = ""
    version: int = 0


class TxnOffsetManager:
    """The offsets of transactions in the groups that one broker coordinates.

    Args:
        services: the settings, and the purgatory of requests that wait for the coordinator of their transaction.
        offsets: the other offsets, with which they share the limits.
        guard: lets only records of transactions into the log that their coordinators know.

    Attributes:
        asking_count: the offsets that wait for the coordinator of their transaction.
    """

    def __init__(
        self,
        services: GroupServices,
        coordinator: GroupCoordinator,
        offsets: OffsetManager,
        writer: OffsetWriter,
        guard: TransactionGuard,
    ) -> None:
        self._config = services.config
        self._purgatory = services.transaction_purgatory
        self._coordinator = coordinator
        self._offsets = offsets
        self._writer = writer
        self._guard = guard
        self.asking_count = 0

    def commit(self, request: TxnCommit, done: Committed) -> None:
        """Write offsets of a group that become visible when the transaction commits.

        Args:
            done: called when the records are committed, or have failed; perhaps before this returns.

        Raises:
            CoordinatorError: the offsets may not be committed: with the error code for each of them.
        """
        shard = self._coordinator.shard_of(request.group_id)
        self._check(shard, request)
        encode_offset_key(request.group_id, *request.offsets[0][:2])  # one that is too long is found before it waits
        transaction, count = request.transaction, len(request.offsets)
        self.asking_count += count

        def admitted(error_code: ErrorCode) -> None:
            self.asking_count -= count
            operation.is_decided = True
            self._admitted(shard, request, error_code, done)
            self._purgatory.check_and_complete(AdmissionKey(transaction.transactional_id), "the guard")

        def give_up(error_code: ErrorCode) -> None:
            self.asking_count -= count
            self._guard.withdraw(append)
            done(error_code)

        operation = DelayedAdmission(
            self._config.offsets_commit_timeout_ms, transaction.transactional_id, shard.tp, give_up
        )
        operation.client = request.client
        append = self._guard.when_admitted(shard.tp, transaction, admitted)
        if not operation.is_decided:
            self._purgatory.try_complete_else_watch(operation, (AdmissionKey(transaction.transactional_id),))

    def _admitted(self, shard: GroupShard, request: TxnCommit, error_code: ErrorCode, done: Committed) -> None:
        """Append the records, now that the guard has decided with this error code."""
        if error_code:
            done(coordinator_error(error_code))
            return
        try:
            if self._coordinator.shard_of(request.group_id) is not shard:
                raise CoordinatorError(ErrorCode.NOT_COORDINATOR, f"{shard.tp} was led elsewhere meanwhile")
            self._check(shard, request)
        except CoordinatorError as error:
            done(error.error_code)
            return

        def settled(error_code: ErrorCode) -> None:
            if error_code == ErrorCode.NONE:
                self._offsets.commit_count += len(request.offsets)
            done(error_code)

        transaction = request.transaction
        changes = [OffsetChange(request.group_id, *offset) for offset in request.offsets]
        producer = TransactionalProducer(
            transaction.producer_id, transaction.producer_epoch, transaction.transactional_id
        )
        self._writer.write(shard, changes, settled, client=request.client, producer=producer)

    def _check(self, shard: GroupShard, request: TxnCommit) -> None:
        """Check that the member may commit, and that there is room.

        Raises:
            CoordinatorError: it may not.
        """
        group_id, transaction, offsets, membership, _, version = request
        if group_id in shard.deleting:
            raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"group {group_id!r} is being deleted")
        group = shard.groups.get(group_id)
        if group is not None:
            group.check_txn_commit(*membership)
        elif membership.generation_or_epoch >= 0:
            is_known = shard.offsets.knows(group_id)
            is_new = version >= MEMBER_EPOCH_VERSION
            unknown = ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
            code = ErrorCode.UNKNOWN_MEMBER_ID if is_known else unknown
            raise CoordinatorError(code, f"group {group_id!r} has no members")
        partitions = [each[:2] for each in offsets]
        written = shard.offsets.transactional.with_more(transaction.producer_id, group_id, partitions)
        if written > MAX_OFFSETS_OF_TRANSACTION:
            message = f"a transaction may write {MAX_OFFSETS_OF_TRANSACTION} offsets to {shard.tp}"
            raise CoordinatorError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, message)
        self._offsets.check_limits(shard, group_id, offsets, waiting=self.asking_count)

    def end(
        self, tp: TopicPartition, producer_id: int, producer_epoch: int, marker: EndMarker, done: Committed
    ) -> None:
        """Append the marker that ends a producer's transaction to a partition of ``__consumer_offsets``, and apply it.

        Answered when the offsets are visible, or dropped: a consumer that asks afterwards must not learn that they
        are still open (KAFKA-17507).
        """
        try:
            shard = self._coordinator.shard_at(tp)
            if shard.offsets.pending_count >= self._config.max_offsets:
                raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"too many changes of {tp} wait")
        except CoordinatorError as error:
            done(error.error_code)
            return
        self._writer.end(shard, TransactionalProducer(producer_id, producer_epoch), marker, done)
