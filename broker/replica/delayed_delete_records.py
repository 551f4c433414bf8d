"""A request to delete records that waits until every in-sync replica has deleted them (KIP-107)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.purgatory import DelayedOperation
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.results import DeleteRecordsResult
from purgatorio.protocol.errors import ErrorCode


@dataclass(slots=True)
class PendingDeletion:
    """One partition whose leader has deleted, and whose followers are not known to have.

    Attributes:
        required_offset: where every in-sync replica has to begin.
        result: the partition's answer.
    """

    partition: Partition
    required_offset: int
    result: DeleteRecordsResult


class DelayedDeleteRecords(DelayedOperation):
    """Waits, per partition, until the low watermark has reached the offset, or the partition cannot get there.

    Args:
        delay_ms: the request's own timeout.
        pending: the partitions whose leader has deleted.
        partitions: this broker's replicas by name, as they are at the time of each check.
        done: told that every result is filled in; called once.
    """

    __slots__ = ("_done", "_partitions", "_pending")

    def __init__(
        self,
        delay_ms: int,
        pending: list[PendingDeletion],
        partitions: Mapping[TopicPartition, Partition],
        done: Callable[[], None],
    ) -> None:
        super().__init__(delay_ms)
        self._pending = pending
        self._partitions = partitions
        self._done = done

    def try_complete(self) -> bool:
        """Settle the partitions that can be settled; complete when none is left."""
        self._pending = [deletion for deletion in self._pending if not self._settle(deletion)]
        return not self._pending and self.force_complete()

    def _settle(self, deletion: PendingDeletion) -> bool:
        """Whether the partition's answer is certain; it is filled in if so."""
        partition, result = deletion.partition, deletion.result
        if self._partitions.get(partition.tp) is not partition:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not partition.is_leader:
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif partition.low_watermark < deletion.required_offset:
            return False
        else:
            result.low_watermark = partition.low_watermark
        return True

    def missing(self) -> str:
        """Which replicas' logs still start before the offset."""
        return "; ".join(_late_starters_in_words(deletion) for deletion in self._pending)

    def held_by(self) -> tuple[int, ...]:
        """The replicas whose logs still start before the offset."""
        late = [broker_id for deletion in self._pending for broker_id, _ in _late_starters(deletion)]
        return tuple(dict.fromkeys(late))

    def on_complete(self) -> None:
        """Answer; whatever is still pending has run out of time."""
        self._fail(ErrorCode.REQUEST_TIMED_OUT)

    def on_shutdown(self) -> None:
        """Answer with an error after which a client looks for the new leader and tries again."""
        self._fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def on_error(self, error: Exception) -> None:
        """Answer that the broker failed."""
        self._fail(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _fail(self, error_code: ErrorCode) -> None:
        for deletion in self._pending:
            deletion.result.error_code = error_code
        self._done()


def _late_starters(deletion: PendingDeletion) -> list[tuple[int, int]]:
    """The followers of the maximal in-sync set that have not deleted yet, and where their logs start."""
    partition = deletion.partition
    proposed = () if partition.proposal is None else partition.proposal.isr
    followers = partition.followers
    return [
        (broker_id, followers[broker_id].log_start_offset)
        for broker_id in dict.fromkeys((*partition.isr, *(incarnation.broker_id for incarnation in proposed)))
        if broker_id in followers and followers[broker_id].log_start_offset < deletion.required_offset
    ]


def _late_starters_in_words(deletion: PendingDeletion) -> str:
    late = [
        f"broker {broker_id} "
        + (f"starts at {start} of {deletion.required_offset}" if start >= 0 else "has not fetched yet")
        for broker_id, start in _late_starters(deletion)
    ]
    return f"{deletion.partition.tp}: {', '.join(late)}"
