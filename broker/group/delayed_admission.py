"""The delayed operation of TxnOffsetCommit: it waits until the transaction's coordinator has confirmed the transaction.

The records are appended as soon as the guard admits them (see `TransactionGuard.when_admitted`); then the request waits
for the replicas, as any commit. The operation is there for the deadline, and for those who look at the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from purgatorio.broker.causes.cause import TransactionNotConfirmed
from purgatorio.broker.causes.words import shortened
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.purgatory import DelayedOperation
from purgatorio.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class AdmissionKey:
    """The watch key of the commits that a transaction's coordinator is asked about."""

    transactional_id: str

    def __str__(self) -> str:
        return shortened(self.transactional_id)


class DelayedAdmission(DelayedOperation):
    """A TxnOffsetCommit that is neither admitted nor refused yet.

    Args:
        delay_ms: how long the request may wait.
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
