"""A produce request with acks=-1 that waits until every in-sync replica has its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.purgatory import DelayedOperation
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.results import AppendResult
from purgatorio.protocol.errors import ErrorCode


@dataclass(slots=True)
class PendingAck:
    """One partition of the request that was appended and is not acknowledged yet.

    Attributes:
        partition: the replica that took the records; a later partition of the same name is another one.
        required_offset: the high watermark that acknowledges the records: one past the last of them.
        result: the partition's answer, already filled in but for its error code.
    """

    partition: Partition
    required_offset: int
    result: AppendResult


class DelayedProduce(DelayedOperation):
    """Waits, per partition, until the high watermark reaches the records or the partition cannot acknowledge them.

    Args:
        delay_ms: the request's own timeout.
        pending: the partitions that were appended.
        partitions: this broker's replicas by name, as they are at the time of each check.
        done: told that every result is filled in; called once.
        expired: told each partition that ran out of time.
    """

    __slots__ = ("_done", "_expired", "_partitions", "_pending", "_released_by")

    def __init__(
        self,
        delay_ms: int,
        pending: list[PendingAck],
        partitions: Mapping[TopicPartition, Partition],
        done: Callable[[], None],
        expired: Callable[[TopicPartition], None],
    ) -> None:
        super().__init__(delay_ms)
        self._pending = pending
        self._partitions = partitions
        self._done = done
        self._expired = expired
        self._released_by = -1

    def try_complete(self) -> bool:
        """Settle the partitions that can be settled; complete when none is left."""
        self._pending = [ack for ack in self._pending if not self._settle(ack)]
        return not self._pending and self.force_complete()

    def _settle(self, ack: PendingAck) -> bool:
        """Whether the partition's answer is certain; its error code is set if so."""
        partition = ack.partition
        if self._partitions.get(partition.tp) is not partition:
            ack.result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif partition.leader != partition.broker_id:
            ack.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            # The producer need not ask who leads now (KIP-951).
            ack.result.leader_id, ack.result.leader_epoch = partition.leader, partition.leader_epoch
        elif partition.high_watermark < ack.required_offset:
            if partition.has_enough_in_sync_replicas:
                return False
            # The high watermark stands still until there are enough again: the producer learns now what it waits for.
            ack.result.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        else:
            self._released_by = partition.high_watermark_moved_by
        return True

    def missing(self) -> str:
        """Which replicas have not got the records yet."""
        return "; ".join(ack.partition.laggards(ack.required_offset) for ack in self._pending)

    def held_by(self) -> tuple[int, ...]:
        """The replicas that have not got the records yet; when all have, the one that got them last."""
        if self._pending:
            laggards = [
                incarnation for ack in self._pending for incarnation in ack.partition.laggard_ids(ack.required_offset)
            ]
            return tuple(dict.fromkeys(laggards))
        return () if self._released_by < 0 else (self._released_by,)

    def on_complete(self) -> None:
        """Answer; whatever is still pending has run out of time."""
        for ack in self._pending:
            ack.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._done()

    def on_expiration(self) -> None:
        """Count an expiry for each partition that held the request up."""
        for ack in self._pending:
            self._expired(ack.partition.tp)

    def on_shutdown(self) -> None:
        """Answer with an error after which a producer looks for the new leader and tries again."""
        self._fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def on_error(self, error: Exception) -> None:
        """Answer that the broker failed."""
        self._fail(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _fail(self, error_code: ErrorCode) -> None:
        for ack in self._pending:
            ack.result.error_code = error_code
        self._done()
