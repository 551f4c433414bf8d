"""The delayed operation of a client's request that waits for a transition of its transactional id.

Kafka answers CONCURRENT_TRANSACTIONS, and clients ask again after 20 to 100 ms; kafkajs never asks again for EndTxn and
AddOffsetsToTxn. Here the request waits until the transition has ended, and is judged then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from purgatorio.broker.causes.cause import MarkersMissing, StateNotCommitted
from purgatorio.broker.causes.words import shortened
from purgatorio.broker.purgatory import DelayedOperation
from purgatorio.broker.txn.shard import TransactionShard
from purgatorio.broker.txn.transaction import Transaction
from purgatorio.protocol.errors import ErrorCode

PATIENCE_MS: Final = 5_000
"""The longest wait of a request. Clients give up after 30 s and more (Java, kafkajs: 30 s, aiokafka: 40 s)."""

LEADER_PATIENCE_MS: Final = 100
"""The time after the begin of a transition in which leaders' requests wait for it; so long Kafka's leaders ask again.

Requests of other producers wait behind them, as leaders send many in one. A transition that takes longer, because a
broker has died, holds them up once and not each time that its producer tries again.
"""


@dataclass(frozen=True, slots=True)
class TransactionKey:
    """The watch key of a transactional id."""

    transactional_id: str

    def __str__(self) -> str:
        return shortened(self.transactional_id)


class DelayedTransition(DelayedOperation):
    """A request that is judged when its transactional id has no transition under way.

    Args:
        delay_ms: how long the request may wait.
        shard, transaction: those of the transactional id.
        judge: judges the request, and answers it or parks it again.
        refuse: answers it with an error code.
        cause: returns what the transition waits for.
    """

    __slots__ = ("_cause", "_judge", "_refuse", "_shard", "_transaction", "_value")

    def __init__(
        self,
        delay_ms: int,
        shard: TransactionShard,
        transaction: Transaction,
        *,
        judge: Callable[[], None],
        refuse: Callable[[ErrorCode], None],
        cause: Callable[[Transaction], StateNotCommitted | MarkersMissing],
    ) -> None:
        super().__init__(delay_ms)
        self._shard = shard
        self._transaction = transaction
        self._value = transaction.value
        self._judge = judge
        self._refuse = refuse
        self._cause = cause

    @property
    def _waits(self) -> bool:
        transaction = self._transaction
        is_same = transaction.value is self._value
        return self._shard.is_active and (transaction.is_busy if is_same else transaction.pending is not None)

    def try_complete(self) -> bool:
        """Complete when the transition has ended, also if the next one follows: some requests can be refused then."""
        return not self._waits and self.force_complete()

    def on_complete(self) -> None:
        """Judge the request; refuse it if its time is over."""
        if self._waits:
            self._refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
        else:
            self._judge()

    def on_shutdown(self) -> None:
        """Refuse with NOT_COORDINATOR: the client looks for another broker."""
        self._refuse(ErrorCode.NOT_COORDINATOR)

    def on_error(self, error: Exception) -> None:
        """Refuse with UNKNOWN_SERVER_ERROR."""
        self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    def causes(self) -> Sequence[StateNotCommitted | MarkersMissing]:
        """Return what the transition waits for."""
        return (self._cause(self._transaction),) if self._waits else ()
