"""The delayed operation of Produce within a transaction: waits until the coordinator has confirmed the transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from purgatorio.broker.causes.cause import TransactionNotConfirmed
from purgatorio.broker.causes.words import MAX_NAMED
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.replica.producing.delayed_produce import AppendResult, DelayedProduce
from purgatorio.broker.replica.producing.verification import GuardedAppend
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.primitives import Buffer
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
        delay_ms: the request's timeout.
        transactional_id: names the transaction, for the page.
        waiting: the batches that wait, with their places at the guard; their owner takes out those that are decided.
        lookup: finds this broker's replicas, at each check.
        refuse: refuses a batch that waits, and takes it out.
        go_on: called once, when no batch waits any more.
    """

    __slots__ = ("_go_on", "_lookup", "_refuse", "_transactional_id", "_waiting")

    def __init__(
        self,
        delay_ms: int,
        transactional_id: str,
        waiting: Mapping[WaitingBatch, GuardedAppend],
        lookup: ReplicaLookup,
        refuse: Callable[[WaitingBatch, PartitionError], None],
        go_on: Callable[[], None],
    ) -> None:
        super().__init__(delay_ms)
        self._transactional_id = transactional_id
        self._waiting = waiting
        self._lookup = lookup
        self._refuse = refuse
        self._go_on = go_on

    def try_complete(self) -> bool:
        """Refuse the batches of partitions that are led elsewhere now; complete when no batch waits."""
        for batch in list(self._waiting):
            try:
                self._lookup.check_kept(batch.partition)
                if not batch.partition.is_leader:
                    raise PartitionError(
                        ErrorCode.NOT_LEADER_OR_FOLLOWER,
                        f"{batch.partition.tp} is led by broker {batch.partition.leader} now",
                    )
            except PartitionError as error:
                self._refuse(batch, error)
        return not self._waiting and self.force_complete()

    def causes(self) -> tuple[TransactionNotConfirmed]:
        """Return the transaction, and the first partitions that its coordinator has not confirmed."""
        partitions = tuple(batch.partition.tp for batch in islice(self._waiting, MAX_NAMED))
        more_count = len(self._waiting) - len(partitions)
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
        for batch in list(self._waiting):
            self._refuse(batch, PartitionError(code, reason))
        self._go_on()


ProduceOperation = DelayedProduce | DelayedVerification
"""The operations that wait in the Produce purgatory."""
