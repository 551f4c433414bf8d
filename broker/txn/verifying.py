"""What leaders ask of the transaction coordinator of their own broker (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.errors import ErrorCode

Verified = Callable[[Mapping[TopicPartition, ErrorCode]], None]
"""Receives an error code for each partition of a verification; called once."""


class AddsPartitions(Protocol):
    """The coordinator's part in a verification, as in one transaction of AddPartitionsToTxn 4 and 5."""

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
        done: Verified,
    ) -> None:
        """Call `done` once, with the coordinator's own error codes; perhaps before this returns.

        A verification is answered at once; partitions are added when a transition ends that has just begun.

        Args:
            verify_only: check that the partitions are in the transaction; else add those that are not.
            done: gets a code for each partition: NONE, TRANSACTION_ABORTABLE for one that is not in the transaction,
                or what is wrong with the transaction or the coordinator (NOT_COORDINATOR, CONCURRENT_TRANSACTIONS ...)
                for all of them.
        """
        ...
