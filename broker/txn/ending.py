"""How a coordinator has a decided transaction ended: what the leaders of its partitions are told, and by whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from purgatorio.broker.causes.cause import MarkersMissing
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.errors import ErrorCode

BUMPING_VERSION: Final = 2
"""The first transaction.version in which each end of a transaction raises the producer's epoch (KIP-890)."""


class TransactionEnd(NamedTuple):
    """A transaction whose end is decided and replicated; its markers can be written.

    Attributes:
        transactional_id: names the transaction in logs and on the page.
        producer_id, producer_epoch: those of the markers, which fence older epochs.
        committed: whether it is committed, or aborted.
        coordinator_epoch: the leader epoch of the coordinator's partition.
        partitions: where markers are still to be written.
        version: the transaction.version by which leaders check the epoch: 2 if this epoch is newer than the data's.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]
    version: int


class EndsTransactions(Protocol):
    """Has the leaders of partitions write end markers, over failures of any kind."""

    def end(
        self, end: TransactionEnd, *, written: Callable[[TopicPartition], None], gave_up: Callable[[ErrorCode], None]
    ) -> None:
        """Have each partition's leader append the marker with acks=-1, and retry for ever.

        Partitions that this broker leads may be written before this returns. An earlier end of the same transactional
        id is dropped.

        Args:
            written: called once per partition: the marker is committed there, or the topic does not exist any more.
            gave_up: called at most once, instead of `written` for what is left: a leader knows a newer epoch of the
                producer or the coordinator (INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED).
        """
        ...

    def drop(self, transactional_id: str, coordinator_epoch: int) -> None:
        """Retry no more: this broker does not coordinate the transactional id any more. Calls nothing."""
        ...

    def waits_for(self, transactional_id: str) -> MarkersMissing:
        """Return the first partitions whose markers are missing, with their leaders, for the page."""
        ...
