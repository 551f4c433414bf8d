"""The delayed operation of DeleteRecords: waits until every in-sync replica has deleted the records (KIP-107)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from purgatorio.broker.causes.cause import LogStartBehind
from purgatorio.broker.replica.leaders_answer import LeadersAnswer
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode


@dataclass(slots=True)
class DeleteRecordsResult:
    """The result of one deletion.

    Attributes:
        low_watermark: the smallest log start offset of the in-sync replicas (KIP-107); -1 with an error.
    """

    error_code: ErrorCode = ErrorCode.NONE
    low_watermark: int = -1


DeleteRecordsDone = Callable[[Sequence[DeleteRecordsResult]], None]
"""Receives one result for each deletion, in their order; called once."""


@dataclass(slots=True)
class PendingDeletion:
    """One partition whose leader has deleted the records; its low watermark is below the offset.

    Attributes:
        required_offset: the low watermark that completes the deletion.
        result: the partition's result, filled in when it is final.
    """

    partition: Partition
    required_offset: int
    result: DeleteRecordsResult


class DelayedDeleteRecords(LeadersAnswer):
    """Waits, per partition, until the low watermark reaches the offset, or this broker no longer leads the partition.

    Args:
        delay_ms: the request's timeout.
        pending: the partitions whose leader has deleted the records.
        lookup: finds this broker's replicas, at each check.
        done: called once, when every result is filled in.
    """

    __slots__ = ("_done", "_lookup", "_pending")

    def __init__(
        self,
        delay_ms: int,
        pending: list[PendingDeletion],
        lookup: ReplicaLookup,
        done: Callable[[], None],
    ) -> None:
        super().__init__(delay_ms)
        self._pending = pending
        self._lookup = lookup
        self._done = done

    def try_complete(self) -> bool:
        """Fill in the results that are final; complete when no partition is pending."""
        self._pending = [deletion for deletion in self._pending if not self._settle(deletion)]
        return not self._pending and self.force_complete()

    def _settle(self, deletion: PendingDeletion) -> bool:
        """Fill in the partition's result if it is final; returns whether it is."""
        partition, result = deletion.partition, deletion.result
        try:
            self._lookup.check_kept(partition)
        except PartitionError as error:
            result.error_code = error.error_code
            return True
        if not partition.is_leader:
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif partition.low_watermark < deletion.required_offset:
            return False
        else:
            result.low_watermark = partition.low_watermark
        return True

    def causes(self) -> list[LogStartBehind]:
        """Return the replicas whose log start offset is still below the offset."""
        return [late for deletion in self._pending for late in _late_starters(deletion)]

    def held_by(self) -> tuple[int, ...]:
        """Return the brokers of these replicas."""
        return tuple(dict.fromkeys(late.broker_id for late in self.causes()))

    def fail(self, error_code: ErrorCode) -> None:
        """Answer, with this error for what is still pending."""
        for deletion in self._pending:
            deletion.result.error_code = error_code
        self._done()


def _late_starters(deletion: PendingDeletion) -> list[LogStartBehind]:
    """Return the followers in the maximal ISR that have not deleted yet."""
    partition = deletion.partition
    proposed = () if partition.proposal is None else partition.proposal.isr
    followers = partition.followers
    return [
        LogStartBehind(partition.tp, broker_id, followers[broker_id].log_start_offset, deletion.required_offset)
        for broker_id in dict.fromkeys((*partition.isr, *(incarnation.broker_id for incarnation in proposed)))
        if broker_id in followers and followers[broker_id].log_start_offset < deletion.required_offset
    ]
