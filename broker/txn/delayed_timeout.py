"""The delayed operation of an open transaction: its deadline aborts it (transaction.timeout.ms).

Kafka looks for such transactions each 10 s; here each has its own time.
"""

from __future__ import annotations

from collections.abc import Callable

from purgatorio.broker.causes.cause import TransactionNotEnded
from purgatorio.broker.purgatory import DelayedOperation
from purgatorio.broker.txn.transaction import Transaction


class DelayedTimeout(DelayedOperation):
    """An open transaction, until it ends or its time is over.

    Args:
        delay_ms: the time that is left.
        transaction: the transaction, whose `timeout` is this operation while it is open.
        expired: called when its time is over.
    """

    __slots__ = ("_expired", "_transaction")

    def __init__(self, delay_ms: int, transaction: Transaction, expired: Callable[[], None]) -> None:
        super().__init__(delay_ms)
        self._transaction = transaction
        self._expired = expired

    def try_complete(self) -> bool:
        """Complete when the transaction has ended."""
        return self._transaction.timeout is not self and self.force_complete()

    def on_complete(self) -> None:
        """Answer no request: a timeout has none."""

    def on_shutdown(self) -> None:
        """Leave the transaction open: the next coordinator goes on with it."""
        self._transaction.timeout = None

    def on_expiration(self) -> None:
        """Abort the transaction."""
        self._expired()

    def causes(self) -> tuple[TransactionNotEnded]:
        """Return the transaction that is open."""
        transaction = self._transaction
        return (TransactionNotEnded(transaction.transactional_id, len(transaction.value.partitions)),)
